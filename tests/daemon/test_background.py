"""Background work that fails is logged, counted, shown and started again; mail never ends by it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from nbstream.daemon import background as module
from nbstream.daemon.background import BackgroundTasks
from nbstream.errors import ConfigError, StoreIncompatible, StoreUnavailable


class Work:
    """Work that fails ``failures`` times, and then goes on until it is cancelled."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures, self.error = failures, error or RuntimeError("a fault")
        self.starts = 0
        self.is_well = asyncio.Event()

    async def run(self) -> None:
        self.starts += 1
        if self.starts <= self.failures:
            raise self.error
        self.is_well.set()
        await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTART_WAITS", (0.001,))


@pytest.mark.parametrize(
    "error", [RuntimeError("a fault"), StoreUnavailable("away"), ExceptionGroup("two", [OSError()])]
)
async def test_what_fails_is_started_again(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    failed = Counter[str]()
    tasks, work, other = (
        BackgroundTasks(lambda name, failures: failed.update({name: failures})),
        Work(3, error),
        Work(0),
    )
    tasks.start("evictor", work.run)
    tasks.start("mirror", other.run)
    await work.is_well.wait()

    assert (work.starts, other.starts) == (4, 1)
    assert failed == {"evictor": 3, "mirror": 0}
    assert tasks.failing == ["evictor"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3
    assert all(record.exc_info for record in caplog.records)
    await tasks.stop()


async def test_what_has_run_for_a_while_is_well_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, work = BackgroundTasks(lambda _name, _failures: None), Work(1)
    tasks.start("evictor", work.run)
    await work.is_well.wait()
    monkeypatch.setattr(module, "_SHOWN_SECONDS", 0)

    assert tasks.failing == []
    await tasks.stop()


async def test_what_returns_is_done() -> None:
    tasks, calls = BackgroundTasks(lambda _name, _failures: None), []

    async def warn_once() -> None:
        calls.append("warned")

    tasks.start("durability", warn_once)
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "durability"]
    await asyncio.wait([task])

    assert calls == ["warned"]
    await tasks.stop()


@pytest.mark.parametrize("error", [ConfigError("wrong"), StoreIncompatible("of another version")])
async def test_what_waiting_cannot_mend_ends_the_process(error: Exception) -> None:
    tasks, work = BackgroundTasks(lambda _name, _failures: None), Work(1, error)
    tasks.start("mirror", work.run)

    with pytest.raises(type(error)):
        await tasks.wait_for_end()

    assert work.starts == 1
    await tasks.stop()
