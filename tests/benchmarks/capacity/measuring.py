"""The measurements in process: lessons, checks, remembering, mirrors and memory, on a model that exists for them.

Rules: CPU time is what the kernel counts for this process, and what Redis reports of its own main thread. Nothing
is learned or written but in the model that is given. Every wait has a deadline.
"""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream.errors import StoreUnavailable
from nbstream.policy.envelope import Addresses, head_of, make_envelope
from nbstream.store.mirror.mirror import stream_entries
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.scripts import LessonCommit
from nbstream.store.redis_errors import store_errors
from tests.benchmarks.capacity.measurements import LessonCosts, RememberedCosts, TokenMemory
from tests.benchmarks.capacity.redis_costs import entry_bytes, main_thread_seconds, mean_memory_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from redis.asyncio import Redis

    from nbstream.bayes.counts import Counts
    from nbstream.cli.generated_mail import GeneratedMail
    from nbstream.filter import Filter
    from nbstream.policy.message_reader import MessageReader
    from nbstream.store.mirror.mirror import Mirror
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import RecentMessages

MIRROR_NUMBERS = (1, 8, 32)
"""The numbers of mirrors for which the cost of a change is measured."""

_SOURCE = "bench"
_WRITERS = 16
_SAMPLE = 100  # entries whose bytes are looked at
_ROUNDS = 3
_REMEMBERED_AT_ONCE = 32
_MEMORY_TOKENS = 200_000
_BLOCK_MILLISECONDS = 1000
_SCANNED_AT_ONCE = 1000
_READS = 3200  # of all mirrors together
_IDLE_SECONDS = 2
_STEP_SECONDS = 60.0


async def measure_checks(spam_filter: Filter, messages: Sequence[bytes], reader: MessageReader) -> list[float]:
    """Return the CPU seconds of each check, from the bytes of a message to its verdict: the median of three.

    The filter has its counts in memory and no observer, so this is the work of scoring alone.
    """
    rounds = []
    for _ in range(_ROUNDS):
        used = []
        for raw in messages:
            before = time.process_time()
            await spam_filter.check(reader.read_incoming(raw))
            used.append(time.process_time() - before)
            await asyncio.sleep(0)
        rounds.append(used)
    return [float(value) for value in np.median(np.array(rounds), axis=0)]


@dataclass(frozen=True, slots=True)
class TaughtMail:
    """What teaching showed: seconds by the clock, Redis's CPU seconds for a lesson, and what can be repeated."""

    round_trips: Sequence[float]
    redis: float
    entries: Mapping[str, LedgerEntry]


async def teach_mail(
    spam_filter: Filter, model: Model, mail: Sequence[GeneratedMail], reader: MessageReader
) -> TaughtMail:
    """Teach the messages one after another, each durable before the next; raises ``StoreUnavailable``."""
    round_trips, keys = [], []
    before = await main_thread_seconds(model.client)
    for message in mail:
        started = time.perf_counter()
        lesson = await spam_filter.learn(reader.read_incoming(message.raw), message.label, _SOURCE)
        round_trips.append(time.perf_counter() - started)
        keys.append(lesson.after.id)
    redis = (await main_thread_seconds(model.client) - before) / len(mail)
    stored = zip(keys, await model.entries(keys), strict=True)
    return TaughtMail(round_trips, redis, {key: entry for key, entry in stored if isinstance(entry, LedgerEntry)})


@dataclass(frozen=True, slots=True)
class CommittedLessons:
    """Lessons by several writers at once: how many a second, and the CPU seconds of this process for each."""

    per_second: float
    process: float


