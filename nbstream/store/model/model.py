"""One model in Redis: its counts, its ledger, and how far its changes have come.

Rules: every failure of Redis leaves here as ``StoreUnavailable``; every command has the client's deadline.
Lessons are committed by its base, the ``CommitPoint``.

All counts are read in bounded steps: a step is one HSCAN or ZSCAN of about ``SCAN_STEP`` fields, so that other
commands do not wait long. While others learn, each count is as it was at some moment of the scan. All steps go to
one server, since a cursor has no meaning in another one. First scores are read once, and afterwards only what has
changed: as in a mirror, the position in the change stream is read before the scan, a change may be applied
although the scan has seen it, and a gap in the sequence numbers means that all first scores are read again.

A temporary model exists for one measurement. Its name is drawn at random, so that it is no other model's; its keys
are removed however the measurement ends, unless a signal kills the process.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nbstream.bayes.counts import CLASSES, ClassCounts, Totals
from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.policy.config_bounds import MAX_FIRST_SCORES
from nbstream.policy.first_scores import FirstScores
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.connection import ServerGuard
from nbstream.store.lua import lua_script
from nbstream.store.model import ledger
from nbstream.store.model.commit import CommitPoint, ReplicaWaitOptions
from nbstream.store.model.keys import MAX_CHANGES, MAX_HISTORY_RECORDS, ModelKeys, RetentionLimits
from nbstream.store.model.scripts import (
    Eviction,
    EvictScript,
    ModelPosition,
    PositionScript,
    lesson_count,
    totals_from_hash,
)
from nbstream.store.model.signature import read_identity, verify_signature
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from redis.asyncio import Redis

    from nbstream.bayes.counts import ChangePosition, Counts
    from nbstream.store.model.commit import LessonRecorder


_SCAN_COUNT = 1000  # keys a step: well under a millisecond of Redis

# Counts, totals and first scores of a model, read from Redis in bounded steps.
#
# Rules: a step is one HSCAN or ZSCAN of about ``SCAN_STEP`` fields, so that other commands do not wait long.
# While others learn, each count is as it was at some moment of the scan. All steps go to one server, since a
# cursor has no meaning in another one.
#
# First scores are read once, and afterwards only what has changed: as in a mirror, the position in the change
# stream is read before the scan, a change may be applied although the scan has seen it, and a gap in the
# sequence numbers means that all first scores are read again.

SCAN_STEP = 2000  # fields: 1 to 2 ms of Redis


async def scan_keys(client: Redis, pattern: str, count: int) -> AsyncIterator[list[bytes]]:
    """The keys that match ``pattern``, about ``count`` keys of the whole database at a step.

    Raises what redis-py raises, and ``StoreUnavailable`` where another server answers in the middle, or keys of
    the model are being moved to another node of a cluster.
    """
    guard, cursor = ServerGuard(client), None
    await guard.check_keys()
    while cursor != 0:
        reply: Any = await client.scan(cursor or 0, match=pattern, count=count)
        guard.check()
        cursor, keys = reply
        if keys:
            yield keys
    await guard.check_keys()


async def scan_counts(client: Redis, keys: ModelKeys, counts: Counts) -> None:
    """Add the counts of all tokens and sums to ``counts``, which are empty, without totals.

    Raises what redis-py raises, and ``StoreUnavailable`` where another server answers in the middle.

    All classes are scanned at once: while the client reads a step of one class, Redis works on another.
    """
    guard = ServerGuard(client)
    scans = [
        asyncio.create_task(_scan_column(client, key, counts, column, guard))
        for column, key in enumerate(keys.counts)
    ]
    try:
        await asyncio.gather(*scans)
    finally:
        for scan in scans:
            scan.cancel()
        await asyncio.gather(*scans, return_exceptions=True)


async def _scan_column(client: Redis, key: str, counts: Counts, column: int, guard: ServerGuard) -> None:
    cursor = None
    while cursor != 0:
        stop_if_cancelled()
        reply: Any = await client.hscan(key, cursor or 0, count=SCAN_STEP)
        guard.check()
        cursor, fields = reply
        values = np.fromstring(b" ".join(fields.values()), dtype=np.int64, sep=" ")
        counts.set_column(list(fields), column, values)


async def scan_first_scores(client: Redis, keys: ModelKeys) -> FirstScores:
    """All first scores of the model. Raises ``StoreIncompatible``, and what ``scan_counts`` raises."""
    first_scores, guard = FirstScores(), ServerGuard(client)
    for label, key in zip(CLASSES, keys.first_scores, strict=True):
        cursor = None
        while cursor != 0:
            reply: Any = await client.zscan(key, cursor or 0, count=SCAN_STEP)
            guard.check()
            cursor, members = reply
            try:
                for packed, _ in members:
                    first_scores[label].add(packed)
            except ValueError as error:
                raise StoreIncompatible("a first score cannot be read: another program wrote it") from error
    return first_scores


_READ_COUNT = 10  # changes: of 64 lessons each they are 2 MB


@dataclass(slots=True)
class _FirstScoresCopy:
    """First scores in memory, and the last change that was applied to them."""

    first_scores: FirstScores
    last_id: bytes
    sequence: int


class StoredFirstScores:
    """The first scores of one model, for callers that have no mirror."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._keys = keys
        self._position_script = PositionScript(client, keys)
        self._copy: _FirstScoresCopy | None = None

    async def read(self) -> FirstScores:
        """The first scores as they are now. The first call takes about a second for 100,000 of them.

        Raises ``StoreIncompatible``, and what redis-py raises.
        """
        while self._copy is None or not await self._catch_up(self._copy):
            position = await self._position_script.read()
            first_scores = await scan_first_scores(self._client, self._keys)
            self._copy = _FirstScoresCopy(first_scores, position.change.stream_id, position.change.sequence)
        return self._copy.first_scores

    async def _catch_up(self, copy: _FirstScoresCopy) -> bool:
        """Apply the changes since the last call; False where they cannot be known, since the stream has a gap."""
        entries: Any = None
        while entries is None or len(entries) == _READ_COUNT:
            entries = await self._client.xrange(self._keys.changes, min=b"(" + copy.last_id, count=_READ_COUNT)
            for entry_id, fields in entries:
                try:
                    sequence = int(fields[b"sequence"])
                    if sequence != copy.sequence + lesson_count(fields):
                        return False
                    copy.first_scores.apply_change(fields)
                except (KeyError, ValueError):
                    return False
                copy.last_id, copy.sequence = entry_id, sequence
        return True


