"""The chaos run: a short one among the ordinary tests, half an hour of it with ``make soak``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.chaos.schedule import Kind

SHORT_SEED = 17
SHORT_SECONDS = 12


def run_chaos(*words: str, folder: Path, timeout: float) -> None:
    """Run the command; its output names each deviation, and the folder has what is needed to replay the run."""
    command = [sys.executable, "-m", "tests.soak.chaos", *words, "--keep", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    print(result.stdout)
    assert result.returncode == 0, f"{folder}:\n{result.stdout}{result.stderr}"


@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost_doubled_or_inexact(tmp_path: Path, redis_binary: Path) -> None:
    words = ["--seed", str(SHORT_SEED), "--minutes", str(SHORT_SECONDS / 60), "--events", str(len(Kind))]
    run_chaos(*words, folder=tmp_path, timeout=580)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_half_an_hour_of_chaos(tmp_path: Path, redis_binary: Path) -> None:
    """With another seed each time, which is printed first."""
    run_chaos("--minutes", "30", folder=tmp_path, timeout=3580)