async def commit_copies(
    model: Model, taught: TaughtMail, suffix: str, mirror: Mirror | None = None
) -> CommittedLessons:
    """Commit each taught lesson once more, under another key, from several writers at once.

    ``mirror`` follows the model in this process, and its work until the last change counts as that of the process.
    Raises ``StoreUnavailable``.
    """
    note = LessonNote(_SOURCE, "", Assessment(0.5, "unsure"), Assessment(0.5, "unsure"))
    lessons = iter([LessonCommit(f"{key}{suffix}", None, entry, note) for key, entry in taught.entries.items()])

    async def write() -> None:
        for lesson in lessons:
            await model.commit_lesson(lesson.message_key, lesson.old, lesson.new, lesson.note)

    started, cpu = time.perf_counter(), time.process_time()
    await run_together([write] * _WRITERS)
    seconds = time.perf_counter() - started
    if mirror:
        await mirror.wait_until_applied(await model.last_change())
    count = len(taught.entries)
    return CommittedLessons(count / seconds, (time.process_time() - cpu) / count)


async def lesson_costs(model: Model, taught: TaughtMail, committed: CommittedLessons) -> LessonCosts:
    """Return the costs of a lesson, with the bytes of the last changes and of ledger entries."""
    ledger_keys = [model.keys.ledger(key) for key in list(taught.entries)[:_SAMPLE]]
    sizes = [entry_bytes(fields) for fields in await recent_changes(model)]
    return LessonCosts(
        taught.round_trips,
        taught.redis,
        committed.per_second,
        sum(sizes) / len(sizes),
        await mean_memory_bytes(model.client, ledger_keys),
    )


async def recent_changes(model: Model) -> list[dict[bytes, bytes]]:
    """Return the last changes on the stream, at most a hundred."""
    with store_errors():
        entries: Any = await model.client.xrevrange(model.keys.changes, count=_SAMPLE)
    return [fields for _, fields in entries]


async def measure_remembering(
    spam_filter: Filter,
    recent_messages: RecentMessages,
    model: Model,
    messages: Sequence[bytes],
    reader: MessageReader,
) -> RememberedCosts:
    """Return what it costs Redis to remember a message, with its row and its envelope where they are remembered.

    ``spam_filter`` has an observer that hands each check to ``recent_messages``, which this runs meanwhile.
    """
    writing = asyncio.create_task(recent_messages.run())
    ids = []
    try:
        before = await main_thread_seconds(model.client)
        for number, raw in enumerate(messages, 1):
            message = reader.read_incoming(raw)
            addresses = Addresses.of(f"sender@host{number}.example", ["recipient@example.org"])
            build_envelope = partial(make_envelope, _SOURCE, addresses, head_of(message))
            check = await spam_filter.check(message, build_envelope=build_envelope)
            ids.append(check.id)
            if number % _REMEMBERED_AT_ONCE == 0:
                await recent_messages.wait_until_written()
        await recent_messages.wait_until_written()
        redis = (await main_thread_seconds(model.client) - before) / len(messages)
    finally:
        writing.cancel()
        await asyncio.wait([writing])
    return RememberedCosts(redis, await _remembered_bytes(model, ids))


async def _remembered_bytes(model: Model, ids: Sequence[str]) -> float:
    """Return the bytes of Redis for each of the messages that are remembered, with its row and its indices."""
    client, keys = model.client, model.keys
    with store_errors():
        names = [key.decode() async for key in client.scan_iter(match=keys.rows_to("*"), count=_SCANNED_AT_ONCE)]
    indices = [keys.rows, *names]
    of_messages = [await mean_memory_bytes(client, map(key, ids[:_SAMPLE])) for key in (keys.checked, keys.row)]
    return sum(of_messages) + await mean_memory_bytes(client, indices) * len(indices) / max(1, len(set(ids)))


