"""The README is true: its commands run, its list of settings is complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from nbstream.cli import build_parser
from nbstream.config import HttpListener, MetricsListener, Settings, SmtpListener
from tests.integration.daemon import DaemonProcess

README = (Path(__file__).parents[1] / "README.md").read_text()


def keys(section: type[BaseModel], prefix: str = "") -> list[str]:
    """The dotted path of every setting."""
    found = []
    for name, field in section.model_fields.items():
        listeners: dict[str, type[BaseModel]] = {
            "smtp": SmtpListener,
            "http": HttpListener,
            "metrics": MetricsListener,
        }
        kind = listeners.get(name) if prefix == "listeners." else field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += keys(kind, f"{prefix}{name}.")
        else:
            found.append(prefix + name)
    return found


@pytest.mark.parametrize("key", keys(Settings))
def test_every_setting_is_named(key: str) -> None:
    assert f"`{key}`" in README


def test_every_metric_is_named() -> None:
    from tests.integration.test_life import METRICS  # noqa: PLC0415  # the list that the daemon is held to

    assert [name for name in METRICS.split() if f"`{name.removesuffix('_bucket')}`" not in README] == []


def test_every_command_line_that_is_shown_is_understood() -> None:
    shown = re.findall(r"^ {4}nbstream (.*)$|^nbstream ([^|\n]*?)(?: \|\| true)?$", README, re.MULTILINE)

    assert len(shown) > 5
    for words in shown:
        build_parser().parse_args("".join(words).split())


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
    assert 'X-Nbstream: unsure; probability=0.500000; reason="learning 0/20";' in result.stdout
    assert "1 learned as ham" in result.stdout
    assert "prize.eml  (learning 2/20)" in result.stdout
    assert "spam 1/10, ham 1/10" in result.stdout
