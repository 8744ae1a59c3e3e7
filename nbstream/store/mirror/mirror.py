"""The mirror: class counts in memory that follow the change stream, so that scoring never waits for Redis.

Rules, each shown by a test: the position in the stream is noted before the counts are scanned, and replay begins
there. A change carries resulting counts, so it does no harm when the scan has already seen it. Changes are
numbered one after the other: a gap (the stream was trimmed past our position) or a step back (a failover lost
entries) means that the counts are scanned again, and the old ones serve meanwhile. So does another server, since
its stream may have gone another way. Whatever comes next, the change before it must still be in the stream under
its number: a promoted replica may have continued with other lessons under the same numbers. Whoever teaches gets
his own changes from the stream like all others.

Where the workers of a daemon share the counts (``segments``), one of them, the writer, applies the changes to
them. The others, the readers, follow the stream as well, since first scores, losses and waiting lessons are their
own, and look each second whether there is a writer. If there is none, one of them takes over: it takes back what
was not committed, and goes on in the stream where the counts stand; where the stream does not, it scans. A writer
that loses Redis lets others write. A reader that is ahead of the writer for longer than three seconds says that it
does not follow; one that starts meanwhile begins with what was committed, and says so too.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.counts import (
    CLASSES,
    NO_CHANGE,
    ChangePosition,
    ClassCounts,
    Counts,
    CountsChange,
    Totals,
)
from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife, largest_count
from nbstream.bayes.table_counts import TableCounts
from nbstream.engine.table import TableFailure
from nbstream.errors import NbstreamError, StoreUnavailable
from nbstream.policy.first_scores import FirstScores
from nbstream.store.backoff import Backoff
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.connection import ServerGuard
from nbstream.store.mirror.segments import NoSharedMemory, SharedView, counts_identity
from nbstream.store.model.model import scan_counts, scan_first_scores
from nbstream.store.model.scripts import lesson_count
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.counts import CountsView
    from nbstream.bayes.table_counts import TableView
    from nbstream.engine.table import Table, TableFunctions
    from nbstream.store.mirror.segments import Segments
    from nbstream.store.model.model import Model
    from nbstream.store.model.scripts import ModelPosition

_log = logging.getLogger(__name__)

_BLOCK_SECONDS = 1.0
_MAX_SILENT_BLOCKS = 3  # without a reply for that long, Redis is regarded as unavailable
_READ_COUNT = 10  # changes: of 64 lessons each they are 2 MB, and stop other work for some 30 ms
_APPLIED_SECONDS = 5.0
_REMEMBERED_CHANGES = 1000
_LOG_EVERY = 30  # attempts, two seconds apart: about once a minute
_LOOK_SECONDS = 0.05  # between two looks for counts that another process loads
_STANDSTILL_SECONDS = 1.0  # a writer that works applies a change within milliseconds
_POLL_SECONDS = 0.001  # between two looks whether the writer has applied a lesson


class _TakeOver(Exception):
    """This mirror has become the writer of the shared counts."""


class _RescanNeeded(Exception):
    """The change stream does not continue where this mirror stands."""


@dataclass(slots=True)
class _Replica:
    """The counts in memory, and up to which change they are complete.

    ``last_id`` is the stream id of the last change that was applied, ``sequence`` its number, ``half_life`` the
    time base of the counts. The counts of a reader are applied by another process. ``stored`` is a change that
    Redis has: it was looked for, or it was scanned. ``was_taken_over`` says that the counts are those
    that a former writer has left.
    """

    counts: Counts | SharedView
    first_scores: FirstScores
    last_id: bytes
    sequence: int
    half_life: HalfLife
    stored: ChangePosition
    was_taken_over: bool = False

    @property
    def position(self) -> ChangePosition:
        """The last change that was applied here."""
        return ChangePosition(*_stream_position(self.last_id), self.sequence)

    def apply(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        """Take over the resulting counts of the next change; raise ``_RescanNeeded`` for any other one."""
        try:
            self._apply_fields(entry_id, fields)
        except (KeyError, ValueError) as error:
            raise _RescanNeeded(f"change {entry_id.decode()} cannot be read: {error!r}") from error

    def _apply_fields(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        sequence = int(fields[b"sequence"])
        if sequence != self.sequence + lesson_count(fields):
            raise _RescanNeeded(f"change {sequence} came after {self.sequence}")
        columns, tokens = [], fields[b"tokens"].split(b"\n") if fields[b"tokens"] else []
        for column, label in enumerate(CLASSES):
            resulting = fields.get(b"counts:" + label.encode())
            if tokens and resulting is not None:
                columns.append((column, np.fromstring(resulting, dtype=np.int64, sep=" ")))
        totals = _parse_totals(fields[b"totals"])
        self.first_scores.apply_change(fields)
        self.sequence, self.last_id = sequence, entry_id
        if isinstance(self.counts, Counts):
            self.counts.apply(CountsChange(tokens, columns, totals, self.position, self.stored))


@dataclass(frozen=True, slots=True)
class KnownChange:
    """A change that a mirror has applied: its stream id and its sequence number."""

    id: bytes
    sequence: int


@dataclass(frozen=True, slots=True, eq=False)
class _ChangeWaiter:
    """Somebody who waits until the change at ``position`` of the stream has been applied."""

    position: tuple[int, int]
    applied: asyncio.Future[None]


class MirrorSource(Protocol):
    """What a mirror follows: a model, or a layer that has another model in each epoch."""

    async def open(self) -> Model:
        """Check that this program can use what is stored, and return the model to follow.

        Raises ``StoreIncompatible`` or ``StoreUnavailable``.
        """


class Mirror:
    """A model's counts in memory; ``run`` keeps them equal to Redis until it is cancelled.

    ``source`` has a Redis client that belongs to the mirror alone and does not retry by itself: after a connection
    has broken the next one may lead to another server, so everything is compared anew. ``before_connect`` is
    awaited before each attempt to connect. With ``table_functions`` the counts are in a table of the native
    library, and with ``segments`` other processes share it.
    """

    def __init__(
        self,
        source: MirrorSource,
        timeout_seconds: float,
        before_connect: Callable[[], Awaitable[None]] | None = None,
        *,
        table_functions: TableFunctions | None = None,
        segments: Segments | None = None,
    ) -> None:
        self._source = source
        self._before_connect = before_connect
        self._block_seconds = min(_BLOCK_SECONDS, timeout_seconds / 2)  # the reply must come before the deadline
        self._table_functions = table_functions
        self._segments = segments
        self._damage = ""
        self._awaited = NO_CHANGE
        self._replica: _Replica | None = None
        self._change_waiters: list[_ChangeWaiter] = []
        self._last_reply_at = time.monotonic()
        self._connected = False
        self._changed = asyncio.Event()
        self._known: deque[KnownChange] = deque(maxlen=_REMEMBERED_CHANGES)
        self._known_model = ""
        self._load_waiter = asyncio.Event()
        self.loaded = asyncio.Event()
        self.loads = 0
        """How often the counts were loaded: at the start, and whenever Redis was away or is another one."""
        self.lost_changes = 0
        """How many changes that this mirror knew were missing when it loaded again, at least."""

    @property
    def following(self) -> bool:
        """True while the change stream is read and Redis answers in time."""
        silence = time.monotonic() - self._last_reply_at
        return self._connected and silence < _MAX_SILENT_BLOCKS * self._block_seconds

    @property
    def lag_seconds(self) -> float:
        """Seconds since this mirror was last known to equal Redis; 0 while it follows."""
        return 0.0 if self.following else time.monotonic() - self._last_reply_at

    @property
    def role(self) -> Literal["alone", "writer", "reader"]:
        """Whether this process writes the counts that are shared, reads them, or has its own."""
        if self._segments is None:
            return "alone"
        return "writer" if self._segments.is_writer else "reader"

    @property
    def totals(self) -> Totals | None:
        """The totals as this mirror knows them; None before the first load."""
        with suppress(StoreUnavailable), self._reading() as counts:
            return counts.totals
        return None

    @property
    def half_life(self) -> HalfLife:
        """The time base of the counts; none before the first load."""
        return NO_HALF_LIFE if self._replica is None else self._replica.half_life

    @property
    def vocabulary_size(self) -> int:
        """The number of distinct tokens with a count above zero; 0 before the first load."""
        totals = self.totals
        return 0 if totals is None else totals.vocabulary_size

    @property
    def largest_count(self) -> int:
        """The largest of all totals and sums, and so of all counts; 0 before the first load."""
        with suppress(StoreUnavailable), self._reading() as counts:
            return largest_count(counts.totals, counts.sums(SCORE_BINS))
        return 0

    async def wait_for_more_tokens(self, tokens: int) -> None:
        """Return when this mirror holds more distinct tokens than ``tokens``, whatever their counts are."""
        while self._distinct_tokens <= tokens:
            self._changed.clear()
            await self._changed.wait()

    @property
    def _distinct_tokens(self) -> int:
        with suppress(StoreUnavailable), self._reading() as counts:
            return counts.distinct_tokens
        return -1

    @property
    def last_change(self) -> KnownChange | None:
        """The last change that this mirror knows; None before the first one."""
        return self._known[-1] if self._known else None

    async def wait_for_load_after(self, loads: int) -> None:
        """Return when the counts were loaded more than ``loads`` times."""
        while self.loads <= loads:
            self._load_waiter.clear()
            await self._load_waiter.wait()

    def snapshot(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return all names of tokens and sums, and their counts, shape (names, classes).

        Takes 30 ms for half a million tokens. Raises ``StoreUnavailable`` before the first load.
        """
        with self._reading() as counts:
            return counts.snapshot()

    @property
    def native_table(self) -> Table | None:
        """The table of the native library that has the counts now; None where they are in a dictionary.

        Raises ``StoreUnavailable`` before the first load.
        """
        with self._reading() as counts:
            return counts.native_table

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens``, shape (n, classes), and the totals; never waits.

        Raises ``StoreUnavailable`` before the first load.
        """
        with self._reading() as counts:
            return counts.look_up_with_totals(tokens)

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (n, classes); never waits.

        Returns the same array until a count changes. Raises ``StoreUnavailable`` before the first load.
        """
        with self._reading() as counts:
            return counts.sums(names)

    @property
    def loaded_first_scores(self) -> FirstScores:
        """The first scores as this mirror knows them; an empty collection before the first load."""
        return FirstScores() if self._replica is None else self._replica.first_scores

    async def first_scores(self) -> FirstScores:
        """Return the first scores; never waits.

        The object goes on following the change stream. Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_replica().first_scores

    async def wait_until_applied(self, change: bytes) -> None:
        """Return when this mirror has applied the change with the stream id ``change``.

        Raises ``StoreUnavailable`` when that takes longer than 5 seconds; the change is durable all the same.
        """
        position = _stream_position(change)
        waiter = _ChangeWaiter(position, asyncio.get_running_loop().create_future())
        self._change_waiters.append(waiter)
        try:
            async with asyncio.timeout(_APPLIED_SECONDS):
                if self._replica is None or _stream_position(self._replica.last_id) < position:
                    await waiter.applied
                while not self._shows(position):  # noqa: ASYNC110 - no event comes from another process
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError as error:
            raise StoreUnavailable("the change is stored, but the counts in memory do not follow Redis") from error
        finally:
            self._change_waiters.remove(waiter)

    def _shows(self, position: tuple[int, int]) -> bool:
        """Return whether the counts have the change at ``position``, which this mirror has seen in the stream."""
        with self._reading() as counts:
            if not isinstance(counts, SharedView):
                return True
            shared = counts.position
            return (shared.milliseconds, shared.number) >= position

    @contextmanager
    def _reading(self) -> Iterator[CountsView]:
        """Give the counts; raise ``StoreUnavailable`` before the first load, and where they are damaged."""
        try:
            yield self._loaded_replica().counts
        except TableFailure as error:
            self._damage = str(error)
            raise StoreUnavailable("the counts in memory are damaged; they are loaded anew") from error

    def _loaded_replica(self) -> _Replica:
        if self._replica is None:
            raise StoreUnavailable("the counts are not loaded yet")
        return self._replica

    async def run(self) -> None:
        """Load the counts and follow the changes until cancelled; connect again by itself when Redis is back."""
        backoff = Backoff(draw=random.random)
        try:
            while True:
                stop_if_cancelled()
                try:
                    with readable_replies():
                        await self._load_and_follow(backoff)
                except _TakeOver:
                    _log.info("the writer of the shared counts has ended; this process writes them now")
                except (NoSharedMemory, TableFailure) as error:
                    self._leave_shared_memory(error)
                except (_RescanNeeded, NbstreamError) as error:
                    self._stop_writing()
                    self._note_disconnect(str(error), loud=backoff.failures % _LOG_EVERY == 0)
                    await asyncio.sleep(backoff.next_wait())
                except Exception as error:  # whoever runs this starts it again: nothing is followed until then
                    self._note_disconnect(str(error), loud=False)
                    raise
        finally:
            self._stop_writing()

    def _stop_writing(self) -> None:
        if self._segments:
            self._segments.stop_writing()

    def _leave_shared_memory(self, error: Exception) -> None:
        """Go on with counts in the memory of this process alone; without sharing, with those of Python."""
        _log.warning("this process keeps its own copy of the counts from now on: %s", error)
        if self._segments is None:
            self._table_functions = None
        elif self._segments.is_writer:
            self._segments.remove_current()
            self._segments.stop_writing()
        self._segments, self._damage = None, ""

    async def _load_and_follow(self, backoff: Backoff) -> None:
        if self._before_connect:
            await self._before_connect()
        model = await self._source.open()
        guard = ServerGuard(model.client)
        replica = await self._load(model)
        guard.check()
        await self._note_losses(model, replica)
        self._replica = replica
        backoff.reset()
        self._announce_loaded(model.keys.log_name, replica)
        await self._follow(model, replica, guard)

    def _announce_loaded(self, log_name: str, replica: _Replica) -> None:
        self._connected, self._last_reply_at, self._awaited = True, time.monotonic(), replica.position
        self.loads += 1
        self._load_waiter.set()
        self.loaded.set()
        self._wake_waiters(replica)
        _log.info(
            "%s %s: %d tokens of %d messages",
            log_name,
            "taken over" if replica.was_taken_over else "loaded",
            replica.counts.totals.vocabulary_size,
            sum(replica.counts.totals.messages),
        )

    async def _note_losses(self, model: Model, now: _Replica) -> None:
        """Count the known changes that Redis has no longer, log an error for them, and know where it is now."""
        if model.keys.totals != self._known_model:  # the first load, or another epoch of a layer
            self._known.clear()
            self._known_model = model.keys.totals
        lost = await self._forget_lost_changes(model)
        if lost:
            self.lost_changes += lost
            # How many there were before is not known to a reader: its counts are already those that came after.
            _log.error(
                "Redis has lost %s%d changes that %s followed; %d messages are learned now",
                "" if self._known else "at least ",
                lost,
                model.keys.log_name,
                sum(now.counts.totals.messages),
            )
        if now.sequence and (not self._known or self._known[-1].id != now.last_id):
            self._known.append(KnownChange(now.last_id, now.sequence))

    async def _forget_lost_changes(self, model: Model) -> int:
        """Forget the known changes that Redis has no longer, and return how many changes these are.

        Two histories have a common beginning, so the last change of that is searched by halving.
        """
        common, end = 0, len(self._known)
        while common < end:
            middle = (common + end) // 2
            if await model.has_change(self._known[middle].id, self._known[middle].sequence):
                common = middle + 1
            else:
                end = middle
        if common == len(self._known):
            return 0
        before = self._known[common - 1].sequence if common else self._known[0].sequence - 1
        lost = self._known[-1].sequence - before
        while len(self._known) > common:
            self._known.pop()
        return lost

    def _note_disconnect(self, problem: str, *, loud: bool) -> None:
        self._connected = False
        _log.log(logging.ERROR if loud else logging.DEBUG, "mirror: %s", problem)

    async def _load(self, model: Model) -> _Replica:
        """Load the counts, or find those that another process has loaded, and go to the end of the stream."""
        if self._segments is None:
            return await self._scan(model)
        identity = _identity(model)
        if replica := await self._find_shared_counts(model, self._segments, identity):
            return replica
        taking_over = asyncio.create_task(asyncio.to_thread(self._segments.take_over, identity))
        try:
            counts = await asyncio.shield(taking_over)
        finally:  # also where this is cancelled: as long as the thread writes, no other process may
            await asyncio.wait([taking_over])
        if counts is not None and await _are_stored(model, counts, await model.position()):
            place = counts.position
            with suppress(_RescanNeeded):
                replica = await self._replica_of(counts, model, _stream_id(place), place.sequence)
                replica.was_taken_over = True
                return replica
        return await self._scan(model)

    async def _find_shared_counts(
        self, model: Model, segments: Segments, identity: tuple[int, int]
    ) -> _Replica | None:
        """Return the counts that another process writes, or None when this process has become the writer.

        They are those that Redis has now, but for a writer that stands still: of that one, what it has committed.
        """
        began, needed, is_told = time.monotonic(), math.inf, False
        while not segments.try_to_write():
            stop_if_cancelled()
            position, view = await model.position(), segments.view(identity)
            needed = min(needed, position.sequence)  # less than at first where Redis has lost changes meanwhile
            is_standstill = time.monotonic() - began > _STANDSTILL_SECONDS
            if view is not None and await _are_stored(model, view, position):
                missing = int(needed - view.position.sequence)
                if missing <= 0 or is_standstill:
                    if missing > 0:
                        _log.warning(
                            "the writer of the shared counts stands still; they are %d lesson%s behind Redis",
                            missing,
                            "" if missing == 1 else "s",
                        )
                    return await self._replica_of(view, model, position.change, position.sequence)
            elif is_standstill and not is_told:
                is_told = True
                _log.warning("the process that writes the shared counts has not loaded them yet")
            await asyncio.sleep(_LOOK_SECONDS)
        return None

    async def _scan(self, model: Model) -> _Replica:
        """Scan all counts, then replay what was learned meanwhile."""
        position = await model.position()
        counts = self._new_counts(model, position.totals.vocabulary_size)
        with store_errors():
            await scan_counts(model.client, model.keys, counts)
        place = ChangePosition(*_stream_position(position.change), position.sequence)
        counts.apply(CountsChange((), (), position.totals, place, place))
        replica = await self._replica_of(counts, model, position.change, position.sequence)
        if isinstance(counts, TableCounts):
            counts.publish()
        return replica

    def _new_counts(self, model: Model, tokens: int) -> Counts:
        if self._segments:
            return self._segments.new_counts(tokens, _identity(model))
        return TableCounts.empty(self._table_functions, tokens=tokens) if self._table_functions else ClassCounts()

    async def _replica_of(
        self, counts: Counts | SharedView, model: Model, last_id: bytes, sequence: int
    ) -> _Replica:
        """Return the replica with counts after the change ``last_id``, or with those that follow by themselves."""
        with store_errors():
            first_scores = await scan_first_scores(model.client, model.keys)
        stored = ChangePosition(*_stream_position(last_id), sequence)
        replica = _Replica(counts, first_scores, last_id, sequence, model.half_life, stored)
        await self._replay(model, replica)
        return replica

    async def _replay(self, model: Model, replica: _Replica) -> None:
        """Apply the changes after the noted position, up to the end of the stream as it is now."""
        entries: Any = None
        while entries is None or len(entries) == _READ_COUNT:
            with store_errors():
                entries = await model.client.xrange(
                    model.keys.changes, min=b"(" + replica.last_id, count=_READ_COUNT
                )
            for entry_id, fields in entries:
                replica.apply(entry_id, fields)

    async def _follow(self, model: Model, replica: _Replica, guard: ServerGuard) -> None:
        changes, client = model.keys.changes, model.client
        block = max(1, round(self._block_seconds * 1000))
        while True:
            stop_if_cancelled()
            with store_errors():
                streams: Any = await client.xread({changes: replica.last_id}, count=_READ_COUNT, block=block)
            guard.check()
            self._note_reply(replica)
            predecessor, applied = self.last_change, []
            replica.stored = replica.position
            for entry_id, fields in stream_entries(streams):
                replica.apply(entry_id, fields)
                applied.append(KnownChange(entry_id, replica.sequence))
            self._known.extend(applied)
            self._wake_waiters(replica)
            self._watch_segments(replica)
            # A server may be replaced behind an open connection, and its next change may have the next number.
            # This is asked for after the waiters were woken, so that no lesson waits for it.
            if not applied:
                await self._check_position(model, replica)
            elif predecessor and not await model.has_change(predecessor.id, predecessor.sequence):
                for _ in applied:
                    self._known.pop()
                raise _RescanNeeded(f"change {predecessor.sequence} that is known here is not in Redis")

    def _note_reply(self, replica: _Replica) -> None:
        """Note that the counts equal Redis: those of a reader do once the writer is where the reader was."""
        if replica.counts.position.sequence >= self._awaited.sequence:
            self._awaited, self._last_reply_at = replica.position, time.monotonic()

    def _watch_segments(self, replica: _Replica) -> None:
        """Raise ``_TakeOver`` where nobody writes the shared counts, other errors where they cannot be used."""
        if self._damage:
            raise NoSharedMemory(f"the counts are damaged: {self._damage}")
        if self._segments is None:
            return
        if isinstance(replica.counts, SharedView):
            if self._segments.try_to_write():
                raise _TakeOver
            if replica.counts.is_superseded:
                raise _RescanNeeded("the shared counts are gone, or those of another model")
        elif isinstance(replica.counts, TableCounts) and not self._segments.uses(replica.counts):
            raise NoSharedMemory("somebody has removed the file of the shared counts")

    async def _check_position(self, model: Model, replica: _Replica) -> None:
        """Raise ``_RescanNeeded`` if Redis has fewer changes than this mirror, or another one in its place.

        To be called when a read of the stream gave nothing.
        """
        position = await model.position()
        behind = _stream_position(position.change) < _stream_position(replica.last_id)
        if behind or (position.change == replica.last_id and position.sequence != replica.sequence):
            raise _RescanNeeded(
                f"known here is change {replica.sequence}, the last in Redis is {position.sequence}"
            )

    def _wake_waiters(self, replica: _Replica) -> None:
        self._changed.set()
        for waiter in self._change_waiters:
            if waiter.position <= _stream_position(replica.last_id) and not waiter.applied.done():
                waiter.applied.set_result(None)


def _stream_position(stream_id: bytes) -> tuple[int, int]:
    """Return a stream id as two numbers, which compare in the order of the stream; an empty id is before all."""
    milliseconds, _, number = stream_id.partition(b"-")
    return int(milliseconds or 0), int(number or 0)


def _stream_id(position: ChangePosition) -> bytes:
    return b"%d-%d" % (position.milliseconds, position.number)


def _identity(model: Model) -> tuple[int, int]:
    return counts_identity(model.keys.totals, model.half_life)


async def _are_stored(model: Model, counts: TableView, now: ModelPosition) -> bool:
    """Return whether Redis has, or had, the changes that are in these counts; ``now`` is where its stream ends.

    The last change is not enough: the writer looks for the one before it only after it has applied the next. A
    later epoch of a layer begins with a sequence number that no change has.
    """
    end = ChangePosition(*_stream_position(now.change), now.sequence)
    return all(
        [
            place.sequence == 0 or place == end or await model.has_change(_stream_id(place), place.sequence)
            for place in (counts.stored_position, counts.position)
        ]
    )


def stream_entries(streams: Any) -> Sequence[tuple[bytes, Mapping[bytes, bytes]]]:
    """Return the entries in the reply to an XREAD or XREADGROUP of one stream.

    RESP3 gives a mapping, RESP2 a list.
    """
    if not streams:
        return []
    groups = next(iter(streams.values())) if isinstance(streams, dict) else streams[0][1]
    return groups[0] if isinstance(streams, dict) else groups  # type: ignore[no-any-return]  # untyped replies


def _parse_totals(text: bytes) -> Totals:
    """Return the totals of a change: messages and weights per class in turn, then the vocabulary."""
    *pairs, vocabulary = (int(number) for number in text.split())
    return Totals(messages=tuple(pairs[0::2]), tokens=tuple(pairs[1::2]), vocabulary_size=vocabulary)
