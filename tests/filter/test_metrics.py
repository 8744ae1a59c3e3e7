"""What is counted of checks: all of them, whenever it is read, and in a shared folder at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.filter.results import CheckSeconds
from nbstream.metrics import MetricsRegistry, prepare_folder
from nbstream.policy.check import Check
from nbstream.policy.verdict import ModelState, Verdict

CHECK = Check(
    id="m", verdict=Verdict.UNSURE, probability=0.3, score=-0.5, reason="", state=ModelState({}), clues=()
)
SECONDS = CheckSeconds(0.00001, 0.0003, 0.3)


def count_checks(metrics: DaemonMetrics, checks: int) -> None:
    for _ in range(checks):
        metrics.filter.checked(CHECK, SECONDS, None)


def lines(checks: int) -> set[str]:
    """What is exported of so many checks."""
    return {
        'nbstream_check_seconds_bucket{le="0.0002",stage="tokenize"} 0.0',
        f'nbstream_check_seconds_bucket{{le="0.0005",stage="tokenize"}} {checks}.0',
        f'nbstream_check_seconds_count{{stage="wait"}} {checks}.0',
        f'nbstream_check_seconds_count{{stage="score"}} {checks}.0',
        f'nbstream_score_probability_bucket{{le="0.3"}} {checks}.0',
        f"nbstream_score_probability_count {checks}.0",
    }


def test_checks_are_exported_however_few_they_are_and_each_once() -> None:
    metrics = DaemonMetrics.create(PYTHON)
    counted = 0
    for checks in (1, 2, MetricsRegistry().counts_at_once + 5):
        count_checks(metrics, checks)
        counted += checks

        assert lines(counted) <= set(metrics.registry.render().decode().splitlines())


COUNTING = """
import os, signal, sys
from pathlib import Path
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.metrics import join_folder
from tests.filter.test_metrics import count_checks
folder = Path(sys.argv[1])
join_folder(folder, "1")
count_checks(DaemonMetrics.create(PYTHON, folder), 3)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_has_counted_its_last_check(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    prepare_folder(folder, ["1"])

    killed = subprocess.run([sys.executable, "-c", COUNTING, folder], check=False, timeout=60)

    assert killed.returncode == -signal.SIGKILL
    assert lines(3) <= set(DaemonMetrics.create(PYTHON, folder).registry.render().decode().splitlines())
