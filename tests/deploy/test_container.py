"""The container file, as far as it can be judged without building it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.containerfile import read_instructions
from tests.harness.postfix import DEPLOY

SETTINGS_TEXT = yaml.safe_load((DEPLOY / "container" / "nbstream.yaml").read_text())


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    return read_instructions(DEPLOY / "container" / "Containerfile")


def every(instructions: list[tuple[str, str]], name: str) -> Iterator[str]:
    return (arguments for instruction, arguments in instructions if instruction == name)


def last(instructions: list[tuple[str, str]], name: str) -> str:
    return list(every(instructions, name))[-1]


def test_it_runs_without_root(instructions: list[tuple[str, str]]) -> None:
    user = last(instructions, "USER")
    assert user not in {"root", "0"}
    assert any(rest.startswith("useradd ") and f" {user} " in rest for rest in every(instructions, "RUN"))
    names = [name for name, _ in instructions]
    assert "RUN" not in names[names.index("USER") :]


def test_the_entrypoint_hands_over_to_the_daemon_so_that_signals_reach_it(
    instructions: list[tuple[str, str]],
) -> None:
    assert json.loads(last(instructions, "ENTRYPOINT")) == ["nbstream-entrypoint"]
    assert json.loads(last(instructions, "CMD")) == ["serve", "--config", "/etc/nbstream/nbstream.yaml"]
    assert last(instructions, "STOPSIGNAL") == "SIGTERM"
    script = (DEPLOY / "container" / "entrypoint").read_text()
    assert script.splitlines()[-1] == 'exec nbstream "$@"'


def test_the_password_is_drawn_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    assert SETTINGS_TEXT["listeners"]["http"]["password_file"] in (DEPLOY / "container/entrypoint").read_text()
    script = (DEPLOY / "container/entrypoint").read_text().replace("/var/lib/nbstream", str(tmp_path))
    program = tmp_path / "nbstream"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    passwords = []
    for _ in range(2):
        done = subprocess.run(
            ["sh", "-c", script, "entrypoint", "serve"],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        passwords.append((tmp_path / "http.password").read_text())

    assert done.stdout == "serve\n"
    assert passwords[0] == passwords[1]
    assert len(passwords[0].strip()) == 32
    assert (tmp_path / "http.password").stat().st_mode & 0o777 == 0o600
