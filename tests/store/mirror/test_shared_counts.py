"""Processes that share counts: one of them may be killed or stopped at any instant, and there may be no room."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import signal
import sys
import threading
from asyncio.subprocess import PIPE, Process
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.bayes.counts import Totals
from nbstream.bayes.table_counts import TableCounts
from nbstream.errors import StoreUnavailable
from nbstream.store.mirror.shared_counts import SharedCounts
from nbstream.store.model.autolearn_layer import AutolearnModel
from nbstream.store.model.model import Model
from tests.conftest import RedisServer
from tests.engine.native import table_functions
from tests.store.lessons import change, entry
from tests.store.mirror.mirror_process import TOKENS, WEIGHT
from tests.store.mirror.mirrors import new_mirror, running
from tests.store.mirror.test_mirror import equals_redis
from tests.waiting import DEADLINE_SECONDS, until

AT_WRITING = 9 * 8  # the byte in a table: see native/src/table/layout.rs
KILL_SECONDS = 60.0
"""The deadline of one kill, in which another process starts: on a busy machine."""
KILLS = pytest.mark.parametrize(
    "kills", [4, pytest.param(100, id="many", marks=[pytest.mark.soak, pytest.mark.timeout(100 * KILL_SECONDS)])]
)


class MirrorProcess:
    """A process of ``mirror_process``, and the role that it had last."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.role = ""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, url: str, folder: Path) -> MirrorProcess:
        words = ["-m", "tests.store.mirror.mirror_process", url, str(folder)]
        return cls(await asyncio.create_subprocess_exec(sys.executable, *words, stdin=PIPE, stdout=PIPE))

    async def _read(self) -> None:
        assert self.process.stdout
        while line := await self.process.stdout.readline():
            self.role = line.decode().strip()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()
        await self._reading

    async def finish(self, last_change: bytes) -> None:
        """Let it compare its counts with those of Redis; all was whole, and they are equal."""
        assert self.process.stdin
        self.process.stdin.write(last_change + b"\n")
        self.process.stdin.close()
        assert await self.process.wait() == 0, self.role
        await self._reading


@pytest.fixture
def model(client: Redis) -> Model:
    return Model(client, "test", 3600)


async def teach(model: Model, number: int) -> bytes:
    """A lesson of all tokens, and of 300 new ones, so that the tables grow."""
    tokens = [*TOKENS, *(b"%d of %d" % (n, number) for n in range(300))]
    return await change(model, f"m{number}", entry("spam", tokens, weight=WEIGHT)) or b""


@KILLS
async def test_a_killed_writer_leaves_what_was_committed_and_has_a_successor(
    model: Model, shared_redis: RedisServer, tmp_path: Path, kills: int
) -> None:
    table_functions()
    draw, folder, number = random.Random(kills), tmp_path / "counts", 0
    mirrors = [await MirrorProcess.start(shared_redis.url, folder) for _ in range(3)]
    try:
        for _ in range(kills):
            async with asyncio.timeout(KILL_SECONDS):
                # Of those that were writers before, one may still have the word.
                await until(lambda: any(mirror.role == "writer" for mirror in mirrors), KILL_SECONDS)
                for _ in range(draw.randint(3, 20)):
                    number += 1
                    await teach(model, number)
                writer = next(mirror for mirror in mirrors if mirror.role == "writer")
                lesson = asyncio.create_task(teach(model, number := number + 1))
                for _ in range(draw.randint(0, 30)):
                    await asyncio.sleep(0)
                mirrors.remove(writer)
                await writer.kill()
                await lesson
                mirrors.append(await MirrorProcess.start(shared_redis.url, folder))
        await until(lambda: all(mirror.role in {"reader", "writer"} for mirror in mirrors), KILL_SECONDS)
        last = await teach(model, number + 1)
        for mirror in [*(m for m in mirrors if m.role == "reader"), *(m for m in mirrors if m.role == "writer")]:
            async with asyncio.timeout(KILL_SECONDS):
                await mirror.finish(last)
    finally:
        for mirror in mirrors:
            if mirror.process.returncode is None:
                await mirror.kill()
    assert {file.name for file in folder.iterdir()} == {"current", "writer.lock"}


