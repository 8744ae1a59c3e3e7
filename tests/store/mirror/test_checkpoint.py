"""A checkpoint saves a start most of its reading, and changes nothing of what is read."""

from __future__ import annotations

import asyncio
import os
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.store.mirror import checkpoint, checkpoint_writer
from nbstream.store.mirror.checkpoint import CheckpointFile
from nbstream.store.mirror.checkpoint_writer import CheckpointWriter
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.mirror.shared_counts import SharedCounts
from nbstream.store.model.model import Model
from tests.engine.native import table_functions
from tests.store.lessons import change, entry
from tests.store.mirror.mirrors import running
from tests.store.mirror.test_mirror import equals_redis
from tests.waiting import until

FROM_CHECKPOINT = "loaded from the checkpoint"


@pytest.fixture
def model(client: Redis) -> Model:
    return Model(client, "test", 3600)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / "counts"


@asynccontextmanager
async def started(model: Model, path: Path, shared: SharedCounts | None = None) -> AsyncIterator[Mirror]:
    """A mirror that begins with the checkpoint, if it can be used."""
    file = CheckpointFile(path)
    async with running(
        Mirror(model, 5.0, table_functions=table_functions(), shared=shared, checkpoint=file)
    ) as mirror:
        yield mirror


async def teach(model: Model, numbers: range) -> list[bytes]:
    """Lessons of both classes, with short and long tokens and a sum; returns all their tokens."""
    names: dict[bytes, None] = {}
    for number in numbers:
        tokens = [b"body:%d" % (number * 7 + n) for n in range(60)] + [b"subject:" + b"long" * 20 + b"%d" % number]
        names |= dict.fromkeys(tokens)
        label = "spam" if number % 3 else "ham"
        await change(model, f"m{number}", entry(label, tokens, 900 + number, [(b"=size", 5)]))
    return [*names, b"=size"]


async def write(model: Model, path: Path) -> None:
    """Start once, and write a checkpoint."""
    file = CheckpointFile(path)
    async with running(Mirror(model, 5.0, table_functions=table_functions(), checkpoint=file)) as mirror:
        assert mirror.written_table
        await asyncio.to_thread(file.write, mirror.written_table)


