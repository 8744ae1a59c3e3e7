"""The registry of metrics, and what several processes count together."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.metrics import MetricsRegistry, StateGauge, create_member_files, member_died, prepare_folder

COUNTING = """
import os, signal, sys
from pathlib import Path
from nbstream.engine.choice import PYTHON
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.delivery.quarantine import QuarantineUsage
from nbstream.metrics import StateGauge, join_folder
from prometheus_client import Gauge
folder, member, quarantined = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
join_folder(folder, member)
metrics = DaemonMetrics.create(PYTHON, folder)
for _ in range(3):
    metrics.delivery.delivered("smtp", "spam")
metrics.delivery.relayed(["250"], 0.5)
StateGauge(metrics.registry, "nbstream_state", "What holds.", ["name"]).set({("before",): 1})
for name, mode in (("worst", "livemin"), ("largest", "livemax")):
    gauge = Gauge("nbstream_" + name, "Of each.", registry=metrics.registry.counts, multiprocess_mode=mode)
    gauge.set(int(member))
if quarantined:
    metrics.delivery.quarantine_swept(quarantined, 1, QuarantineUsage())
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shared = tmp_path / "state [1]" / "metrics"  # a name that would be a pattern, too
    shared.parent.mkdir()
    prepare_folder(shared, ["1", "2"])
    return shared


def count(folder: Path, member: str, quarantined: int = 0) -> None:
    """A process counts as this member, and is killed."""
    words = [sys.executable, "-c", COUNTING, str(folder), member, str(quarantined)]
    assert subprocess.run(words, check=False, timeout=60).returncode == -9


def lines(folder: Path) -> list[str]:
    return DaemonMetrics.create(PYTHON, folder).registry.render().decode().splitlines()


def test_sums_include_all_and_a_replacement_continues_the_counts(folder: Path) -> None:
    for member in ("1", "2", "1"):
        count(folder, member)
        member_died(folder, member)
        create_member_files(folder, member)

    text = lines(folder)

    assert 'nbstream_messages_total{listener="smtp",verdict="spam"} 9.0' in text
    assert 'nbstream_relay_seconds_bucket{le="0.5"} 3.0' in text
    assert "nbstream_relay_seconds_count 3.0" in text
    assert DaemonMetrics.create(PYTHON, folder).delivery.verdicts() == {"spam": 9}


def test_a_live_gauge_ends_with_its_process_and_a_shared_one_stays(folder: Path) -> None:
    count(folder, "1", quarantined=7)
    assert any(line.startswith("nbstream_build_info{") for line in lines(folder))

    member_died(folder, "1")

    assert not any(line.startswith("nbstream_build_info{") for line in lines(folder))
    assert "nbstream_quarantine_messages 7.0" in lines(folder)


def test_the_state_is_the_newest_of_all_and_ends_with_its_process(folder: Path) -> None:
    for member in ("1", "2"):
        count(folder, member)
    text = lines(folder)
    assert 'nbstream_state{name="before"} 1.0' in text
    assert "nbstream_worst 1.0" in text
    assert "nbstream_largest 2.0" in text

    member_died(folder, "1")

    assert "nbstream_worst 2.0" in lines(folder)
    member_died(folder, "2")
    assert not any(line.startswith(("nbstream_state", "nbstream_largest")) for line in lines(folder))


def test_a_new_start_counts_from_0_and_removes_the_files_of_former_slots(folder: Path) -> None:
    count(folder, "2")

    prepare_folder(folder, ["1"])

    assert DaemonMetrics.create(PYTHON, folder).delivery.verdicts() == {}
    assert not list(folder.glob("*_2.db"))


def test_a_full_disk_leaves_the_metrics_of_the_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count(folder, "1")
    member_died(folder, "2")

    def refuse(descriptor: int, *_: int) -> None:
        if os.fstat(descriptor).st_size == 0:  # what has its blocks needs no others
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        with pytest.raises(OSError, match="No space left"):
            create_member_files(folder, "2")

    assert 'nbstream_messages_total{listener="smtp",verdict="spam"} 3.0' in lines(folder)
    create_member_files(folder, "2")
    assert len(list(folder.glob("*_2.db"))) == len(list(folder.glob("*_1.db")))


def test_a_state_gauge_exports_the_series_that_were_set_last() -> None:
    registry = MetricsRegistry()
    policy = StateGauge(registry, "nbstream_policy", "The policy.", ["hash"])
    tokens = StateGauge(registry, "nbstream_tokens", "Tokens.")
    assert [line for line in registry.render().decode().splitlines() if not line.startswith("#")] == []

    policy.set({("one",): 1, ("two",): 1})
    policy.set({("two",): 1})
    tokens.set({(): 7})

    text = registry.render().decode().splitlines()
    assert [line for line in text if not line.startswith("#")] == [
        'nbstream_policy{hash="two"} 1.0',
        "nbstream_tokens 7.0",
    ]
