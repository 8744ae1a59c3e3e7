"""A checkpoint saves a start most of its reading, and changes nothing of what is read."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import struct
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.policy.first_scores import FirstScore, FirstScores
from nbstream.store.mirror import checkpoint, checkpoint_writer
from nbstream.store.mirror.checkpoint import CheckpointContext, CheckpointFile
from nbstream.store.mirror.checkpoint_writer import CheckpointWriter
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.mirror.shared_counts import SharedCounts
from nbstream.store.model.model import Model
from tests.engine.native import table_functions
from tests.store.lessons import change, entry
from tests.store.mirror.mirrors import running
from tests.store.mirror.test_mirror import equals_redis
from tests.waiting import DEADLINE_SECONDS, until

FROM_CHECKPOINT = "loaded from the checkpoint"
MAGIC = b"nbstream checkpoint 2\n"


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
        score = FirstScore(float(number), f"m{number}", number / 10_000).pack()
        lesson = replace(entry(label, tokens, 900 + number, [(b"=size", 5)]), first_score=score)
        await change(model, f"m{number}", lesson)
    return [*names, b"=size"]


async def write(model: Model, path: Path) -> None:
    """Start once, and write a checkpoint."""
    file = CheckpointFile(path)
    async with running(Mirror(model, 5.0, table_functions=table_functions(), checkpoint=file)) as mirror:
        assert mirror.written_table
        await asyncio.to_thread(file.write, mirror.written_table, mirror.checkpoint_context())


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
            await asyncio.to_thread(file.write, table, mirror.checkpoint_context())
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


# Before Redis answers


def context_of(content: bytes | bytearray) -> slice:
    """Where the context stands in a checkpoint."""
    (length,) = struct.unpack_from("<I", content, len(MAGIC))
    return slice(len(MAGIC) + 4, len(MAGIC) + 4 + length)


def new_early(model: Model, path: Path, shared: Path | None = None) -> Mirror:
    """A mirror that has not asked Redis for anything yet."""
    folder = SharedCounts(table_functions(), shared) if shared else None
    file = CheckpointFile(path)
    return Mirror(model, 5.0, table_functions=table_functions(), shared=folder, checkpoint=file)


async def test_until_redis_answers_the_counts_of_the_checkpoint_serve_and_say_how_old_they_are(
    model: Model, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = await teach(model, range(60))
    await write(model, path)
    (before, totals), scores = await model.look_up(names), (await model.first_scores())["spam"].scores()
    now = time.time() + 100
    names += await teach(model, range(60, 70))
    mirror = new_early(model, path)
    assert not mirror.has_counts.is_set()

    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: now)
        await mirror.load_early()

    assert mirror.is_early
    assert not mirror.following
    assert mirror.lag_seconds > 99
    assert mirror.totals == totals
    assert ((await mirror.look_up(names[: len(before)]))[0] == before).all()
    assert (await mirror.first_scores())["spam"].scores() == scores
    assert len(scores) > 20
    assert mirror.written_table is None
    early = mirror.native_table
    async with running(mirror):
        assert await equals_redis(mirror, model, names)
        assert mirror.loads == 1
        assert mirror.native_table is early  # it is not read a second time
        assert mirror.lag_seconds == 0
        theirs = (await model.first_scores())["spam"].scores()
        assert (await mirror.first_scores())["spam"].scores() == theirs != scores


async def test_the_checkpoint_of_another_model_does_not_serve(client: Redis, model: Model, path: Path) -> None:
    names = await teach(model, range(30))
    await write(model, path)
    for other in (Model(client, "other", 3600), Model(client, "test", 3600, key_fingerprint="0123")):
        mirror = new_early(other, path)
        await mirror.load_early()
        assert mirror.totals is None
    assert await is_read_early_and_then_from_redis(model, path, names)


async def is_read_early_and_then_from_redis(model: Model, path: Path, names: list[bytes]) -> bool:
    mirror = new_early(model, path)
    await mirror.load_early()
    assert mirror.totals
    async with running(mirror):
        return await equals_redis(mirror, model, names)


@pytest.mark.parametrize("fate", ["lost", "trimmed", "anew", "gone"])
async def test_where_redis_has_gone_another_way_its_counts_replace_those_that_served(
    model: Model, path: Path, fate: str
) -> None:
    names = await teach(model, range(20))
    await write(model, path)
    match fate:
        case "lost":
            await model.client.xdel(model.keys.changes, await model.last_change())
            await model.client.decr(model.keys.sequence)
        case "trimmed":
            names += await teach(model, range(20, 30))
            await model.client.xtrim(model.keys.changes, maxlen=3, approximate=False)
        case "anew":
            await model.client.flushdb()
            await model.open()
        case "gone":
            await model.client.flushdb()
    names += await teach(model, range(40, 41 if fate != "anew" else 70))
    assert await is_read_early_and_then_from_redis(model, path, names)


async def test_the_form_of_0_11_0_serves_only_once_redis_has_confirmed_it(
    model: Model, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    names = await teach(model, range(30))
    await write(model, path)
    content = path.read_bytes()[:-32]
    former = b"nbstream checkpoint 1\n" + content[context_of(content).stop :]
    path.write_bytes(former + hashlib.blake2b(former, digest_size=32).digest())
    file = CheckpointFile(path)
    mirror = Mirror(model, 5.0, table_functions=table_functions(), checkpoint=file)
    await mirror.load_early()
    assert mirror.totals is None
    async with running(mirror):
        assert await equals_redis(mirror, model, names)
        assert FROM_CHECKPOINT in caplog.text
        await CheckpointWriter(mirror, file, least_tokens=1).write_if_due()
    assert path.read_bytes().startswith(MAGIC)


async def test_a_worker_that_ends_before_redis_answers_leaves_counts_that_nobody_believes(
    model: Model, path: Path, tmp_path: Path
) -> None:
    """Two workers serve the checkpoint, the one that has read it ends, and Redis has another history."""
    names = await teach(model, range(30))
    await write(model, path)
    writer, reader = (new_early(model, path, tmp_path / "shared") for _ in range(2))
    await writer.load_early()
    await reader.load_early()
    assert (writer.role, reader.role) == ("writer", "reader")
    assert writer.totals == reader.totals is not None
    await model.client.flushdb()
    await model.open()
    names += await teach(model, range(10, 45))

    ending = asyncio.create_task(writer.run())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    async with running(reader):
        assert reader.role == "writer"
        assert await equals_redis(reader, model, names)


async def test_readers_follow_once_the_writer_has_what_redis_has(model: Model, path: Path, tmp_path: Path) -> None:
    names = await teach(model, range(30))
    await write(model, path)
    names += await teach(model, range(30, 35))
    writer, reader = (new_early(model, path, tmp_path / "shared") for _ in range(2))
    await writer.load_early()
    await reader.load_early()
    following = asyncio.create_task(reader.run())
    try:
        assert reader.is_early
        async with running(writer):
            await until(lambda: reader.following)
            assert (writer.role, reader.role) == ("writer", "reader")
            assert await equals_redis(reader, model, names)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_nothing_is_early_once_redis_has_answered(
    model: Model, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is not read a second time, and no reader waits for a writer that has no checkpoint to share."""
    names = await teach(model, range(30))
    await write(model, path)
    async with started(model, path) as mirror:
        monkeypatch.setattr(CheckpointFile, "read", None)
        await mirror.load_early()
        assert await equals_redis(mirror, model, names)
    monkeypatch.undo()
    writer, reader = (new_early(model, path, tmp_path / "shared") for _ in range(2))
    path.rename(path.with_name("elsewhere"))
    await writer.load_early()
    path.with_name("elsewhere").rename(path)
    waiting = asyncio.create_task(reader.load_early())
    async with running(writer), running(reader):
        await asyncio.wait_for(waiting, DEADLINE_SECONDS)
        assert await equals_redis(reader, model, names)
        assert reader.lag_seconds == 0


