"""A model in Redis: one named set of counts with its ledger. Reads, and the one atomic write.

Rules: every failure of Redis leaves here as ``StoreUnavailable``; every command has the client's deadline; a
write may be repeated after a lost reply, since the script compares the ledger entry's version first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from redis.exceptions import AuthenticationError, NoScriptError, OutOfMemoryError, RedisError, ResponseError

from nbstream.bayes.counts import CLASSES, ClassCounts, Totals
from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife
from nbstream.errors import StoreForbids, StoreIncompatible, StoreRefuses, StoreUnavailable
from nbstream.store.model import former_version, history, ledger
from nbstream.store.model.first_scores import FirstScoresFollower
from nbstream.store.model.keys import ModelKeys
from nbstream.store.model.learn_script import (
    LessonCommit,
    RetentionLimits,
    pack_arguments,
    pack_keys,
    unpack_reply,
)
from nbstream.store.model.scan import scan_counts, scan_first_scores
from nbstream.store.model.signature import verify_signature

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from redis.asyncio import Redis

    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.model.history import HistoryRecord, LessonNote

_log = logging.getLogger(__name__)

MAX_CHANGES = 10_000
"""About so many changes stay in the stream, some 60 MB of 300 tokens each; a mirror further behind rescans."""

MAX_HISTORY_RECORDS = 100_000
"""About so many changes can be told and undone: 150 bytes each, and another 2 kB where one replaced an entry."""

MAX_FIRST_SCORES = 50_000
"""So many first scores of each class are kept, unless told otherwise: 150 bytes each."""

_HISTORY_BATCH = 500
# In what Redis answers to a write while it cannot write to its disk, and 6.2 to a script while its memory is full.
_WRITE_REFUSALS = ("MISCONF", "OOM command not allowed")

_LEDGER_BATCH = 200  # entries: some 240 kB
_SCRIPT_ATTEMPTS = 3  # at changes of which the server says that it does not know their script

_Stored = TypeVar("_Stored")
_Read = TypeVar("_Read")


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn what redis-py raises into ``StoreUnavailable`` or a kind of it, with the cause for the log."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise _store_error(error) from error


def _store_error(error: RedisError | OSError) -> StoreUnavailable:
    if any(isinstance(each, AuthenticationError) for each in (error, error.__cause__)):  # redis-py wraps it
        return StoreForbids("Redis refuses the password, or wants one: see redis.url and redis.password_file")
    refused = isinstance(error, ResponseError) and any(each in str(error) for each in _WRITE_REFUSALS)
    kind = StoreRefuses if refused or isinstance(error, OutOfMemoryError) else StoreUnavailable
    return kind(f"Redis: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class ModelPosition:
    """Where a model is: the last change's stream id and number, the last record of the history, the totals."""

    change: bytes
    sequence: int
    record: bytes
    totals: Totals


