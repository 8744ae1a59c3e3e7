"""When a supervisor believes that a worker hangs."""

from __future__ import annotations

import errno
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from nbstream.daemon import supervisor as module
from nbstream.daemon.config import Settings
from nbstream.daemon.service_manager import ServiceManager
from nbstream.daemon.supervisor import SILENCE_SECONDS, Supervisor

START = 1000.0


class Clock:
    """A clock that goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic, time=clock.monotonic))
    monkeypatch.setattr(module, "_TURN_SECONDS", 0.0)
    return clock


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """What a worker is here: a process that says nothing."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def supervise(process: subprocess.Popen[bytes], state_dir: Path) -> Supervisor:
    supervisor = Supervisor(Settings(state_dir=state_dir), 1, ServiceManager())
    (worker,) = supervisor._workers
    worker.process, worker.heard_at = process, START
    return supervisor


def lives(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process is there still, a moment after it may have got a signal."""
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        return True
    return False


def test_a_silent_worker_is_killed(clock: Clock, process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    supervisor = supervise(process, tmp_path)

    while clock.now < START + SILENCE_SECONDS:
        clock.now += 1
        supervisor._turn()
    assert lives(process)
    clock.now += 1
    supervisor._turn()

    assert process.wait(10) == -9


def test_settings_that_reach_no_worker_are_not_applied_here_either(
    process: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor, logged = supervise(process, tmp_path), list(logging.getLogger().handlers)

    def no_file(settings: Settings) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(module, "settings_file", no_file)
    with pytest.raises(OSError, match="Too many"):
        supervisor._apply_settings(Settings(state_dir=tmp_path))

    assert logging.getLogger().handlers == logged


def test_time_in_which_the_supervisor_itself_stood_still_is_no_silence(
    clock: Clock, process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    supervisor = supervise(process, tmp_path)

    clock.now += 3600
    for _ in range(int(SILENCE_SECONDS) - 3):
        clock.now += 1
        supervisor._turn()

    assert lives(process)


def test_a_worker_that_was_heard_just_after_a_standstill_is_killed_when_it_hangs(
    clock: Clock, process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    supervisor = supervise(process, tmp_path)
    (worker,) = supervisor._workers

    clock.now += 3600
    worker.heard_at = clock.now  # its message was taken in by the turn that ends the standstill
    for _ in range(int(SILENCE_SECONDS) + 1):
        supervisor._turn()
        clock.now += 1
    supervisor._turn()

    assert process.wait(10) == -9


def test_signals_that_ask_for_a_reload_wait_as_one(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    supervisor = supervise(process, tmp_path)

    for _ in range(100):
        supervisor.reload()

    assert len(supervisor._requests) == 2  # the one that may be under way, and one that reads what came since
