"""One model in Redis: its reads, and the commit point of every lesson.

Rules: every failure of Redis leaves here as ``StoreUnavailable``; every command has the client's deadline; a
lesson may be committed again after a lost reply, since the script compares the version of the ledger entry first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

import numpy as np
from redis.exceptions import NoScriptError, RedisError, ResponseError

from nbstream.bayes.counts import CLASSES, ClassCounts, Totals
from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife
from nbstream.errors import StoreIncompatible, StoreRefuses, StoreUnavailable
from nbstream.policy.config_bounds import MAX_FIRST_SCORES
from nbstream.store.connection import ServerGuard
from nbstream.store.lua import lua_script
from nbstream.store.model import ledger
from nbstream.store.model.commit import (
    KEPT_SECONDS,
    UNKNOWN_VERSION,
    AcknowledgedLesson,
    ReplicaWait,
    ReplicaWaitOptions,
)
from nbstream.store.model.history import History, is_stream_id
from nbstream.store.model.keys import MAX_CHANGES, MAX_HISTORY_RECORDS, ModelKeys, RetentionLimits
from nbstream.store.model.reads import StoredFirstScores, scan_counts, scan_keys
from nbstream.store.model.scripts import (
    Eviction,
    EvictScript,
    LessonBatch,
    LessonCommit,
    ModelPosition,
    PositionScript,
    totals_from_hash,
    unpack_reply,
)
from nbstream.store.model.signature import read_identity, verify_signature
from nbstream.store.redis_errors import store_error, store_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from redis.asyncio import Redis

    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.model.commit import LessonRecorder
    from nbstream.store.model.history import LessonNote

_log = logging.getLogger(__name__)

_LOOK_UP_NAMES = 5_000  # of one command: Redis does nothing else meanwhile, for some milliseconds
_LEDGER_BATCH = 200  # entries: some 240 kB
_NO_REPLICA_WAIT = ReplicaWaitOptions()
_SCRIPT_ATTEMPTS = 3  # to send lessons whose script the server does not know

CommitResult: TypeAlias = "bytes | ledger.LedgerConflict | StoreUnavailable | StoreIncompatible"
"""What became of one of several lessons: its change, what the ledger holds instead, or why it failed."""

_Stored = TypeVar("_Stored")
_Value = TypeVar("_Value")


class Model:
    """One model behind a Redis client.

    ``model`` is the name of the model, or the keys of one of its layers. ``half_life_days`` is what a new model is
    signed with; after ``open``, ``half_life`` is what the model has. ``clock`` returns seconds
    since the epoch of Unix. ``first_scores`` is the number of first scores to keep of each class. ``recorder``
    records the lessons that Redis acknowledges, where something does. ``replica_wait`` says how many replicas must
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
        recorder: LessonRecorder | None = None,
        replica_wait: ReplicaWaitOptions = _NO_REPLICA_WAIT,
    ) -> None:
        self.client = client
        self.keys = ModelKeys(model) if isinstance(model, str) else model
        self.half_life = NO_HALF_LIFE
        self.history = History(client, self.keys)
        self.retention = RetentionLimits(MAX_CHANGES, MAX_HISTORY_RECORDS, first_scores, ledger_seconds)
        self._half_life_days = half_life_days
        self._clock = clock
        self.last_refusal: StoreRefuses | None = None
        """Why Redis refused the last lesson of this process; None where it did not."""
        self._recorder = recorder
        self._known_script = client.register_script(lua_script("known_changes.lua"))
        self._position_script = PositionScript(client, self.keys)
        self._evict_script = EvictScript(client, self.keys)
        self._replica_wait = ReplicaWait(client, self.keys, replica_wait)
        self._learn_script = client.register_script(lua_script("learn.lua"))
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
            if self._recorder:
                self._recorder.identity = await read_identity(self.client, self.keys, sign=sign)
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

    async def last_change(self) -> bytes:
        """The stream id of the last change; empty before the first one."""
        with store_errors():
            entries: Any = await self.client.xrevrange(self.keys.changes, count=1)
        return entries[0][0] if entries else b""

    async def has_change(self, change: bytes, sequence: int) -> bool:
        """Whether the change stream has this change under this number, or had it before it was trimmed.

        After a failover the stream may have another change under the number, and even under the stream id.
        """
        with store_errors():
            known: Any = await self._known_script(keys=[self.keys.changes], args=[change, sequence])
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
        return [_value_or_error(ledger.LedgerEntry.unpack, fields) for fields in hashes]

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

    # Lessons

    async def commit_lesson(
        self,
        message_key: str,
        old: ledger.LedgerEntry | None,
        new: ledger.LedgerEntry | None,
        note: LessonNote,
        *,
        waits_for_replicas: bool = True,
    ) -> bytes | ledger.LedgerConflict:
        """Commit one lesson: replace the ledger entry ``old`` by ``new``, None standing for no entry.

        This is the commit point of every lesson. One atomic step takes back the counts of ``old``, adds those of
        ``new``, writes the ledger entry, adds the change to the change stream and a record with ``note`` to the
        history: all of it, or nothing. The method returns only after Redis has acknowledged the step, so with an
        append-only file that is synced at each write (``appendfsync always``) the lesson is then durable. Where
        the model is to wait for replicas, and ``waits_for_replicas`` is set, they have the lesson then, also one
        that was committed before.

        Returns the stream id of the change, or what the ledger holds instead of ``old``: nothing was changed then,
        and the caller may try again with that. After an error the same lesson may be committed again: where the
        first attempt was carried out, the second one changes nothing. Raises ``StoreRefuses`` where Redis does
        not write, ``StoreUnavailable``, and ``StoreIncompatible`` for an entry that cannot be read.
        """
        lesson = LessonCommit(message_key, old, new, note)
        guard = ServerGuard(self.client)
        identity = self._recorder.identity if self._recorder else ""
        try:
            with store_errors():
                reply = await self._commit_batch(LessonBatch([lesson]))
                result = await self._recognize_removal(lesson, unpack_reply(reply))
            await self._record(identity, [(lesson, result)])
            if waits_for_replicas:
                await self._replica_wait.wait(guard)
        except StoreRefuses as error:
            self._note_refusal(error)
            raise
        self._note_refusal(None)
        return result

    async def commit_lessons(self, batch: LessonBatch) -> list[CommitResult]:
        """Commit the lessons of a batch; each is what ``commit_lesson`` commits.

        They are one atomic step, with one change, unless the ledger holds another entry than the expected one of
        any of the messages. Else each lesson is an atomic step of its own.
        Where one fails, its place in the list holds the error, and the others are committed all the same. Raises
        ``StoreUnavailable`` where it is not known what was committed; the same lessons may be committed again.
        """
        identity = self._recorder.identity if self._recorder else ""
        guard = ServerGuard(self.client)
        results: list[CommitResult] = []
        if change := await self._commit_at_once(batch):
            results += [change] * len(batch.lessons)
        else:
            by_key = await self._commit_one_by_one(batch.lessons)
            for lesson in batch.lessons:
                result = by_key[lesson.message_key]
                if isinstance(result, ledger.LedgerConflict):
                    result = await self._recognize_removal(lesson, result)
                results.append(result)
        await self._record(identity, list(zip(batch.lessons, results, strict=True)))
        try:
            await self._replica_wait.wait(guard)
        except StoreRefuses as error:
            self._note_refusal(error)
            raise
        self._note_refusal(next((result for result in results if isinstance(result, StoreRefuses)), None))
        return results

    async def _commit_at_once(self, batch: LessonBatch) -> bytes | None:
        """Commit several lessons in one step, and return its change; None where each has to be committed alone.

        Each has to be where the ledger holds another entry than expected of some message, and where Redis refuses
        the batch; also after a lost reply, since the ledger has the new entries of the batch then.
        """
        if len(batch.lessons) < 2:
            return None
        with store_errors():
            try:
                reply = await self._commit_batch(batch)
            except ResponseError:
                return None
        return reply if isinstance(reply, bytes) and is_stream_id(reply) else None

    async def _commit_batch(self, batch: LessonBatch) -> Any:
        return await self._learn_script(keys=batch.pack_keys(self.keys), args=batch.pack_arguments(self.retention))

    async def _commit_one_by_one(self, lessons: Sequence[LessonCommit]) -> dict[str, CommitResult]:
        """Commit each lesson by itself, all in one round trip, and return the results by message key."""
        results: dict[str, CommitResult] = {}
        waiting = [LessonBatch([lesson]) for lesson in lessons]
        for _ in range(_SCRIPT_ATTEMPTS):
            if not waiting:
                break
            with store_errors():
                replies = await self._send_commits(waiting)
                answered = list(zip(waiting, replies, strict=True))
                without_script = [batch for batch, reply in answered if isinstance(reply, NoScriptError)]
                if without_script:
                    await self.client.script_load(self._learn_script.script)
            for batch, reply in answered:
                failed = isinstance(reply, RedisError)
                result = store_error(reply) if failed else _value_or_error(unpack_reply, reply)
                results[batch.lessons[0].message_key] = result
            waiting = without_script
        return results

    async def confirm(self) -> None:
        """Return when as many replicas as wanted have every lesson that Redis has acknowledged.

        This is for an answer that writes nothing, because an earlier attempt has written it. Raises
        ``StoreUnavailable``.
        """
        await self._replica_wait.wait(ServerGuard(self.client))

    async def _send_commits(self, batches: Sequence[LessonBatch]) -> list[Any]:
        async with self.client.pipeline(transaction=False) as pipe:
            for batch in batches:
                keys = batch.pack_keys(self.keys)
                pipe.evalsha(self._learn_script.sha, len(keys), *keys, *batch.pack_arguments(self.retention))
            return await pipe.execute(raise_on_error=False)

    async def _recognize_removal(
        self, lesson: LessonCommit, answer: bytes | ledger.LedgerConflict
    ) -> bytes | ledger.LedgerConflict:
        """Return a change in place of the conflict of a removal that was carried out before, its reply lost.

        The ledger does not tell it from a removal by others, the history does. Nothing names its change: the last
        one comes no earlier.
        """
        if isinstance(answer, bytes) or lesson.new or not await self.history.has_removal(lesson.attempt):
            return answer
        return await self.last_change()

    async def _record(self, identity: str, commits: Sequence[tuple[LessonCommit, CommitResult]]) -> None:
        """Record those of the commits that Redis has acknowledged."""
        if not self._recorder:
            return
        keys, since = self.keys, self._clock() - KEPT_SECONDS
        lessons = []
        for lesson, result in commits:
            if change := _acknowledged_change(lesson, result):
                former_version = lesson.old.version if lesson.old else ""
                recorded = lesson
            elif entry := _entry_in_place(lesson, result, since):
                change, former_version = entry.change, UNKNOWN_VERSION
                note = replace(lesson.note, source=entry.source, actor=entry.actor, made_at=entry.learned_at)
                recorded = LessonCommit(lesson.message_key, None, entry, note)
            else:
                continue
            fields = _as_bytes(recorded.note_fields), _as_bytes(recorded.entry_fields)
            lessons.append(
                AcknowledgedLesson(keys.model, identity, change, lesson.message_key, former_version, *fields)
            )
        if lessons:
            await self._recorder.record(lessons)

    def note_writes_accepted(self) -> None:
        """Note that Redis takes writes: what it refused a moment ago it would take now."""
        self._note_refusal(None)

    def _note_refusal(self, refusal: StoreRefuses | None) -> None:
        """Note a refusal; log when Redis begins to refuse lessons and when it takes them again, not each time."""
        if refusal and not self.last_refusal:
            _log.error("nothing can be learned, mail is scored as before: %s", refusal)
        if self.last_refusal and not refusal:
            _log.info("Redis takes what is learned again")
        self.last_refusal = refusal


