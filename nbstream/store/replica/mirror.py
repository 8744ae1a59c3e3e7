"""The mirror: class counts in memory that follow the change stream, so that scoring never waits for Redis.

Rules, each shown by a test: the place in the stream is noted before the counts are scanned, and replay begins
there. A change carries resulting counts, so one that the scan has already seen does no harm. Each change has
the number after the one before it: a gap (the stream was trimmed past our place) or a step back (a failover
lost entries) means that the counts are scanned again, and the old ones serve meanwhile. The writer's own
mirror is fed by the stream alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream.bayes.counts import CLASSES, ClassCounts, Totals
from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife
from nbstream.errors import NbstreamError, StoreUnavailable
from nbstream.policy.first_scores import FirstScores
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.model import Model, store_errors
from nbstream.store.model.scan import scan_counts, scan_first_scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)

_BLOCK_SECONDS = 1.0
_MAX_SILENT_BLOCKS = 3  # without a reply for so long Redis is taken for away
_READ_COUNT = 500
_RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)
_APPLIED_SECONDS = 5.0
_LOG_EVERY = 30  # attempts, two seconds apart: about once a minute


class _RescanNeeded(Exception):
    """The change stream does not continue where this mirror stands."""


@dataclass(slots=True)
class _Replica:
    """Counts in memory, the id of the last change applied to them, that change's number, and their time base."""

    counts: ClassCounts
    first_scores: FirstScores
    last_id: bytes
    sequence: int
    half_life: HalfLife = NO_HALF_LIFE

    def apply(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        """Put the resulting counts of the next change; raises ``_RescanNeeded`` if it is not the next one."""
        try:
            self._apply_fields(entry_id, fields)
        except (KeyError, ValueError) as error:
            raise _RescanNeeded(f"change {entry_id.decode()} cannot be read: {error!r}") from error

    def _apply_fields(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        sequence = int(fields[b"sequence"])
        if sequence != self.sequence + 1:
            raise _RescanNeeded(f"change {sequence} came after {self.sequence}")
        if fields[b"tokens"]:
            tokens = fields[b"tokens"].split(b"\n")
            for column, label in enumerate(CLASSES):
                resulting = fields.get(b"counts:" + label.encode())
                if resulting is not None:
                    self.counts.set_column(tokens, column, np.fromstring(resulting, dtype=np.int64, sep=" "))
        self.first_scores.apply_change(fields)
        self.counts.totals = _parse_totals(fields[b"totals"])
        self.sequence, self.last_id = sequence, entry_id


class Mirror:
    """A model's counts in memory; ``run`` keeps them equal to Redis until it is cancelled.

    ``model`` is behind a client of the mirror's own, which does not try again by itself: a connection that broke
    may lead to another server, so everything is compared anew. ``before_connect`` is awaited first each time.
    """

    def __init__(
        self, model: Model, timeout_seconds: float, before_connect: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._model = model
        self._before_connect = before_connect
        self._block_seconds = min(_BLOCK_SECONDS, timeout_seconds / 2)  # its reply must come before the deadline
        self._replica: _Replica | None = None
        self._change_waiters: list[tuple[tuple[int, int], asyncio.Future[None]]] = []
        self._last_reply_at = time.monotonic()
        self._connected = False
        self._changed = asyncio.Event()
        self.loaded = asyncio.Event()

    @property
    def following(self) -> bool:
        """True while the change stream is read and Redis answers in time."""
        return (
            self._connected and time.monotonic() - self._last_reply_at < _MAX_SILENT_BLOCKS * self._block_seconds
        )

    @property
    def lag_seconds(self) -> float:
        """Seconds since this mirror was last known to equal Redis; 0 while it follows."""
        return 0.0 if self.following else time.monotonic() - self._last_reply_at

    @property
    def totals(self) -> Totals | None:
        """The totals as this mirror knows them; None before the first load."""
        return None if self._replica is None else self._replica.counts.totals

    @property
    def half_life(self) -> HalfLife:
        """The time base of the counts; none before the first load."""
        return NO_HALF_LIFE if self._replica is None else self._replica.half_life

    @property
    def vocabulary_size(self) -> int:
        """The number of distinct tokens with a count above zero; 0 before the first load."""
        return 0 if self._replica is None else self._replica.counts.totals.vocabulary_size

    @property
    def largest_count(self) -> int:
        """The largest of all totals, counts and sums; 0 before the first load."""
        return 0 if self._replica is None else self._replica.counts.largest_count

    async def wait_for_more_tokens(self, tokens: int) -> None:
        """Return when more ``tokens`` than that are held, with whatever counts."""
        while self._replica is None or self._replica.counts.distinct_tokens <= tokens:
            self._changed.clear()
            await self._changed.wait()

    def snapshot(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """All tokens and sums, and their counts, shape (names, classes): 30 ms for half a million.

        Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_replica().counts.snapshot()

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens``, shape (n, classes), and the totals; waits for nothing.

        Raises ``StoreUnavailable`` before the first load.
        """
        counts = self._loaded_replica().counts
        return counts.look_up(tokens), counts.totals

    async def vocabulary_counts(self) -> NDArray[np.int64]:
        """The counts of all tokens, shape (n, classes); the same array until one changes. Waits for nothing.

        Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_replica().counts.vocabulary_counts()

    @property
    def loaded_first_scores(self) -> FirstScores:
        """The first scores as this mirror knows them; none before the first load."""
        return FirstScores() if self._replica is None else self._replica.first_scores

    async def first_scores(self) -> FirstScores:
        """The first scores kept; they go on following. Waits for nothing.

        Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_replica().first_scores

    async def wait_until_applied(self, change: bytes) -> None:
        """Return when this mirror has applied the change of that stream id.

        Raises ``StoreUnavailable`` when that takes longer than 5 seconds; the change is durable all the same.
        """
        place = _stream_position(change)
        if self._replica is not None and _stream_position(self._replica.last_id) >= place:
            return
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._change_waiters.append((place, arrival))
        try:
            async with asyncio.timeout(_APPLIED_SECONDS):
                await arrival
        except TimeoutError as error:
            raise StoreUnavailable("the change is stored, but the counts in memory do not follow Redis") from error
        finally:
            self._change_waiters = [each for each in self._change_waiters if each[1] is not arrival]

    def _loaded_replica(self) -> _Replica:
        if self._replica is None:
            raise StoreUnavailable("the counts are not loaded yet")
        return self._replica

    async def run(self) -> None:
        """Load and follow until cancelled; come back by itself whenever Redis does."""
        failures = 0
        while True:
            stop_if_cancelled()
            try:
                if self._before_connect:
                    await self._before_connect()
                await self._model.open()
                replica = await self._load()
                self._log_losses(self._replica, replica)
                self._replica = replica
                failures = 0
                self._announce_loaded(replica)
                await self._follow(replica)
            except (_RescanNeeded, NbstreamError) as error:
                self._note_disconnect(str(error), loud=failures % _LOG_EVERY == 0)
                await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1

    def _announce_loaded(self, replica: _Replica) -> None:
        self._connected, self._last_reply_at = True, time.monotonic()
        self.loaded.set()
        self._wake_waiters(replica)
        _log.info(
            "%s loaded: %d tokens of %d messages",
            self._model.keys.log_name,
            replica.counts.totals.vocabulary_size,
            sum(replica.counts.totals.messages),
        )

    @staticmethod
    def _log_losses(before: _Replica | None, now: _Replica) -> None:
        """Say so when Redis came back with less than it had."""
        if before is not None and now.sequence < before.sequence:
            known, left = sum(before.counts.totals.messages), sum(now.counts.totals.messages)
            _log.error("Redis has lost what it had learned: %d messages were known, %d are left", known, left)

    def _note_disconnect(self, problem: str, *, loud: bool) -> None:
        self._connected = False
        _log.log(logging.ERROR if loud else logging.DEBUG, "mirror: %s", problem)

    async def _load(self) -> _Replica:
        """Scan all counts, then replay what was learned meanwhile."""
        keys, client = self._model.keys, self._model.client
        place = await self._model.position()
        with store_errors():
            counts, first_scores = await scan_counts(client, keys), await scan_first_scores(client, keys)
        replica = _Replica(counts, first_scores, place.change, place.sequence, self._model.half_life)
        replica.counts.totals = place.totals
        await self._replay(replica)
        return replica

    async def _replay(self, replica: _Replica) -> None:
        """Apply what was learned since the noted place, up to the stream's end as it is now."""
        entries: Any = None
        while entries is None or len(entries) == _READ_COUNT:
            with store_errors():
                entries = await self._model.client.xrange(
                    self._model.keys.changes, min=b"(" + replica.last_id, count=_READ_COUNT
                )
            for entry_id, fields in entries:
                replica.apply(entry_id, fields)

    async def _follow(self, replica: _Replica) -> None:
        changes, client = self._model.keys.changes, self._model.client
        block = max(1, round(self._block_seconds * 1000))
        while True:
            stop_if_cancelled()
            with store_errors():
                streams: Any = await client.xread({changes: replica.last_id}, count=_READ_COUNT, block=block)
            self._last_reply_at = time.monotonic()
            for entry_id, fields in stream_entries(streams):
                replica.apply(entry_id, fields)
            self._wake_waiters(replica)
            if not streams:
                await self._check_position(replica)

    async def _check_position(self, replica: _Replica) -> None:
        """Nothing came: make sure that Redis has what is known here, and nothing else in its place."""
        place = await self._model.position()
        behind = _stream_position(place.change) < _stream_position(replica.last_id)
        if behind or (place.change == replica.last_id and place.sequence != replica.sequence):
            raise _RescanNeeded(f"known here is change {replica.sequence}, the last in Redis is {place.sequence}")

    def _wake_waiters(self, replica: _Replica) -> None:
        self._changed.set()
        for awaited, arrival in self._change_waiters:
            if awaited <= _stream_position(replica.last_id) and not arrival.done():
                arrival.set_result(None)


def _stream_position(stream_id: bytes) -> tuple[int, int]:
    """A stream id in the order of the stream; empty is before all."""
    milliseconds, _, number = stream_id.partition(b"-")
    return int(milliseconds or 0), int(number or 0)


def stream_entries(streams: Any) -> Sequence[tuple[bytes, Mapping[bytes, bytes]]]:
    """The entries of an XREAD or XREADGROUP reply of one stream; RESP3 gives a mapping, RESP2 a list."""
    if not streams:
        return []
    groups = next(iter(streams.values())) if isinstance(streams, dict) else streams[0][1]
    return groups[0] if isinstance(streams, dict) else groups  # type: ignore[no-any-return]  # untyped replies


def _parse_totals(text: bytes) -> Totals:
    """The totals of a change: messages and weights per class, then the vocabulary."""
    *pairs, vocabulary = (int(number) for number in text.split())
    return Totals(messages=tuple(pairs[0::2]), tokens=tuple(pairs[1::2]), vocabulary_size=vocabulary)
