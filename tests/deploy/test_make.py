"""``make run`` on a machine that lacks something: one line that says what to install."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy.postfix import DEPLOY


@pytest.fixture
def make(program: Callable[[str], str], tmp_path: Path) -> Callable[..., list[str]]:
    """Run a goal where the one program on the path is a python3, and return the lines that are printed.

    ``answers`` are WORD=OUTPUT: what python3 prints for code with that word in it; the first that fits counts.
    """
    tools = tmp_path / "bin"
    tools.mkdir()

    def run(goal: str, *answers: str) -> list[str]:
        cases = "".join(f"*{word}*) echo {answer};;\n" for word, _, answer in (a.partition("=") for a in answers))
        (tools / "python3").write_text(f'#!/bin/sh\ncase "$2" in\n{cases}esac\n')
        (tools / "python3").chmod(0o755)
        words = [program("make"), "--no-print-directory", "-C", str(DEPLOY.parent), goal]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=60, check=False, env={"PATH": str(tools)}
        )
        assert done.returncode == 2
        return (done.stdout + done.stderr).splitlines()

    return run


def test_without_a_fitting_python_it_says_so(make: Callable[..., list[str]]) -> None:
    (line,) = make("run")
    assert "needs Python 3.11 or newer" in line


def test_without_the_venv_module_it_says_so(make: Callable[..., list[str]]) -> None:
    (line,) = make("run", "sys.version_info=yes")
    assert "apt install python3-venv" in line


def test_without_a_redis_it_says_so(make: Callable[..., list[str]]) -> None:
    (line,) = make("run", "platform=", "sys.version_info=yes", "ensurepip=yes")
    assert "apt install redis-server" in line