def _acknowledged_change(lesson: LessonCommit, result: CommitResult) -> bytes:
    """The change of a commit that was carried out, empty for another one.

    A conflict with the very entry that was to be written is the answer to a commit that was repeated after a lost
    reply.
    """
    if isinstance(result, ledger.LedgerConflict):
        is_ours = lesson.new and result.entry and result.entry.version == lesson.new.version
        return result.entry.change if result.entry and is_ours else b""
    return result if isinstance(result, bytes) else b""


def _entry_in_place(lesson: LessonCommit, result: CommitResult, since: float) -> ledger.LedgerEntry | None:
    """The entry that makes a lesson unnecessary, because the message has its label already.

    Only one that was learned after ``since`` (seconds since the epoch). It may be that of an earlier attempt,
    whose reply was lost: to acknowledge the second attempt acknowledges this entry.
    """
    entry = result.entry if isinstance(result, ledger.LedgerConflict) else None
    is_same = entry and lesson.new and entry.label == lesson.new.label and entry.learned_at >= since
    return entry if is_same else None


def _as_bytes(fields: Sequence[str | bytes]) -> tuple[bytes, ...]:
    return tuple([field if isinstance(field, bytes) else field.encode() for field in fields])


def _value_or_error(read: Callable[[_Stored], _Value], stored: _Stored) -> _Value | StoreIncompatible:
    """What ``read`` returns or raises: one value of many that cannot be read must not hide the others."""
    try:
        return read(stored)
    except StoreIncompatible as error:
        return error