class Model:
    """One model's keys behind a Redis client.

    ``half_life_days`` is what a model that is new is signed with; once ``open`` is done, ``half_life`` is what the
    model has. ``clock`` gives the seconds since the epoch. ``first_scores`` is how many are kept of each class.
    """

    def __init__(
        self,
        client: Redis,
        name: str,
        ledger_seconds: int,
        half_life_days: float | None = None,
        clock: Callable[[], float] = time.time,
        first_scores: int = MAX_FIRST_SCORES,
    ) -> None:
        self.client = client
        self.keys = ModelKeys(name)
        self.half_life = NO_HALF_LIFE
        self._half_life_days = half_life_days
        self._clock = clock
        self.retention = RetentionLimits(MAX_CHANGES, MAX_HISTORY_RECORDS, first_scores, ledger_seconds)
        self._writes_refused = False
        self._position_script = client.register_script(lua_script("place.lua"))
        self._learn_script = client.register_script(lua_script("learn.lua"))
        self._evict_script = client.register_script(lua_script("evict.lua"))
        self._scanned_vocabulary: tuple[bytes, NDArray[np.int64]] | None = None
        self._first_scores_follower: FirstScoresFollower | None = None

    async def open(self, *, sign: bool = True, like: HalfLife | None = None) -> None:
        """Check that this program can use what is stored; ``sign`` a model that is new as written by it.

        ``like`` is the time base that the model is to have: that of another one whose counts are added to its own.
        Without it a new model's t0 is now. The one of a model that nobody has taught yet may be replaced.

        Raises ``StoreIncompatible`` where another schema or tokenizer wrote it, or its half-life is another one,
        ``StoreUnavailable``.
        """
        days = self._half_life_days
        wanted = like or (NO_HALF_LIFE if days is None else HalfLife(days, self._clock()))
        with store_errors():
            self.half_life = await verify_signature(
                self.client, self.keys, wanted, sign=sign, exactly=like is not None
            )

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens``, shape (n, classes), and the totals, in one round trip.

        For commands that check one message: they need no mirror. Others may learn between the two: a transaction
        would be refused while Redis is out of memory, though nothing is written.
        """
        with store_errors():
            async with self.client.pipeline(transaction=False) as pipe:
                pipe.hgetall(self.keys.totals)
                for key in self.keys.counts:
                    if tokens:
                        pipe.hmget(key, list(tokens))
                totals, *columns = await pipe.execute()
        counts = np.zeros((len(tokens), len(CLASSES)), dtype=np.int64)
        for column, values in enumerate(columns):
            counts[:, column] = [int(value or 0) for value in values]
        return counts, totals_from_hash(totals)

    async def counts(self) -> ClassCounts:
        """All counts there are, with their totals: some seconds for a million tokens."""
        with store_errors():
            counts = await scan_counts(self.client, self.keys)
        counts.totals = await self.totals()
        return counts

    async def vocabulary_counts(self) -> NDArray[np.int64]:
        """The counts of all tokens, shape (n, classes); scanned anew only after a change, by whomever."""
        last = await self.last_change()  # before the scan: what comes during it is found by the next one
        if self._scanned_vocabulary is None or self._scanned_vocabulary[0] != last:
            self._scanned_vocabulary = last, (await self.counts()).vocabulary_counts()
        return self._scanned_vocabulary[1]

    async def first_scores(self) -> FirstScores:
        """The first scores kept; the next call lets them follow. The first takes a second for 100,000."""
        with store_errors():
            while self._first_scores_follower is None or not await self._first_scores_follower.catch_up(
                self.client, self.keys
            ):
                place = await self.position()
                scanned = await scan_first_scores(self.client, self.keys)
                self._first_scores_follower = FirstScoresFollower(scanned, place.change, place.sequence)
        return self._first_scores_follower.first_scores

    async def wait_until_applied(self, change: bytes) -> None:
        """Return at once: every look-up sees every change."""

    async def position(self) -> ModelPosition:
        """The last change, the last record of the history and the totals, all of one moment."""
        keys = self.keys
        with store_errors():
            change, sequence, record, totals = await self._position_script(
                keys=[keys.changes, keys.sequence, keys.history, keys.totals]
            )
        pairs = dict(zip(totals[0::2], totals[1::2], strict=True))
        return ModelPosition(change, int(sequence), record, totals_from_hash(pairs))

    async def last_change(self) -> bytes:
        """The stream id of the last change; empty before the first."""
        with store_errors():
            entries: Any = await self.client.xrevrange(self.keys.changes, count=1)
        return entries[0][0] if entries else b""

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
                found = await pipe.execute()
        return [_value_or_error(ledger.LedgerEntry.unpack, fields) for fields in found]

    async def ledger_keys(self, former_keys: Mapping[str, str]) -> dict[str, str]:
        """Of messages (key: former key) those that the ledger has under the former key alone, with that key.

        None in a model that was not migrated, or so long ago that all entries of the older version are gone.
        """
        with store_errors():
            async with self.client.pipeline(transaction=False) as pipe:
                pipe.hget(self.keys.schema, former_version.FIELD)
                for pair in former_keys.items():
                    for key in pair:
                        pipe.exists(self.keys.ledger(key))
                migrated, *exist = await pipe.execute()
        migrated_at = former_version.migrated_at((migrated or b"").decode())
        if self._clock() > migrated_at + self.retention.ledger_seconds:
            return {}
        present, former = exist[0::2], exist[1::2]
        pairs = zip(former_keys.items(), present, former, strict=True)
        return {key: former_key for (key, former_key), has, had in pairs if had and not has}

    async def commit_lesson(
        self, message_key: str, old: ledger.LedgerEntry | None, new: ledger.LedgerEntry | None, note: LessonNote
    ) -> bytes | ledger.LedgerConflict:
        """Take back ``old`` and add ``new`` in one atomic step, and note it in the history.

        Returns the stream id of the change, or what the ledger holds where that is not ``old``: nothing was
        changed then, and the caller may try again with that. Returns only after Redis has answered, so with an AOF
        that is always synced what was returned is durable.
        """
        change = LessonCommit(message_key, old, new, note)
        try:
            with store_errors():
                answer: Any = await self._learn_script(
                    keys=pack_keys(self.keys, message_key), args=pack_arguments(change, self.retention)
                )
                found = unpack_reply(answer)
        except StoreRefuses as error:
            self._log_refusal(str(error))
            raise
        self._log_refusal(None)
        return found

    async def commit_lessons(
        self, changes: Sequence[LessonCommit]
    ) -> list[bytes | ledger.LedgerConflict | StoreUnavailable | StoreIncompatible]:
        """As ``replace`` for each of these, of as many messages, and in one round trip.

        Each is a step of its own: where one fails its place holds the error, and the others are done or not by
        themselves. Raises ``StoreUnavailable`` where it is not known what was done; the same may be tried again.
        """
        found: dict[int, bytes | ledger.LedgerConflict | StoreUnavailable | StoreIncompatible] = {}
        waiting = list(range(len(changes)))
        for _ in range(_SCRIPT_ATTEMPTS):
            if not waiting:
                break
            with store_errors():
                replies = await self._send_commits([changes[i] for i in waiting])
                unknown = [
                    i for i, reply in zip(waiting, replies, strict=True) if isinstance(reply, NoScriptError)
                ]
                if unknown:
                    await self.client.script_load(self._learn_script.script)
            for i, reply in zip(waiting, replies, strict=True):
                failed = isinstance(reply, RedisError)
                found[i] = _store_error(reply) if failed else _value_or_error(unpack_reply, reply)
            waiting = unknown
        answers = [found[i] for i in range(len(changes))]
        refused = next((str(each) for each in answers if isinstance(each, StoreRefuses)), None)
        self._log_refusal(refused)
        return answers

    async def _send_commits(self, changes: Sequence[LessonCommit]) -> list[Any]:
        async with self.client.pipeline(transaction=False) as pipe:
            for each in changes:
                keys = pack_keys(self.keys, each.message_key)
                pipe.evalsha(self._learn_script.sha, len(keys), *keys, *pack_arguments(each, self.retention))
            return await pipe.execute(raise_on_error=False)

    def _log_refusal(self, refusal: str | None) -> None:
        """Log when Redis begins to refuse what is learned, and when it takes it again; not each time."""
        if refusal and not self._writes_refused:
            _log.error("nothing can be learned, mail is scored as before: %s", refusal)
        if self._writes_refused and not refusal:
            _log.info("Redis takes what is learned again")
        self._writes_refused = bool(refusal)

    async def evict(
        self, tokens: Sequence[bytes], counts: NDArray[np.int64], vocabulary: int | None
    ) -> tuple[bytes, int] | None:
        """Forget those of some hundred distinct ``tokens`` that still have these ``counts``, in one atomic step.

        It stops when so much ``vocabulary`` is left; with None only counts below zero are forgotten. Returns the
        stream id of the change and the number of tokens forgotten, or None where nothing was changed.
        """
        keys = [self.keys.totals, self.keys.changes, self.keys.sequence, *self.keys.counts]
        columns = [" ".join(map(str, column)) for column in counts.T.tolist()]
        goal = "" if vocabulary is None else vocabulary
        with store_errors():
            done: Any = await self._evict_script(
                keys=keys, args=[goal, MAX_CHANGES, ledger.join_tokens(tokens), *columns]
            )
        return (done[0], int(done[1])) if done else None

    async def ledger_tokens(self) -> AsyncIterator[list[bytes]]:
        """The tokens of all live ledger entries, each packed as it is stored, some entries at a time."""
        cursor = None
        while cursor != 0:
            with store_errors():
                reply: Any = await self.client.scan(cursor or 0, self.keys.ledger_pattern, _LEDGER_BATCH)
                cursor, entries = reply
                async with self.client.pipeline(transaction=False) as pipe:
                    for entry in entries:
                        pipe.hget(entry, "tokens")
                    packed = await pipe.execute()
            yield [each for each in packed if each is not None]  # None: expired meanwhile

    async def history(self, since: float = 0.0) -> AsyncIterator[HistoryRecord]:
        """The changes since that time (seconds since the epoch), newest first."""
        last: str | bytes = "+"
        first = f"{max(0, round(since * 1000))}"
        while True:
            with store_errors():
                entries: Any = await self.client.xrevrange(self.keys.history, last, first, count=_HISTORY_BATCH)
            for place, stored in entries:
                yield history.read_history_record(place, stored)
            if len(entries) < _HISTORY_BATCH:
                return
            last = b"(" + entries[-1][0]

    async def history_record(self, place: bytes) -> HistoryRecord | None:
        """The record of that ``id``; None where it has been trimmed."""
        with store_errors():
            entries: Any = await self.client.xrange(self.keys.history, place, place)
        return history.read_history_record(*entries[0]) if entries else None

    async def totals(self) -> Totals:
        """The totals as they are in Redis."""
        with store_errors():
            fields: Any = await self.client.hgetall(self.keys.totals)
        return totals_from_hash(fields)


def _value_or_error(read: Callable[[_Stored], _Read], stored: _Stored) -> _Read | StoreIncompatible:
    """What is read of one of many, or the error: it is no reason to miss the others."""
    try:
        return read(stored)
    except StoreIncompatible as error:
        return error


def totals_from_hash(fields: Mapping[bytes, bytes]) -> Totals:
    """``Totals`` from the fields of the totals hash; a missing field is 0."""
    return Totals(
        messages=tuple(int(fields.get(f"messages:{label}".encode(), 0)) for label in CLASSES),
        tokens=tuple(int(fields.get(f"tokens:{label}".encode(), 0)) for label in CLASSES),
        vocabulary_size=int(fields.get(b"vocabulary", 0)),
    )


def lua_script(name: str) -> str:
    """The text of a Lua script of this folder."""
    return resources.files("nbstream.store").joinpath("lua", name).read_text(encoding="utf-8")