_LOOK_UP_NAMES = 5_000  # of one command: Redis does nothing else meanwhile, for some milliseconds
_LEDGER_BATCH = 200  # entries: some 240 kB
_NO_REPLICA_WAIT = ReplicaWaitOptions()


class Model(CommitPoint):
    """One model behind a Redis client.

    ``model`` is the name of the model, or the keys of one of its layers. ``half_life_days`` is what a new model is
    signed with; after ``open``, ``half_life`` is what the model has. ``clock`` returns seconds
    since the epoch of Unix. ``first_scores`` is the number of first scores to keep of each class. ``journal``
    records the lessons that Redis acknowledges, where there is one. ``replica_wait`` says how many replicas must
    have a lesson before it is acknowledged.
    """

    def __init__(  # noqa: PLR0913 - most have a default, and are named where they are given
        self,
        client: Redis,
        model: str | ModelKeys,
        ledger_seconds: int,
        half_life_days: float | None = None,
        clock: Callable[[], float] = time.time,
        *,
        first_scores: int = MAX_FIRST_SCORES,
        journal: LessonRecorder | None = None,
        replica_wait: ReplicaWaitOptions = _NO_REPLICA_WAIT,
    ) -> None:
        keys = ModelKeys(model) if isinstance(model, str) else model
        retention = RetentionLimits(MAX_CHANGES, MAX_HISTORY_RECORDS, first_scores, ledger_seconds)
        super().__init__(client, keys, retention, clock, journal, replica_wait)
        self.half_life = NO_HALF_LIFE
        self._half_life_days = half_life_days
        self._known_script = client.register_script(lua_script("known_changes.lua"))
        self._position_script = PositionScript(client, self.keys)
        self._evict_script = EvictScript(client, self.keys)
        self._first_scores = StoredFirstScores(client, self.keys)

    async def open(self, *, sign: bool = True, time_base: HalfLife | None = None) -> Self:
        """Check that this program can use what is stored, and return the model.

        ``sign`` says whether a new model is signed as written by this program. ``time_base`` is the time base that
        the model has to have, as when the counts of another model are added to its own; without it the t0 of a new
        model is now. A model that nobody has taught yet may get another time base.

        Raises ``StoreIncompatible`` where another schema, tokenizer or half-life wrote the model, and
        ``StoreUnavailable``.
        """
        days = self._half_life_days
        wanted = time_base or (NO_HALF_LIFE if days is None else HalfLife(days, self._clock()))
        with store_errors():
            self.half_life = await verify_signature(
                self.client, self.keys, wanted, sign=sign, exactly=time_base is not None
            )
            if self._journal:
                self._journal.identity = await read_identity(self.client, self.keys, sign=sign)
        return self

    # Counts

    @property
    def native_table(self) -> None:
        """None: Redis has the counts."""

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens``, shape (n, classes), and the totals, in one round trip.

        This is for commands that check one message and need no mirror. A lesson may come between the two reads: a
        transaction would be refused while Redis is out of memory, although it writes nothing.
        """
        starts = range(0, len(tokens), _LOOK_UP_NAMES)
        with store_errors():
            async with self.client.pipeline(transaction=False) as pipe:
                pipe.hgetall(self.keys.totals)
                for key in self.keys.counts:
                    for start in starts:
                        pipe.hmget(key, list(tokens[start : start + _LOOK_UP_NAMES]))
                totals, *values = await pipe.execute()
        counts = np.zeros((len(tokens), len(CLASSES)), dtype=np.int64)
        for column in range(len(CLASSES)):
            of_class = chain.from_iterable(values[column * len(starts) : (column + 1) * len(starts)])
            counts[:, column] = [int(value or 0) for value in of_class]
        return counts, totals_from_hash(totals)

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """The counts of these sums, shape (n, classes)."""
        return (await self.look_up(names))[0]

    async def totals(self) -> Totals:
        """The totals as they are in Redis."""
        with store_errors():
            fields: Any = await self.client.hgetall(self.keys.totals)
        return totals_from_hash(fields)

    async def counts(self) -> ClassCounts:
        """All counts of the model, with their totals; this takes some seconds for a million tokens."""
        counts = ClassCounts()
        with store_errors():
            await scan_counts(self.client, self.keys, counts)
        counts.set_totals(await self.totals())
        return counts

    async def first_scores(self) -> FirstScores:
        """The first scores that are stored. The first call takes about a second for 100,000 of them."""
        with store_errors():
            return await self._first_scores.read()

    # Changes

    async def position(self) -> ModelPosition:
        """The last change, the last record of the history and the totals, all of one moment."""
        with store_errors():
            return await self._position_script.read()

    async def has_change(self, change: ChangePosition) -> bool:
        """Whether the change stream has this change under its number, or had it before it was trimmed.

        After a failover the stream may have another change under the number, and even under the stream id.
        """
        with store_errors():
            known: Any = await self._known_script(
                keys=[self.keys.changes], args=[change.stream_id, change.sequence]
            )
        return bool(known)

    async def wait_until_applied(self, change: bytes) -> None:
        """Return at once: every look-up sees every change."""

    # The ledger

    async def entry_versions(self, message_keys: Sequence[str]) -> list[str]:
        """The version of the ledger entry of each message, empty for no entry, in one round trip."""
        with store_errors():
            async with self.client.pipeline(transaction=False) as pipe:
                for message_key in message_keys:
                    pipe.hget(self.keys.ledger(message_key), "version")
                versions = await pipe.execute()
        return [(version or b"").decode() for version in versions]

    async def labels(self, message_keys: Sequence[str]) -> dict[str, str]:
        """What those of these messages were learned as that are learned, in one round trip."""
        with store_errors():
            async with self.client.pipeline(transaction=False) as pipe:
                for message_key in message_keys:
                    pipe.hget(self.keys.ledger(message_key), "label")
                labels = await pipe.execute()
        return {key: label.decode() for key, label in zip(message_keys, labels, strict=True) if label}

    async def entry(self, message_key: str) -> ledger.LedgerEntry | None:
        """What the message was learned as, or None."""
        with store_errors():
            fields: Any = await self.client.hgetall(self.keys.ledger(message_key))
            return ledger.LedgerEntry.unpack(fields)

    async def entries(self, message_keys: Sequence[str]) -> list[ledger.LedgerEntry | StoreIncompatible | None]:
        """What each of these messages was learned as, None, or why that cannot be read, in one round trip."""
        with store_errors():
            async with self.client.pipeline(transaction=False) as pipe:
                for message_key in message_keys:
                    pipe.hgetall(self.keys.ledger(message_key))
                hashes = await pipe.execute()
        return [_entry_or_error(fields) for fields in hashes]

    async def ledger_tokens(self) -> AsyncIterator[list[bytes]]:
        """The tokens of all live ledger entries, each packed as it is stored, a batch of entries at a time."""
        with store_errors():
            async for entry_keys in scan_keys(self.client, self.keys.ledger_pattern, _LEDGER_BATCH):
                async with self.client.pipeline(transaction=False) as pipe:
                    for key in entry_keys:
                        pipe.hget(key, "tokens")
                    tokens = await pipe.execute()
                yield [packed for packed in tokens if packed is not None]  # None: the entry has expired meanwhile

    async def evict(
        self, tokens: Sequence[bytes], counts: NDArray[np.int64], vocabulary: int | None
    ) -> Eviction | None:
        """Remove those ``tokens`` that still have these ``counts``; see ``EvictScript.run``."""
        with store_errors():
            return await self._evict_script.run(tokens, counts, vocabulary)


def _entry_or_error(fields: dict[bytes, bytes]) -> ledger.LedgerEntry | StoreIncompatible | None:
    """The entry, or why it cannot be read: one of many that cannot be read must not hide the others."""
    try:
        return ledger.LedgerEntry.unpack(fields)
    except StoreIncompatible as error:
        return error


# A model in Redis that exists only for one measurement.
#
# Rules: its name is drawn at random, so that it is no other model's; its keys are removed however the
# measurement ends, unless a signal kills the process. The keys are searched by bounded SCANs for the hash tag of
# the model: nothing else lists the keys of a ledger.


def temporary_name(purpose: str) -> str:
    """A name for a temporary model that no other model has."""
    return f"{purpose}-{secrets.token_hex(8)}"


@asynccontextmanager
async def temporary_model(
    client: Redis, name: str, ledger_seconds: int, first_scores: int = MAX_FIRST_SCORES
) -> AsyncIterator[Model]:
    """A model with the ``name``, empty at first and removed at the end; the rest is as in ``Model``.

    Raises ``StoreUnavailable``, also where the model could not be removed; the text then names the keys that
    may be left.
    """
    model = Model(client, name, ledger_seconds, first_scores=first_scores)
    try:
        await model.open()
        yield model
    finally:
        await _remove_keys(client, model.keys.pattern)


async def _remove_keys(client: Redis, pattern: str) -> None:
    try:
        with store_errors():
            async for keys in scan_keys(client, pattern, _SCAN_COUNT):
                await client.unlink(*keys)
    except StoreUnavailable as error:
        raise type(error)(f"{error}; the keys {pattern} may be left there") from error
