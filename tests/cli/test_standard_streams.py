"""Standard input, output and error that are closed or full: one line at most, and the documented exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbstream.cli.exit_codes import EX_CONFIG, EX_IOERR, EX_NOINPUT
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import DEADLINE_SECONDS

FULL = Path("/dev/full")
LETTER = "Subject: Lunch\n\nShall we?\n"

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


@pytest.fixture
def config(shared_redis: RedisServer, tmp_path: Path) -> Path:
    config = tmp_path / "nb.yaml"
    config.write_text(f"state_dir: {tmp_path}\nredis: {{url: '{shared_redis.url}'}}\nmodel: {{name: streams}}\n")
    (tmp_path / "lunch.eml").write_text(LETTER)
    return config


def run(words: str, config: Path, redirected: str) -> tuple[int, str]:
    """A command with its words and streams as a shell has them: exit code, and what it said on standard error."""
    program = f'exec "$0" -m nbstream.cli {words} {redirected}'
    done = subprocess.run(
        ["/bin/sh", "-c", program.replace("CONFIG", "-c nb.yaml"), sys.executable],
        cwd=config.parent,
        input=LETTER,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "redirected"),
    [("--help", ">/dev/full"), ("check CONFIG lunch.eml", ">&-"), ("export CONFIG -", ">/dev/full")],
)
def test_what_cannot_be_printed_is_74(words: str, redirected: str, config: Path) -> None:
    code, said = run(words, config, redirected)

    why = "No space left on device" if "full" in redirected else "Bad file descriptor"
    assert (code, said) == (EX_IOERR, f"nbstream: standard output: {why}\n")


@pytest.mark.parametrize("words", ["check CONFIG -", "import CONFIG -"])
def test_an_input_that_is_closed_is_66(words: str, config: Path) -> None:
    code, said = run(words, config, "<&-")

    assert code == EX_NOINPUT
    assert said.startswith("nbstream: -: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "redirected"),
    [
        ("check CONFIG missing.eml", EX_NOINPUT, "2>/dev/full"),
        ("config check missing.yaml", EX_CONFIG, "2>&-"),
        ("check CONFIG --nope", 64, "2>/dev/full"),
        ("learn CONFIG ham lunch.eml", 0, "2>&-"),
    ],
)
def test_what_cannot_be_said_changes_no_exit_code(words: str, code: int, redirected: str, config: Path) -> None:
    assert run(words, config, redirected) == (code, "")