async def test_counts_of_the_checkpoint_do_not_take_the_place_of_those_that_redis_has_given_meanwhile(
    model: Model, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is read, its first scores are not yet, and Redis answers that it has gone another way."""
    await teach(model, range(30))
    await write(model, path)
    await model.client.flushdb()
    await model.open()
    names = await teach(model, range(10, 45))
    make, is_read, has_answered = CheckpointContext.make_first_scores, threading.Event(), threading.Event()

    def make_later(context: CheckpointContext) -> FirstScores:
        is_read.set()
        assert has_answered.wait(DEADLINE_SECONDS)
        return make(context)

    monkeypatch.setattr(CheckpointContext, "make_first_scores", make_later)
    mirror = new_early(model, path, tmp_path / "shared")
    loading = asyncio.create_task(mirror.load_early())
    await until(is_read.is_set)
    async with running(mirror):
        has_answered.set()
        await loading
        async with running(new_early(model, path, tmp_path / "shared")) as reader:
            assert reader.role == "reader"
            assert await equals_redis(reader, model, names)
            await teach(model, range(45, 47))
            await mirror.wait_until_applied(await model.last_change())
            assert await equals_redis(mirror, model, names)
        assert mirror.role == "writer"
    assert "keeps its own copy" not in caplog.text


async def test_counts_that_a_former_writer_has_left_serve_in_place_of_the_older_checkpoint(
    model: Model, path: Path, tmp_path: Path
) -> None:
    """A worker that is started anew while Redis is away does not take the others back to the checkpoint."""
    names = await teach(model, range(30))
    await write(model, path)
    names += await teach(model, range(30, 35))
    async with running(new_early(model, path, tmp_path / "shared")) as former:
        assert await equals_redis(former, model, names)
        totals = former.totals
    another, mirror = (new_early(model, path, tmp_path / "shared") for _ in range(2))
    await mirror.load_early()
    await another.load_early()
    assert former.totals == mirror.totals == another.totals == totals
    async with running(mirror):
        assert await equals_redis(mirror, model, names)


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


@pytest.mark.parametrize(
    "damage", ["cut", "empty", "flipped", "longer", "version", "counts", "context", "nested", "long"]
)
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
            content[: len(b"nbstream checkpoint 3")] = b"nbstream checkpoint 3"
        case "counts":
            struct.pack_into("<Q", content, context_of(content).stop + 10 * 8, 1 << 62)
        case "context":
            content[context_of(content)] = b"[" * len(range(*context_of(content).indices(1 << 40)))
        case "nested":
            deep = b"[" * 100_000
            content[:] = MAGIC + struct.pack("<I", len(deep)) + deep
        case "long":
            struct.pack_into("<I", content, len(MAGIC), (1 << 32) - 1)
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
