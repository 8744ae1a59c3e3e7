"""Background work that fails is logged once, counted, shown and tried again; mail never ends by it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nbstream.errors import ConfigError, StoreIncompatible, StoreUnavailable
from nbstream.server import background as module
from nbstream.server.background import BackgroundTasks
from tests.harness.waiting import until


class Work:
    """Work that fails ``failures`` times, and then goes on until it is cancelled."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures, self.error = failures, error or RuntimeError("a fault")
        self.starts = 0
        self.is_well = asyncio.Event()

    async def step(self) -> None:
        self.starts += 1
        if self.starts <= self.failures:
            raise self.error

    async def run(self) -> None:
        await self.step()
        self.is_well.set()
        await asyncio.Event().wait()


class Tasks(BackgroundTasks):
    """Background tasks that have ``failed`` so often, by their names."""

    def __init__(self) -> None:
        self.failed = Counter[str]()
        super().__init__(lambda name, failures: self.failed.update({name: failures}))


@asynccontextmanager
async def opened() -> AsyncIterator[Tasks]:
    tasks = Tasks()
    yield tasks
    await tasks.stop()
    assert not [task for task in asyncio.all_tasks() if task.get_name() in tasks.failed]


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    """The levels of what was logged, and whether a traceback came with it."""
    return [
        (record.levelname, bool(record.exc_info)) for record in caplog.records if record.name == module.__name__
    ]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "RESTART_WAITS", (0.001,))


async def test_a_step_is_repeated_after_a_pause() -> None:
    async with opened() as tasks:
        at_once, later = Work(0), Work(0)
        tasks.every("walk", 0.001, at_once.step)
        tasks.every("sweep", 0.001, later.step, waits_first=True)
        tasks.every("expiry", 3600, (first := Work(0)).step)
        tasks.every("late expiry", 3600, (never := Work(0)).step, waits_first=True)
        await until(lambda: at_once.starts > 3 and later.starts > 3)

        assert (first.starts, never.starts) == (1, 0)
        assert tasks.failing == []
        assert tasks.failed == {"walk": 0, "sweep": 0, "expiry": 0, "late expiry": 0}


@pytest.mark.parametrize(
    ("error", "level", "has_traceback"),
    [
        (StoreUnavailable("away"), "WARNING", False),
        (OSError("no space"), "WARNING", False),
        (ConfigError("it ends nothing, for a step is tried again"), "WARNING", False),
        (StoreIncompatible("as above"), "WARNING", False),
        (RuntimeError("a fault"), "ERROR", True),
    ],
)
async def test_a_step_that_fails_is_tried_again_long_before_its_time(
    error: Exception, level: str, has_traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as tasks:
        work = Work(3, error)
        tasks.every("walk", 3600, work.step)
        await until(lambda: work.starts == 4)

        assert tasks.failing == []
        assert tasks.failed == {"walk": 3}
        assert said(caplog) == [(level, has_traceback), ("INFO", False)]


async def test_no_wait_after_a_failure_is_much_longer_than_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTART_WAITS", (0.001, 3600.0))
    async with opened() as tasks:
        work = Work(3)
        tasks.every("walk", 1.0, work.step)
        await until(lambda: work.starts == 4)


async def test_what_fails_now_is_shown() -> None:
    async with opened() as tasks:
        tasks.every("walk", 3600, Work(10**9).step)
        tasks.every("sweep", 3600, Work(0).step)
        await until(lambda: tasks.failing == ["walk"])


@pytest.mark.parametrize(
    "error", [RuntimeError("a fault"), StoreUnavailable("away"), ExceptionGroup("two", [OSError()])]
)
async def test_what_runs_all_the_time_and_fails_is_started_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as tasks:
        work, other = Work(3, error), Work(0)
        tasks.start("memory", work.run)
        tasks.start("follower", other.run)
        await work.is_well.wait()

        assert (work.starts, other.starts) == (4, 1)
        assert tasks.failed == {"memory": 3, "follower": 0}
        assert tasks.failing == ["memory"]
        assert len(said(caplog)) == 1


async def test_what_has_run_for_a_while_is_well_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as tasks:
        work = Work(1)
        tasks.start("memory", work.run)
        await work.is_well.wait()
        monkeypatch.setattr(module, "_SHOWN_SECONDS", 0)

        assert tasks.failing == []


async def test_what_returns_is_done() -> None:
    async with opened() as tasks:
        calls = []

        async def warn_once() -> None:
            calls.append("warned")

        tasks.start("durability", warn_once)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "durability"]
        await asyncio.wait([task])

        assert calls == ["warned"]


@pytest.mark.parametrize("error", [ConfigError("wrong"), StoreIncompatible("of another version")])
async def test_what_waiting_cannot_mend_ends_the_process(error: Exception) -> None:
    async with opened() as tasks:
        work = Work(1, error)
        tasks.start("follower", work.run)

        with pytest.raises(type(error)):
            await tasks.wait_for_end()

        assert work.starts == 1