async def measure_fan_out(
    writer: Redis, readers: Redis, stream: str, changes: Sequence[dict[bytes, bytes]], mirrors: int
) -> float:
    """Return the CPU seconds of Redis for a change, written to ``stream`` and read by that many ``mirrors``.

    Each reader waits in ``XREAD BLOCK``, on a connection of ``readers`` of its own, as a mirror does. The next
    change comes when all have read the last one: no reader gets two in one reply, which would cost less.
    """
    count = min(len(changes), _READS // max(1, mirrors))
    arrived: asyncio.Semaphore = asyncio.Semaphore(0)

    async def read() -> None:
        last: bytes = b"0"
        waiting = True
        while waiting:
            with store_errors():
                streams: Any = await readers.xread({stream: last}, count=1, block=_BLOCK_MILLISECONDS)
            for entry_id, fields in stream_entries(streams):
                last = entry_id
                waiting = b"last" not in fields
                arrived.release()

    async def write() -> float:
        before = 0.0
        for number in range(count + 1):
            if number == 1:  # the first change shows that all readers are there
                before = await main_thread_seconds(writer)
            fields: dict[Any, Any] = dict(changes[number % len(changes)])
            if number == count:
                fields[b"last"] = b"1"
            with store_errors():
                await writer.xadd(stream, fields, maxlen=_SAMPLE)
            for _ in range(mirrors):
                await arrived.acquire()
        return (await main_thread_seconds(writer) - before) / count

    with store_errors():
        await writer.delete(stream)
    results = await run_together([write, *[read] * mirrors])
    return float(results[0])


async def measure_idle_mirrors(model: Model, mirrors: int) -> float:
    """Return the CPU seconds of Redis for a mirror in a second in which nothing changes.

    A mirror's read comes back empty once a second, and the mirror then compares its position with that of Redis.
    """
    last = await model.last_change()
    before = await main_thread_seconds(model.client)

    async def wait_and_compare() -> None:
        for _ in range(_IDLE_SECONDS):
            with store_errors():
                await model.client.xread({model.keys.changes: last}, count=1, block=_BLOCK_MILLISECONDS)
            await model.position()

    await run_together([wait_and_compare] * mirrors)
    used = await main_thread_seconds(model.client) - before
    return used / (mirrors * _IDLE_SECONDS)


async def run_together(works: Sequence[Any]) -> list[Any]:
    """Run coroutine functions at the same time and return their results; the first error ends all of them."""
    try:
        async with asyncio.timeout(_STEP_SECONDS), asyncio.TaskGroup() as group:
            tasks = [group.create_task(work()) for work in works]
    except TimeoutError as error:
        raise StoreUnavailable(f"Redis did not do in {_STEP_SECONDS:.0f} s what was to be measured") from error
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


@asynccontextmanager
async def following(mirror: Mirror) -> AsyncIterator[Mirror]:
    """Run the mirror; it is loaded when the context begins. Raises ``StoreUnavailable`` if it is not in time."""
    task = asyncio.create_task(mirror.run())
    try:
        try:
            async with asyncio.timeout(_STEP_SECONDS):
                await mirror.loaded.wait()
        except TimeoutError as error:
            raise StoreUnavailable("the counts could not be loaded") from error
        yield mirror
    finally:
        task.cancel()
        await asyncio.wait([task])


async def token_memory(model: Model, counts: Counts) -> TokenMemory:
    """Return the bytes of a token in the counts of a worker and in those of Redis.

    ``counts`` are empty ones of the kind that a worker has; they are filled.
    """
    vocabulary = (await model.totals()).vocabulary_size
    in_redis = await mean_memory_bytes(model.client, model.keys.counts) * len(model.keys.counts)
    return TokenMemory(worker_token_bytes(counts), in_redis / max(1, vocabulary), counts.native_table is not None)


def worker_token_bytes(counts: Counts, tokens: int = _MEMORY_TOKENS) -> float:
    """Return the bytes that a token takes in ``counts`` once they have that many, names of usual length included.

    ``counts`` are empty, and are filled.
    """
    rows = np.ones((1000, 2), dtype=np.int64)
    tracemalloc.start()
    try:
        for first in range(0, tokens, len(rows)):
            counts.set_counts([b"body:%09d" % number for number in range(first, first + len(rows))], rows)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if counts.native_table:  # its memory is none of Python's
        used = counts.native_table.describe().bytes_used
    return used / len(counts)
