"""The slot of a worker, with real workers in it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from nbstream import config
from nbstream.daemon import worker_slot
from nbstream.daemon.worker_slot import WorkerContext, WorkerSlot, restart_wait
from nbstream.metrics import multiprocess
from nbstream.store.backoff import RESTART_WAITS, Backoff
from tests.waiting import DEADLINE_SECONDS, until


@pytest.mark.soak
async def test_a_worker_that_hangs_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_slot, "ROUND_SECONDS", 0.1)
    file = tmp_path / "nb.yaml"
    file.write_text(f"state_dir: {tmp_path}\nredis: {{url: 'redis://127.0.0.1:1'}}\n")
    settings, folder, deaths = config.load_settings(file), tmp_path / "metrics", []
    multiprocess.prepare_folder(folder, ["1"])
    slot = WorkerSlot(
        1,
        WorkerContext(
            lambda: settings, lambda: 0.0, dict, folder, None, lambda: deaths.append(slot.pid), lambda: True
        ),
    )
    working = asyncio.create_task(slot.run())
    try:
        await until(lambda: slot.pid is not None)
        assert await slot.ask("ping", seconds=DEADLINE_SECONDS)
        monkeypatch.setattr(worker_slot, "SILENCE_SECONDS", 3.0)
        # Answers come in turn: a question from before, with the longer limit, has its answer then, too.
        assert await slot.ask("ping", seconds=DEADLINE_SECONDS)
        hanging = slot.pid
        assert hanging is not None

        os.kill(hanging, signal.SIGSTOP)

        await until(lambda: slot.pid not in {None, hanging})
        assert len(deaths) == 1
    finally:
        monkeypatch.setattr(worker_slot, "SILENCE_SECONDS", 20.0)
        slot.stop()
        await asyncio.wait_for(working, DEADLINE_SECONDS)


def test_a_minute_of_life_forgives_the_ends_before_it() -> None:
    backoff = Backoff(RESTART_WAITS)

    assert [restart_wait(backoff, 59) for _ in range(5)] == [0.5, 1, 2, 4, 8]
    assert [restart_wait(backoff, 60), restart_wait(backoff, 1)] == [0.5, 1]