async def test_a_start_from_a_checkpoint_has_what_redis_has(
    model: Model, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    names = await teach(model, range(150))
    await write(model, path)
    names += await teach(model, range(150, 170))
    await change(model, "m3", None)
    async with started(model, path) as mirror:
        assert await equals_redis(mirror, model, names)
        assert sorted(mirror.snapshot()[0]) == sorted((await model.counts()).snapshot()[0])
        more = await teach(model, range(170, 171))
        await mirror.wait_until_applied(await model.last_change())
        assert await equals_redis(mirror, model, names + more)
    assert FROM_CHECKPOINT in caplog.text
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["counts"]


async def test_lessons_go_on_while_it_is_written(
    model: Model, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A piece is read, lessons change the tokens before and behind it, and then the next piece is read."""
    caplog.set_level("INFO")
    monkeypatch.setattr(checkpoint, "_ROWS_PER_PIECE", 30)
    names = await teach(model, range(50))
    file, loop, lessons = CheckpointFile(path), asyncio.get_running_loop(), iter(range(1000, 1100))
    async with running(Mirror(model, 5.0, table_functions=table_functions(), checkpoint=file)) as mirror:
        table = mirror.written_table
        assert table

        async def teach_between() -> None:
            number = next(lessons)
            names.extend(await teach(model, range(number, number + 1)))
            await change(model, f"m{number - 1000}", None)
            await mirror.wait_until_applied(await model.last_change())

        read = type(table).read_some

        def read_and_teach(self: object, first: int, count: int) -> object:
            piece = read(table, first, count)
            asyncio.run_coroutine_threadsafe(teach_between(), loop).result(30)
            return piece

        with monkeypatch.context() as patched:
            patched.setattr(type(table), "read_some", read_and_teach)
            await asyncio.to_thread(file.write, table)
    assert next(lessons) > 1010
    async with started(model, path) as mirror:
        assert await equals_redis(mirror, model, sorted(set(names)))
        assert len(mirror.snapshot()[0]) == len((await model.counts()).snapshot()[0])
    assert FROM_CHECKPOINT in caplog.text


async def test_workers_that_share_the_counts_begin_with_it(
    model: Model, path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    names = await teach(model, range(100))
    await write(model, path)
    names += await teach(model, range(100, 110))
    async with started(model, path, SharedCounts(table_functions(), tmp_path / "shared")) as writer:
        assert writer.role == "writer"
        async with started(model, path, SharedCounts(table_functions(), tmp_path / "shared")) as reader:
            assert reader.role == "reader"
            assert reader.written_table is None
            assert await equals_redis(reader, model, names)
    assert caplog.text.count(FROM_CHECKPOINT) == 1


async def test_a_worker_that_takes_the_counts_over_writes_it_from_then_on(
    model: Model, path: Path, tmp_path: Path
) -> None:
    await teach(model, range(10))
    files = [CheckpointFile(path), CheckpointFile(path)]
    first, second = (
        Mirror(
            model,
            5.0,
            table_functions=table_functions(),
            shared=SharedCounts(table_functions(), tmp_path / "shared"),
            checkpoint=file,
        )
        for file in files
    )
    async with running(first):
        task = asyncio.create_task(second.run())
        await until(lambda: second.role == "reader" and second.loaded.is_set())
    try:
        await until(lambda: second.role == "writer" and second.written_table is not None)
        await CheckpointWriter(second, files[1], least_tokens=1).write_if_due()
        assert path.exists()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_a_killed_writer_left_goes_with_the_next_checkpoint(model: Model, path: Path) -> None:
    await teach(model, range(10))
    await write(model, path)
    old, new = path.with_suffix(".1f"), path.with_suffix(".2f")
    for draft in (old, new):
        draft.write_bytes(b"nbstream checkpoint 1")
    os.utime(old, (1_000_000_000, 1_000_000_000))
    await write(model, path)
    assert not old.exists()
    assert new.exists()  # somebody may be writing it


# What cannot be used


async def is_read_from_redis(
    model: Model, path: Path, names: list[bytes], caplog: pytest.LogCaptureFixture
) -> bool:
    """Whether a start has what Redis has, and not by the checkpoint."""
    caplog.clear()
    caplog.set_level("INFO")
    async with started(model, path) as mirror:
        return await equals_redis(mirror, model, names) and FROM_CHECKPOINT not in caplog.text


async def test_redis_that_has_lost_the_last_changes_is_believed(
    model: Model, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = await teach(model, range(20))
    await write(model, path)
    last = await model.last_change()
    await model.client.xdel(model.keys.changes, last)  # as after a failover: the next change gets the number again
    await model.client.decr(model.keys.sequence)
    names += await teach(model, range(20, 21))
    assert await is_read_from_redis(model, path, names, caplog)


async def test_a_stream_that_was_trimmed_past_it_has_a_gap(
    model: Model, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = await teach(model, range(20))
    await write(model, path)
    names += await teach(model, range(20, 30))
    await model.client.xtrim(model.keys.changes, maxlen=3, approximate=False)
    assert await is_read_from_redis(model, path, names, caplog)


async def test_a_model_that_was_taught_anew_under_its_name_is_another_one(
    model: Model, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await teach(model, range(20))
    await write(model, path)
    await model.client.flushdb()
    await model.open()
    names = await teach(model, range(5, 30))
    assert await is_read_from_redis(model, path, names, caplog)


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "longer", "version", "counts"])
async def test_a_damaged_file_is_not_used(
    model: Model, path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = await teach(model, range(30))
    await write(model, path)
    content = bytearray(path.read_bytes())
    match damage:
        case "cut":
            content = content[: random.Random(1).randrange(len(content))]
        case "empty":
            content.clear()
        case "flipped":
            content[random.Random(2).randrange(100, len(content))] ^= 1
        case "longer":
            content += b"\0"
        case "version":
            content[: len(b"nbstream checkpoint 2")] = b"nbstream checkpoint 2"
        case "counts":
            struct.pack_into("<Q", content, len(b"nbstream checkpoint 1\n") + 10 * 8, 1 << 62)
    path.write_bytes(content)
    assert await is_read_from_redis(model, path, names, caplog)
    assert "the checkpoint is not used" in caplog.text


async def test_a_file_that_cannot_be_written_leaves_the_former_one(
    model: Model, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await teach(model, range(30))
    await write(model, path)
    before = path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("no space left on device")))
        with pytest.raises(OSError, match="no space"):
            await write(model, path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["counts"]


# When it is written


async def test_it_is_written_where_there_is_none_and_not_again_without_changes(
    model: Model, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await teach(model, range(10))
    file = CheckpointFile(path)
    async with running(Mirror(model, 5.0, table_functions=table_functions(), checkpoint=file)) as mirror:
        task = asyncio.create_task(CheckpointWriter(mirror, file, least_tokens=1).run())
        await until(path.exists)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    first = path.stat().st_ino
    file = CheckpointFile(path)
    async with running(Mirror(model, 5.0, table_functions=table_functions(), checkpoint=file)) as mirror:
        writer = CheckpointWriter(mirror, file, least_tokens=1)
        await writer.write_if_due()
        assert path.stat().st_ino == first
        await teach(model, range(10, 12))
        await mirror.wait_until_applied(await model.last_change())
        await writer.write_if_due()
        assert path.stat().st_ino == first  # a start replays so few changes at once
        monkeypatch.setattr(checkpoint_writer, "_MOST_CHANGES", 1)
        await writer.write_if_due()
        assert path.stat().st_ino != first


async def test_a_small_model_has_none(model: Model, path: Path) -> None:
    await teach(model, range(10))
    file = CheckpointFile(path)
    async with running(Mirror(model, 5.0, table_functions=table_functions(), checkpoint=file)) as mirror:
        await CheckpointWriter(mirror, file).write_if_due()
    assert not path.exists()