async def test_readers_say_that_they_do_not_follow_while_the_writer_stands_still(
    model: Model, shared_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_functions()
    monkeypatch.setattr("nbstream.store.mirror.mirror._APPLIED_SECONDS", 0.2)
    folder = tmp_path / "counts"
    writer = await MirrorProcess.start(shared_redis.url, folder)
    try:
        await until(lambda: writer.role == "writer")
        async with running(new_mirror(model, "reader", folder, seconds=0.4)) as reader:
            assert reader.role == "reader"
            writer.process.send_signal(signal.SIGSTOP)
            with pytest.raises(StoreUnavailable, match="do not follow"):
                await reader.wait_until_applied(await teach(model, 1))
            await until(lambda: not reader.following)
            assert reader.lag_seconds > 0
            assert (await reader.look_up(TOKENS))[1].messages == (0, 0)

            await writer.kill()  # as the supervisor does with a worker that does not answer

            await until(lambda: reader.role == "writer" and reader.following)
            assert await equals_redis(reader, model, TOKENS)
    finally:
        if writer.process.returncode is None:
            await writer.kill()


async def test_a_reader_that_starts_while_the_writer_stands_still_begins_with_what_was_committed(
    model: Model, shared_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table_functions()
    folder = tmp_path / "counts"
    writer = await MirrorProcess.start(shared_redis.url, folder)
    try:
        await until(lambda: writer.role == "writer")
        async with running(new_mirror(model, "reader", folder)) as first:
            await first.wait_until_applied(await teach(model, 1))
        writer.process.send_signal(signal.SIGSTOP)
        await teach(model, 2)

        async with running(new_mirror(model, "reader", folder, seconds=0.4)) as reader:
            assert reader.role == "reader"
            assert (await reader.look_up(TOKENS))[1].messages == (0, 1)
            assert "1 lesson behind" in caplog.text
            await until(lambda: not reader.following)

            await writer.kill()

            await until(lambda: reader.role == "writer" and reader.following)
            assert await equals_redis(reader, model, TOKENS)
    finally:
        if writer.process.returncode is None:
            await writer.kill()


async def test_a_reader_says_that_it_waits_where_nothing_was_published(
    model: Model, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loading = SharedCounts(table_functions(), tmp_path / "counts")
    assert loading.try_to_write()
    mirror = new_mirror(model, "reader", tmp_path / "counts")
    following = asyncio.create_task(mirror.run())
    try:
        await until(lambda: "has not loaded them yet" in caplog.text)
        assert not mirror.loaded.is_set()

        loading.stop_writing()

        async with asyncio.timeout(DEADLINE_SECONDS):
            await mirror.loaded.wait()
        assert mirror.role == "writer"
        assert caplog.text.count("has not loaded them yet") == 1
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_a_reader_takes_over_when_the_writer_ends_in_order(
    model: Model, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    folder = tmp_path / "counts"
    async with AsyncExitStack() as stack:
        async with running(new_mirror(model, "writer", folder)):
            reader = await stack.enter_async_context(running(new_mirror(model, "reader", folder)))
            await reader.wait_until_applied(await teach(model, 1))
            assert reader.role == "reader"
        await until(lambda: reader.role == "writer")
        await reader.wait_until_applied(await teach(model, 2))
        assert await equals_redis(reader, model, TOKENS)
    assert caplog.text.count("counts loaded: ") == 2  # by the writer, and by the reader at its start
    assert caplog.text.count("counts taken over: ") == 1


async def test_all_follow_a_layer_into_an_epoch_that_has_no_changes_yet(client: Redis, tmp_path: Path) -> None:
    await Model(client, "test", 3600).open()
    layers = [AutolearnModel(client, "test", 3600) for _ in range(2)]
    await layers[0].open()
    async with (
        running(new_mirror(layers[0], "writer", tmp_path / "counts")) as writer,
        running(new_mirror(layers[1], "reader", tmp_path / "counts")) as reader,
    ):
        await reader.wait_until_applied(await change(layers[0], "m", entry("spam", TOKENS)) or b"")

        await layers[0].drop_epoch()

        for mirror in (writer, reader):
            async with asyncio.timeout(DEADLINE_SECONDS):
                await mirror.wait_for_load_after(1)
            assert mirror.totals == Totals()


async def test_nobody_else_writes_before_an_interrupted_take_over_has_ended(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end, take_over = threading.Event(), threading.Event(), SharedCounts.take_over

    def take_over_slowly(shared: SharedCounts, identity: tuple[int, int]) -> TableCounts | None:
        began.set()
        assert may_end.wait(DEADLINE_SECONDS)
        return take_over(shared, identity)

    monkeypatch.setattr(SharedCounts, "take_over", take_over_slowly)
    running_mirror = asyncio.create_task(new_mirror(model, "writer", tmp_path / "counts").run())
    await until(began.is_set)
    other = SharedCounts(table_functions(), tmp_path / "counts")
    running_mirror.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
        assert not other.try_to_write()
    may_end.set()
    await asyncio.gather(running_mirror, return_exceptions=True)
    assert other.try_to_write()
    other.stop_writing()


async def test_without_room_each_process_keeps_its_own_copy(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "counts"
    async with running(new_mirror(model, "writer", folder)) as writer, AsyncExitStack() as stack:
        reader = await stack.enter_async_context(running(new_mirror(model, "reader", folder)))
        await reader.wait_until_applied(await teach(model, 1))

        def no_room(*_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "posix_fallocate", no_room)
        with caplog.at_level(logging.WARNING):
            for number in range(2, 12):
                last = await teach(model, number)
            await until(lambda: (writer.role, reader.role) == ("alone", "alone"))
            for mirror in (writer, reader):
                await mirror.wait_until_applied(last)
                assert await equals_redis(mirror, model, TOKENS)
        assert caplog.text.count("keeps its own copy") == 2
    assert {file.name for file in folder.iterdir()} == {"writer.lock"}


async def test_whoever_finds_the_memory_damaged_loads_its_own_copy(
    model: Model, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "counts"
    async with running(new_mirror(model, "writer", folder)) as writer, AsyncExitStack() as stack:
        reader = await stack.enter_async_context(running(new_mirror(model, "reader", folder)))
        await reader.wait_until_applied(await teach(model, 1))
        with (folder / "current").open("r+b") as file:
            file.seek(AT_WRITING)
            file.write(b"\xff" * 8)

        with pytest.raises(StoreUnavailable, match="damaged"):
            await reader.look_up(TOKENS)

        await until(lambda: reader.role == "alone")
        last = await teach(model, 2)
        await until(lambda: writer.role == "alone")
        for mirror in (writer, reader):
            await mirror.wait_until_applied(last)
            assert await equals_redis(mirror, model, TOKENS)
    assert caplog.text.count("keeps its own copy") == 2
