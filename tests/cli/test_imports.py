"""What a command loads before it can answer: no more than it needs, so that it answers at once."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.harness.redis.redis_server import RedisServer

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
DEPENDENCIES = {re.split(r"[\[<>=]", name)[0] for name in PROJECT["dependencies"]}
HEAVY = {
    name
    for name, distributions in packages_distributions().items()
    if {name.lower().replace("_", "-") for name in distributions} & DEPENDENCIES
} | {"asyncio", "ssl"}

SERVING = {"aiohttp", "aiosmtpd", "uvloop", "prometheus_client"}


def loaded(*words: str, code: int = 0) -> set[str]:
    """The heavy packages that a command with this exit code imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "nbstream.cli", *words],
        input="Subject: Lunch\n\nShall we?\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    names = re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE)
    assert "nbstream.cli" in names or "argparse" in names
    return {name.split(".")[0] for name in names} & HEAVY


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["learn", "--help"], 0),
        (["undo", "--since", "tomorrow"], 64),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_what_only_the_arguments_decide_loads_nothing_heavy(words: list[str], code: int) -> None:
    assert loaded(*words, code=code) == set()


@pytest.mark.parametrize(
    ("words", "scores"), [(["status"], False), (["history"], False), (["check", "-"], True)], ids=str
)
def test_what_asks_redis_loads_nothing_that_serves_and_numpy_for_a_score_alone(
    words: list[str], scores: bool, shared_redis: RedisServer, tmp_path: Path
) -> None:
    config = tmp_path / "nb.yaml"
    config.write_text(f"state_dir: {tmp_path}\nredis: {{url: '{shared_redis.url}'}}\nmodel: {{name: imports}}\n")

    result = loaded(words[0], "-c", str(config), *words[1:])

    assert "redis" in result
    assert ("numpy" in result) == scores
    assert not result & SERVING


def test_what_reads_the_settings_alone_loads_neither_numpy_nor_redis(tmp_path: Path) -> None:
    config = tmp_path / "nb.yaml"
    config.write_text(f"state_dir: {tmp_path}\n")

    assert loaded("config", "-c", str(config), "check") <= {"orjson", "pydantic", "pydantic_core", "yaml"}
