"""The container file, as far as it can be judged without building it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbstream import config
from nbstream.addresses import TcpAddress
from tests.deploy.containerfile import read_instructions
from tests.deploy.postfix import DEPLOY

TOP = DEPLOY.parent
SETTINGS = config.load_settings(DEPLOY / "container" / "nbstream.yaml")


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    return read_instructions(DEPLOY / "container" / "Containerfile")


def every(instructions: list[tuple[str, str]], name: str) -> Iterator[str]:
    return (arguments for instruction, arguments in instructions if instruction == name)


def last(instructions: list[tuple[str, str]], name: str) -> str:
    return list(every(instructions, name))[-1]


def test_every_file_that_is_copied_exists(instructions: list[tuple[str, str]]) -> None:
    copies = [rest.split()[:-1] for rest in every(instructions, "COPY") if not rest.startswith("--from=")]
    sources = [word for words in copies for word in words if not word.startswith("--")]
    assert sources
    assert [word for word in sources if not (TOP / word).exists()] == []


def test_what_the_build_reads_is_copied(instructions: list[tuple[str, str]]) -> None:
    wheel = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    read = {*wheel["packages"], *wheel["shared-data"], wheel["hooks"]["custom"]["path"]}

    copied = {word for rest in every(instructions, "COPY") for word in rest.split()[:-1]}
    assert {"native", *(name.partition("/")[0] for name in read)} <= copied


def test_it_runs_without_root(instructions: list[tuple[str, str]]) -> None:
    user = last(instructions, "USER")
    assert user not in {"root", "0"}
    assert any(rest.startswith("useradd ") and f" {user} " in rest for rest in every(instructions, "RUN"))
    names = [name for name, _ in instructions]
    assert "RUN" not in names[names.index("USER") :]


def test_signals_reach_the_daemon_without_a_shell_between(instructions: list[tuple[str, str]]) -> None:
    command = json.loads(last(instructions, "ENTRYPOINT")) + json.loads(last(instructions, "CMD"))
    assert command == ["nbstream", "serve", "--config", "/etc/nbstream/nbstream.yaml"]
    assert last(instructions, "STOPSIGNAL") == "SIGTERM"
    settings = last(instructions, "COPY").split()
    assert settings[-2:] == ["deploy/container/nbstream.yaml", command[-1]]


def test_the_state_is_in_the_volume(instructions: list[tuple[str, str]]) -> None:
    assert [Path(folder) for folder in json.loads(last(instructions, "VOLUME"))] == [SETTINGS.state_dir]


def test_the_listeners_for_others_are_exposed_and_no_other(instructions: list[tuple[str, str]]) -> None:
    listeners = [SETTINGS.listeners.smtp, SETTINGS.listeners.http, SETTINGS.listeners.metrics]
    addresses = [listener.listen for listener in listeners if listener]
    reachable = [
        str(address.port) for address in addresses if isinstance(address, TcpAddress) and address.host == "0.0.0.0"
    ]
    assert reachable == last(instructions, "EXPOSE").split()


def test_the_health_check_asks_the_daemon_inside(instructions: list[tuple[str, str]]) -> None:
    check = last(instructions, "HEALTHCHECK")
    program, option, code = json.loads(check[check.index("CMD ") + 4 :])
    assert (program, option) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    assert SETTINGS.listeners.http is not None
    assert f"http://{SETTINGS.listeners.http.listen}/readyz" in code


def test_nobody_can_open_the_page_so_no_envelope_is_stored() -> None:
    assert SETTINGS.listeners.http is not None
    assert SETTINGS.listeners.http.listen.is_loopback
    assert SETTINGS.memory.envelope is False
