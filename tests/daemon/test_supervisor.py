"""When a supervisor believes that a worker hangs."""

from __future__ import annotations

import errno
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbstream.daemon import supervisor as module
from nbstream.daemon.config import Settings
from nbstream.daemon.supervisor import MISSED_BEATS, Supervisor, Worker


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """What a worker is here: a process that says nothing."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def supervise(process: subprocess.Popen[bytes], state_dir: Path) -> tuple[Supervisor, Worker]:
    supervisor = Supervisor(Settings(state_dir=state_dir), 1)
    (worker,) = supervisor._all_workers
    worker.process = process
    return supervisor, worker


async def test_a_worker_that_misses_too_many_beats_in_a_row_is_killed(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    supervisor, worker = supervise(process, tmp_path)

    for _ in range(MISSED_BEATS):
        await supervisor._count_beats()
    worker.missed_beats = 0  # a message of it was taken in
    for _ in range(MISSED_BEATS):
        await supervisor._count_beats()
    assert process.poll() is None
    await supervisor._count_beats()

    assert process.wait(10) == -9


async def test_settings_that_reach_no_worker_are_not_applied_here_either(
    process: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (supervisor, _), logged = supervise(process, tmp_path), list(logging.getLogger().handlers)

    def no_file(settings: Settings) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(module, "settings_file", no_file)
    with pytest.raises(OSError, match="Too many"):
        await supervisor._apply(Settings(state_dir=tmp_path))

    assert logging.getLogger().handlers == logged
