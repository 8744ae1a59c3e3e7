"""The README is true: its commands run, its list of settings is complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel

from nbstream.config import Settings
from nbstream.usage import build_parser
from tests.integration.daemon import DaemonProcess

README = (Path(__file__).parents[1] / "README.md").read_text()
ACCURACY = (Path(__file__).parent / "benchmarks" / "ACCURACY.md").read_text()
SPEED = (Path(__file__).parent / "benchmarks" / "SPEED.md").read_text()


def keys(section: type[BaseModel], prefix: str = "") -> list[str]:
    """The dotted path of every setting."""
    found = []
    for name, field in section.model_fields.items():
        kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
        single = get_origin(field.annotation) is not tuple  # a list of sections is one setting
        sections = [kind for kind in kinds if single and issubclass(kind, BaseModel)]
        found += keys(sections[0], f"{prefix}{name}.") if sections else [prefix + name]
    return found


@pytest.mark.parametrize("key", keys(Settings))
def test_every_setting_is_named(key: str) -> None:
    assert f"`{key}`" in README


def test_every_metric_is_named() -> None:
    from tests.integration.test_life import METRICS  # noqa: PLC0415  # the list that the daemon is held to

    assert [name for name in METRICS.split() if f"`{name.removesuffix('_bucket')}`" not in README] == []


def test_the_accuracy_is_what_was_measured_last() -> None:
    figures = re.findall(r"\| (\d[\d.]* · [\d./]+ / [\d.]+ · [\d.]+) (?=\|)", README)

    assert len(figures) == 6 * 3
    assert [figure for figure in figures if figure not in ACCURACY] == []


def test_the_speed_is_what_was_measured_last() -> None:
    section = README.partition("\n**Speed**")[2].partition("\n**The daemon**")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]

    assert len(rows) > 5
    assert [row for row in rows if row not in SPEED.splitlines()] == []


def test_every_command_line_that_is_shown_is_understood() -> None:
    shown = re.findall(r"^ {4}nbstream (.*)$|^nbstream ([^|\n]*?)(?: \|\| true)?$", README, re.MULTILINE)

    assert len(shown) > 5
    for words in shown:
        build_parser().parse_args("".join(words).split())


def test_the_example_of_the_http_api_works_as_it_stands(tmp_path: Path, redis_binary: Path) -> None:
    (example,) = re.findall(r"^```bash\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "message.eml").write_text("Subject: prize\n\nClaim your free prize now\n")
    (tmp_path / "nbstream.yaml").write_text(
        f"state_dir: {tmp_path / 'state'}\nlisteners: {{smtp: null, http: {{listen: 127.0.0.1:0}}}}\n"
        "log: {format: json}\n"
    )
    with DaemonProcess(tmp_path / "nbstream.yaml") as daemon:
        script = example.replace("127.0.0.1:11334", daemon.address("http"))
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    assert result.returncode == 0, result.stderr
    answers = re.findall(r'"(?:verdict|outcome|type)": ?"([^"]*)"', result.stdout)
    assert [each for each in answers if each in {"learned", "unlearned"}] == ["learned", "unlearned"], (
        result.stdout
    )
    assert answers.count("unsure") >= 2


def test_the_first_steps_work_as_they_stand(tmp_path: Path, redis_binary: Path) -> None:
    steps = "\n".join(re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL))
    state = tmp_path / ".local/state/nbstream"
    (tmp_path / "nbstream.yaml").write_text(
        f"state_dir: {state}\nlisteners: {{smtp: {{listen: 127.0.0.1:0}}, http: null}}\nlog: {{format: json}}\n"
    )
    with DaemonProcess(tmp_path / "nbstream.yaml") as daemon:
        script = steps.replace("10025", daemon.address("smtp").rpartition(":")[2])
        environment = {
            **os.environ,
            "HOME": str(tmp_path),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    assert result.returncode == 0, result.stderr
    assert 'X-Nbstream: unsure; probability=0.500000; reason="learning 0/100";' in result.stdout
    assert "1 learned as ham" in result.stdout
    assert "prize.eml  (learning 2/100)" in result.stdout
    assert "spam 1/50, ham 1/50" in result.stdout
