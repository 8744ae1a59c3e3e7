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

from nbstream.bayes.counts import CLASSES, Counts, Totals
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.store.model import Model, store_errors, totals_from_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)

_SCAN_COUNT = 2000  # fields a SCAN step: 1 to 2 ms of Redis, so that nobody waits long behind it
_BLOCK_MS = 1000
_READ_COUNT = 500
_RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)
_APPLIED_SECONDS = 5.0


class _Rescan(Exception):
    """The change stream does not continue where this mirror stands."""


@dataclass(slots=True)
class _Replica:
    """Counts in memory, the id of the last change applied to them, and that change's number."""

    counts: Counts
    last_id: bytes
    sequence: int

    def apply(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        """Put the resulting counts of the next change; raises ``_Rescan`` if it is not the next one."""
        sequence = int(fields[b"sequence"])
        if sequence != self.sequence + 1:
            raise _Rescan(f"change {sequence} came after {self.sequence}")
        if fields[b"tokens"]:
            columns = [fields[b"counts:" + label.encode()].split() for label in CLASSES]
            rows = np.array([[int(count) for count in column] for column in columns], dtype=np.int64).T
            self.counts.put(fields[b"tokens"].split(b"\n"), rows)
        self.counts.totals = _totals(fields[b"totals"])
        self.sequence, self.last_id = sequence, entry_id


class Mirror:
    """A model's counts in memory; ``run`` keeps them equal to Redis until it is cancelled."""

    def __init__(self, model: Model, before_connect: Callable[[], Awaitable[None]] | None = None) -> None:
        self._model = model
        self._before_connect = before_connect
        self._replica: _Replica | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._followed_at = time.monotonic()
        self.following = False
        self.problem: str | None = "not loaded yet"
        self.loaded = asyncio.Event()

    @property
    def lag_seconds(self) -> float:
        """Seconds since this mirror was last known to equal Redis; 0 while it follows."""
        return 0.0 if self.following else time.monotonic() - self._followed_at

    @property
    def totals(self) -> Totals | None:
        """The totals as this mirror knows them; None before the first load."""
        return None if self._replica is None else self._replica.counts.totals

    @property
    def sequence(self) -> int:
        """The number of the last change applied here."""
        return 0 if self._replica is None else self._replica.sequence

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens``, shape (n, classes), and the totals; waits for nothing.

        Raises ``StoreUnavailable`` before the first load.
        """
        if self._replica is None:
            raise StoreUnavailable(f"the model is not loaded: {self.problem}")
        counts = self._replica.counts
        return counts.look_up(tokens), counts.totals

    async def applied(self, sequence: int) -> None:
        """Return when this mirror has applied the change of that number.

        Gives up after 5 seconds: the change is durable all the same, and the mirror gets it when it is back.
        """
        if self.sequence >= sequence:
            return
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((sequence, arrival))
        try:
            async with asyncio.timeout(_APPLIED_SECONDS):
                await arrival
        except TimeoutError:
            _log.warning("the mirror did not see change %d within %g s", sequence, _APPLIED_SECONDS)
        finally:
            self._waiting = [each for each in self._waiting if each[1] is not arrival]

    async def run(self) -> None:
        """Load and follow until cancelled; come back by itself whenever Redis does."""
        failures = 0
        while True:
            try:
                if self._before_connect:
                    await self._before_connect()
                await self._model.open()
                self._replica = replica = await self._load()
                failures = 0
                self._found(replica)
                await self._follow(replica)
            except _Rescan as reason:
                _log.warning("mirror: %s; scanning the counts again", reason)
                await asyncio.sleep(_RETRY_SECONDS[0])
            except (StoreUnavailable, StoreIncompatible) as error:
                self._lost(str(error), loud=failures == 0)
                await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1

    def _found(self, replica: _Replica) -> None:
        self.following, self.problem = True, None
        self.loaded.set()
        self._wake(replica.sequence)
        _log.info("mirror: %d tokens, change %d", len(replica.counts), replica.sequence)

    def _lost(self, problem: str, *, loud: bool) -> None:
        if self.following:
            self._followed_at = time.monotonic()
        self.following = False
        self.problem = problem
        _log.log(logging.ERROR if loud else logging.DEBUG, "mirror: %s", problem)

    async def _load(self) -> _Replica:
        """Scan all counts, then replay what was learned meanwhile."""
        keys, client = self._model.keys, self._model.client
        with store_errors():
            async with client.pipeline(transaction=True) as pipe:
                pipe.xrevrange(keys.changes, count=1)
                pipe.get(keys.sequence)
                pipe.hgetall(keys.totals)
                last, sequence, totals = await pipe.execute()
            replica = _Replica(Counts(), last[0][0] if last else b"0-0", int(sequence or 0))
            replica.counts.totals = totals_from_hash(totals)
            for column, key in enumerate(keys.counts):
                cursor = None
                while cursor != 0:
                    reply: Any = await client.hscan(key, cursor or 0, count=_SCAN_COUNT)
                    cursor, fields = reply
                    _put_column(replica.counts, column, fields)
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
        while True:
            _stop_if_cancelled()
            with store_errors():
                streams: Any = await client.xread({changes: replica.last_id}, count=_READ_COUNT, block=_BLOCK_MS)
            for entry_id, fields in _entries(streams):
                replica.apply(entry_id, fields)
            self._wake(replica.sequence)
            if not streams:
                await self._compare_place(replica)

    async def _compare_place(self, replica: _Replica) -> None:
        """Nothing came: make sure that Redis did not lose what is known here (an emptied or older server)."""
        with store_errors():
            sequence: Any = await self._model.client.get(self._model.keys.sequence)
        if int(sequence or 0) < replica.sequence:
            raise _Rescan(f"change {replica.sequence} is known here, Redis has only {int(sequence or 0)}")

    def _wake(self, sequence: int) -> None:
        for awaited, arrival in self._waiting:
            if awaited <= sequence and not arrival.done():
                arrival.set_result(None)


def _stop_if_cancelled() -> None:
    """Raise the cancellation that a command lost.

    redis-py sends through ``asyncio.wait_for``, which in Python 3.11 swallows a cancellation that comes as the
    bytes go out (mended in 3.12, cpython#86296).
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _entries(streams: Any) -> Sequence[tuple[bytes, Mapping[bytes, bytes]]]:
    """The entries of an XREAD reply of one stream; RESP3 gives a mapping, RESP2 a list."""
    if not streams:
        return []
    groups = next(iter(streams.values())) if isinstance(streams, dict) else streams[0][1]
    return groups[0] if isinstance(streams, dict) else groups  # type: ignore[no-any-return]  # untyped replies


def _put_column(counts: Counts, column: int, fields: Mapping[bytes, bytes]) -> None:
    if not fields:
        return
    tokens = list(fields)
    rows = counts.look_up(tokens)
    rows[:, column] = [int(value) for value in fields.values()]
    counts.put(tokens, rows)


def _totals(text: bytes) -> Totals:
    """The totals of a change: messages and weights per class, then the vocabulary."""
    *pairs, vocabulary = (int(number) for number in text.split())
    return Totals(messages=tuple(pairs[0::2]), tokens=tuple(pairs[1::2]), vocabulary=vocabulary)
