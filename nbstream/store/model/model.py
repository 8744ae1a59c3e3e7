"""One model in Redis: its counts, its ledger, and how far its changes have come.

Rules: every failure of Redis leaves here as ``StoreUnavailable``; every command has the client's deadline. Lessons
are committed by its base, the ``CommitPoint``; all counts are read in bounded steps (``scan``).

Prequential scores are read once, and afterwards only what has changed: as in a follower, the position in the
change stream is read before the scan, a change may be applied although the scan has seen it, and a gap in the
sequence numbers means that all prequential scores are read again.

A temporary model exists for one measurement. Its name is drawn at random, so that it is no other model's; its keys
are removed however the measurement ends, unless a signal kills the process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from nbstream.bayes.columns import is_automatic, label_of
from nbstream.bayes.counts import NO_CHANGE, ChangePosition, ClassCounts, Totals, rows_by_label
from nbstream.errors import StoreIncompatible
from nbstream.numpy_on_demand import np
from nbstream.policy.settings import MAX_PREQUENTIAL_SCORES
from nbstream.store.compression import compress
from nbstream.store.lua import lua_script
from nbstream.store.model import ledger
from nbstream.store.model.commit import CommitPoint, ReplicaWaitOptions
from nbstream.store.model.keys import MAX_CHANGES, MAX_HISTORY_RECORDS, ModelKeys, RetentionLimits
from nbstream.store.model.scan import scan_counts, scan_keys, scan_prequential_scores
from nbstream.store.model.scripts import is_of_model, lesson_count, read_totals, read_totals_in_turn
from nbstream.store.model.signature import verify_signature
from nbstream.store.redis_errors import store_errors
from nbstream.tokens.tokens import join_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from redis.asyncio import Redis

    from nbstream.policy.thresholds import PrequentialScores


_READ_COUNT = 10  # changes: of 64 lessons each they are 2 MB
_LOOK_UP_NAMES = 5_000  # of one command: Redis does nothing else meanwhile, for some milliseconds
_LEDGER_BATCH = 200  # entries: some 240 kB
_NO_REPLICA_WAIT = ReplicaWaitOptions()


class ModelPosition(NamedTuple):
    """The last change, and the totals of what people taught and of what was learned without them."""

    change: ChangePosition
    people: Totals
    automatic: Totals


class Eviction(NamedTuple):
    """The stream id of the change, and the number of tokens that were removed or whose counts below zero were."""

    change: bytes
    tokens: int


class Model(CommitPoint):
    """One model behind a Redis client.

    ``model`` is its name, or its keys. ``prequential_scores`` is the number of
    prequential scores to keep of each class, ``max_changes`` and ``max_history_records`` are about how many
    changes and records stay. ``replica_wait`` says how many replicas must have a lesson before it is acknowledged.
    ``key_fingerprint`` is that of the key of its private tokens, empty for a model in words.
    """

    def __init__(  # noqa: PLR0913 - most have a default, and are named where they are given
        self,
        client: Redis,
        model: str | ModelKeys,
        ledger_seconds: int,
        *,
        prequential_scores: int = MAX_PREQUENTIAL_SCORES,
        replica_wait: ReplicaWaitOptions = _NO_REPLICA_WAIT,
        key_fingerprint: str = "",
        max_changes: int = MAX_CHANGES,
        max_history_records: int = MAX_HISTORY_RECORDS,
    ) -> None:
        keys = ModelKeys(model) if isinstance(model, str) else model
        retention = RetentionLimits(max_changes, max_history_records, prequential_scores, ledger_seconds)
        super().__init__(client, keys, retention, replica_wait)
        self.key_fingerprint = key_fingerprint
        self._position_script = client.register_script(lua_script("position.lua"))
        self._evict_script = client.register_script(lua_script("evict.lua"))
        self._prequential_scores: PrequentialScores | None = None
        self._prequential_scores_position = NO_CHANGE

    async def open(self, *, sign: bool = True) -> Self:
        """Check that this program can use what is stored, and return the model.

        ``sign`` says whether a new model is signed as written by this program. Raises ``StoreIncompatible`` where
        the model has another format or another key, and ``StoreUnavailable``.
        """
        with store_errors():
            await verify_signature(self.client, self.keys, sign=sign, key_fingerprint=self.key_fingerprint)
        return self

    # Counts

    @property
    def in_memory(self) -> None:
        """None: Redis has the counts."""

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` by label, shape (n, classes), and the totals, in two round trips.

        This is for commands that check one message and need no follower. A lesson may come between the reads: a
        transaction would be refused while Redis is out of memory, although it writes nothing.
        """
        counts, totals = await self.look_up_columns(tokens)
        return rows_by_label(counts), totals.by_label

    async def look_up_columns(
        self, tokens: Sequence[bytes], *, automatic: bool = False
    ) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` in each of the columns of the totals, shape (n, columns), and these totals."""
        totals = (await self.stored_totals())[automatic]
        counts = np.zeros((len(tokens), len(totals.columns)), dtype=np.int64)
        starts = range(0, len(tokens), _LOOK_UP_NAMES)
        if not tokens:
            return counts, totals
        with store_errors():
            async with self.client.pipeline(transaction=False) as pipe:
                for column in totals.columns:
                    for start in starts:
                        pipe.hmget(self.keys.counts(column), list(tokens[start : start + _LOOK_UP_NAMES]))
                values = await pipe.execute()
        for i in range(len(totals.columns)):
            of_column = chain.from_iterable(values[i * len(starts) : (i + 1) * len(starts)])
            counts[:, i] = [int(value or 0) for value in of_column]
        return counts, totals

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """The counts of these sums, shape (n, classes)."""
        return (await self.look_up(names))[0]

    async def totals(self) -> Totals:
        """The totals of what people taught, as they are in Redis."""
        return (await self.stored_totals())[0].by_label

    async def stored_totals(self) -> tuple[Totals, Totals]:
        """The totals of what people taught and of what was learned without them, as they are in Redis."""
        with store_errors():
            fields: Any = await self.client.hgetall(self.keys.totals)
        return read_totals(fields)

    async def counts(self) -> ClassCounts:
        """All that people taught, with the totals; this takes some seconds for a million tokens."""
        totals, _ = await self.stored_totals()
        counts = ClassCounts(totals.columns)
        with store_errors():
            await scan_counts(self.client, self.keys, counts)
        counts.set_totals((await self.stored_totals())[0])
        return counts

    async def prequential_scores(self) -> PrequentialScores:
        """The prequential scores that are stored. The first call takes about a second for 100,000 of them."""
        with store_errors():
            while self._prequential_scores is None or not await self._apply_to_prequential_scores(
                self._prequential_scores
            ):
                position = (await self.position()).change
                prequential_scores = await scan_prequential_scores(self.client, self.keys)
                self._prequential_scores, self._prequential_scores_position = prequential_scores, position
        return self._prequential_scores

    async def _apply_to_prequential_scores(self, prequential_scores: PrequentialScores) -> bool:
        """Apply the changes since the last call; False where they cannot be known, since the stream has a gap."""
        entries: Any = None
        while entries is None or len(entries) == _READ_COUNT:
            start = b"(" + self._prequential_scores_position.stream_id
            entries = await self.client.xrange(self.keys.changes, min=start, count=_READ_COUNT)
            for entry_id, fields in entries:
                try:
                    sequence = int(fields[b"sequence"])
                    if sequence != self._prequential_scores_position.sequence + lesson_count(fields):
                        return False
                    if is_of_model(fields, self.keys.name_in_changes):
                        prequential_scores.apply_change(fields)
                except (KeyError, ValueError):
                    return False
                self._prequential_scores_position = ChangePosition.of(entry_id, sequence)
        return True

    # Changes

    async def position(self) -> ModelPosition:
        """The last change and the totals, all of one moment."""
        keys = self.keys
        with store_errors():
            reply: Any = await self._position_script(keys=[keys.changes, keys.sequence, keys.totals])
        change, sequence, totals = reply
        return ModelPosition(ChangePosition.of(change, int(sequence)), *read_totals_in_turn(totals))

    async def wait_until_applied(self, change: bytes) -> None:
        """Return at once: every look-up sees every change."""

    # The ledger

    async def labels(self, message_keys: Sequence[str]) -> dict[str, str]:
        """What people taught of those of these messages that they taught, in one round trip."""
        columns = await self._ledger_fields(map(self.keys.ledger, message_keys), "label")
        return {
            key: label_of(column.decode())
            for key, (column,) in zip(message_keys, columns, strict=True)
            if column and not is_automatic(column.decode())
        }

    async def _ledger_fields(self, entry_keys: Iterable[str | bytes], *fields: str) -> list[list[bytes | None]]:
        """Some fields of the ledger entries under these keys, None for no entry, in one round trip."""
        with store_errors():
            async with self.client.pipeline(transaction=False) as pipe:
                for key in entry_keys:
                    pipe.hmget(key, *fields)
                values: list[list[bytes | None]] = await pipe.execute()
        return values

    async def entry(self, message_key: str) -> ledger.LedgerEntry | None:
        """What the message was learned as, or None."""
        with store_errors():
            fields: Any = await self.client.hgetall(self.keys.ledger(message_key))
            entry = ledger.LedgerEntry.unpack(fields)
        if entry and entry.is_automatic and entry.column not in await self._automatic_columns():
            return None
        return entry

    async def entries(self, message_keys: Sequence[str]) -> list[ledger.LedgerEntry | StoreIncompatible | None]:
        """What each of these messages was learned as, None, or why that cannot be read."""
        keys = [self.keys.ledger(message_key) for message_key in message_keys]
        with store_errors():
            # Most of many messages are new, and one reply says that.
            if len(keys) != 1 and not (keys and await self.client.exists(*keys)):
                return [None] * len(keys)
            async with self.client.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.hgetall(key)
                hashes = await pipe.execute()
        columns = await self._automatic_columns() if any(map(_is_automatic, hashes)) else ()
        return [
            None if _is_automatic(fields) and fields[b"label"].decode() not in columns else _entry_or_error(fields)
            for fields in hashes
        ]

    async def _automatic_columns(self) -> Sequence[str]:
        """The automatic columns of now: a ledger entry of a former generation is as good as none."""
        return (await self.stored_totals())[1].columns

    async def ledger_tokens(self, columns: Sequence[str]) -> AsyncIterator[list[bytes]]:
        """The tokens of all live ledger entries of these columns, each packed as it is stored, some at a time."""
        wanted = {column.encode() for column in columns}
        with store_errors():
            async for entry_keys in scan_keys(self.client, self.keys.ledger_pattern, _LEDGER_BATCH):
                fields = await self._ledger_fields(entry_keys, "label", "tokens")
                yield [tokens for column, tokens in fields if column in wanted and tokens is not None]

    async def evict(
        self,
        tokens: Sequence[bytes],
        counts: NDArray[np.int64],
        vocabulary: int | None,
        columns: Sequence[str],
    ) -> Eviction | None:
        """Remove those of some hundred distinct ``tokens`` that still have these ``counts``, in one atomic step.

        ``counts`` has the shape (tokens, columns). It stops when these columns have ``vocabulary`` tokens left;
        with None only counts below zero are removed. Returns None where nothing was changed, as where the
        model has other columns by now.
        """
        keys, joined = self.keys, join_tokens(tokens)
        of_columns: list[str] = []
        for column, values in zip(columns, counts.T.tolist(), strict=True):
            of_columns += [column, " ".join(map(str, values))]
        target = "" if vocabulary is None else vocabulary
        field = "vocabulary:auto" if is_automatic(columns[0]) else "vocabulary"
        with store_errors():
            reply: Any = await self._evict_script(
                keys=[keys.totals, keys.changes, keys.sequence, *map(keys.counts, columns)],
                args=[target, self.retention.max_changes, joined, field, compress(joined), *of_columns],
            )
        return Eviction(reply[0], int(reply[1])) if reply else None

    async def forget_automatic(self) -> Totals:
        """Forget everything that was learned automatically, and return the totals of that.

        Raises ``StoreUnavailable``: it is forgotten then, or not, but never half. May be repeated.
        """
        (_, totals), keys = await self.stored_totals(), self.keys
        if any((*totals.messages, *totals.token_weights)):
            generation = totals.columns[0].partition(":")[2]
            with store_errors():
                await self.client.register_script(lua_script("forget_automatic.lua"))(
                    keys=[keys.totals, keys.sequence, keys.changes, *map(keys.counts, totals.columns)],
                    args=[generation, *totals.columns],
                )
        return totals


def _is_automatic(fields: Mapping[bytes, bytes]) -> bool:
    return is_automatic(fields.get(b"label", b"").decode())


def _entry_or_error(fields: dict[bytes, bytes]) -> ledger.LedgerEntry | StoreIncompatible | None:
    """The entry, or why it cannot be read: one of many that cannot be read must not hide the others."""
    try:
        return ledger.LedgerEntry.unpack(fields)
    except StoreIncompatible as error:
        return error
