"""Loading: how the counts of a model come into the memory of this process, or are found in shared memory.

Rules: the position in the change stream is noted before the counts are scanned, and replay begins there. A change
carries resulting counts, so it does no harm when the scan has already seen it. Changes are numbered one after the
other: a gap or a step back means that the counts have to be loaded again.

Where the workers of a daemon share the counts (``shared_counts``), the first of them that asks is the writer. It
takes over what a former writer has left: it takes back what was not committed, and goes on in the stream where the
counts stand; where the stream does not, it scans. The others are readers: they wait until the writer has the
counts that Redis has, or, where the writer stands still, take what it has committed, and say so.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nbstream.bayes.counts import ChangePosition, ClassCounts, CountsChange, Totals
from nbstream.bayes.table_counts import TableCounts
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.mirror.shared_counts import NoSharedMemory, SharedView, counts_identity
from nbstream.store.model.scan import scan_counts, scan_first_scores
from nbstream.store.model.scripts import changed_counts, lesson_count
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.bayes.counts import Counts, CountsView
    from nbstream.bayes.table_counts import TableView
    from nbstream.engine.table import TableFunctions
    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.mirror.shared_counts import SharedCounts
    from nbstream.store.model.model import Model

_log = logging.getLogger(__name__)

READ_COUNT = 10
"""Changes that are read at once: of 64 lessons each they are 2 MB, and stop other work for some 30 ms."""

_LOOK_SECONDS = 0.05  # between two looks for counts that another process loads
_STANDSTILL_SECONDS = 1.0  # a writer that works applies a change within milliseconds


class RescanNeeded(Exception):
    """The change stream does not continue where the counts stand."""


@dataclass(slots=True)
class LoadedCounts:
    """The counts of a model in memory, and up to which change they are complete.

    ``own`` are the counts that changes are applied to here: ``counts`` themselves, or None for those that another
    process writes. ``position`` is the last change that was applied, ``stored`` a change that Redis has: it was
    looked for, or it was scanned. ``origin`` says in words how they came here.
    """

    counts: CountsView
    own: Counts | None
    first_scores: FirstScores
    position: ChangePosition
    stored: ChangePosition
    origin: str = "loaded"

    def apply(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        """Take over the resulting counts of the next change; raise ``RescanNeeded`` for any other one."""
        try:
            self._apply_fields(entry_id, fields)
        except (KeyError, ValueError) as error:
            raise RescanNeeded(f"change {entry_id.decode()} cannot be read: {error!r}") from error

    def _apply_fields(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        sequence = int(fields[b"sequence"])
        if sequence != self.position.sequence + lesson_count(fields):
            raise RescanNeeded(f"change {sequence} came after {self.position.sequence}")
        if fields.get(b"predecessor", self.position.stream_id) != self.position.stream_id:
            raise RescanNeeded(f"change {self.position.sequence} that is known here is not in Redis")
        tokens, columns = changed_counts(fields)
        totals = _parse_totals(fields[b"totals"])
        self.first_scores.apply_change(fields)
        self.position = ChangePosition.of(entry_id, sequence)
        if self.own is not None:
            self.own.apply(CountsChange(tokens, columns, totals, self.position, self.stored))


def _parse_totals(text: bytes) -> Totals:
    """The totals of a change: messages and weights per class in turn, then the vocabulary."""
    *pairs, vocabulary = (int(number) for number in text.split())
    return Totals(tuple(pairs[0::2]), tuple(pairs[1::2]), vocabulary)


class CountsLoader:
    """Loads the counts of a model: into a table of ``table_functions`` if there are any, else into a dictionary.

    With ``shared`` other processes share them.
    """

    def __init__(self, table_functions: TableFunctions | None, shared: SharedCounts | None) -> None:
        self._table_functions = table_functions
        self._shared = shared

    @property
    def role(self) -> Literal["alone", "writer", "reader"]:
        """Whether this process writes the counts that are shared, reads them, or has its own."""
        if self._shared is None:
            return "alone"
        return "writer" if self._shared.is_writer else "reader"

    def stop_writing(self) -> None:
        """Let another process write the shared counts."""
        if self._shared:
            self._shared.stop_writing()

    def leave_shared_memory(self, error: Exception) -> None:
        """From now on keep the counts in the memory of this process; where they were there, in a dictionary."""
        _log.warning("this process keeps its own copy of the counts from now on: %s", error)
        if self._shared is None:
            self._table_functions = None
        elif self._shared.is_writer:
            self._shared.remove_current()
            self._shared.stop_writing()
        self._shared = None

    def has_become_writer(self, loaded: LoadedCounts) -> bool:
        """Whether nobody wrote the shared counts any more, and this process is to load them as their writer.

        Raises ``RescanNeeded`` and ``NoSharedMemory`` where ``loaded`` are no longer the shared counts.
        """
        if self._shared is None:
            return False
        if isinstance(loaded.counts, SharedView):
            if self._shared.try_to_write():
                return True
            if loaded.counts.is_superseded:
                raise RescanNeeded("the shared counts are gone, or those of another model")
        elif isinstance(loaded.counts, TableCounts) and not self._shared.uses(loaded.counts):
            raise NoSharedMemory("somebody has removed the file of the shared counts")
        return False

    async def load(self, model: Model) -> LoadedCounts:
        """Load the counts, or find those that another process has loaded, and go to the end of the stream.

        Raises ``StoreUnavailable``, ``RescanNeeded``, ``NoSharedMemory`` and ``TableFailure``.
        """
        identity = _identity(model)
        if self._shared is None:
            return await self._scan(model, identity)
        if loaded := await _view(model, self._shared, identity):
            return loaded
        taking_over = asyncio.create_task(asyncio.to_thread(self._shared.take_over, identity))
        try:
            counts = await asyncio.shield(taking_over)
        finally:  # also where this is cancelled: as long as the thread writes, no other process may
            await asyncio.wait([taking_over])
        if counts is not None and await _are_stored(model, counts, (await model.position()).change):
            with suppress(RescanNeeded):
                loaded = await _follow_up(model, counts, counts, counts.position)
                loaded.origin = "taken over"  # as a former writer has left them
                return loaded
        return await self._scan(model, identity)

    async def _scan(self, model: Model, identity: tuple[int, int]) -> LoadedCounts:
        """Scan all counts, then replay what was learned meanwhile."""
        start = await model.position()
        counts = self._new_counts(identity, start.totals.vocabulary_size)
        with store_errors():
            await scan_counts(model.client, model.keys, counts)
        counts.apply(CountsChange((), (), start.totals, start.change, start.change))
        loaded = await _follow_up(model, counts, counts, start.change)
        _published(counts)
        return loaded

    def _new_counts(self, identity: tuple[int, int], tokens: int) -> Counts:
        if self._shared:
            return self._shared.new_counts(tokens, identity)
        return TableCounts.empty(self._table_functions, tokens=tokens) if self._table_functions else ClassCounts()


def _identity(model: Model) -> tuple[int, int]:
    return counts_identity(model.keys.totals)


def _published(counts: Counts) -> Counts:
    """Let other processes see the counts, where they can."""
    if isinstance(counts, TableCounts):
        counts.publish()
    return counts


async def _view(model: Model, shared: SharedCounts, identity: tuple[int, int]) -> LoadedCounts | None:
    """The counts that another process writes, or None when this process has become the writer.

    They are those that Redis has now, but for a writer that stands still: of that one, what it has committed.
    """
    began, needed, is_said = time.monotonic(), math.inf, False
    while not shared.try_to_write():
        stop_if_cancelled()
        end, view = (await model.position()).change, shared.view(identity)
        needed = min(needed, end.sequence)  # less than at first where Redis has lost changes meanwhile
        is_standstill = time.monotonic() - began > _STANDSTILL_SECONDS
        if view is not None and await _are_stored(model, view, end):
            missing = int(needed - view.position.sequence)
            if missing <= 0 or is_standstill:
                if missing > 0:
                    _log.warning(
                        "the writer of the shared counts stands still; they are %d lesson%s behind Redis",
                        missing,
                        "" if missing == 1 else "s",
                    )
                return await _follow_up(model, view, None, end)
        elif is_standstill and not is_said:
            is_said = True
            _log.warning("the process that writes the shared counts has not loaded them yet")
        await asyncio.sleep(_LOOK_SECONDS)
    return None


async def _are_stored(model: Model, counts: TableView, end: ChangePosition) -> bool:
    """Whether Redis has, or had, the changes that are in these counts; ``end`` is where its stream ends.

    The last change is not enough: the writer looks for the one before it only after it has applied the next. A
    later epoch of a layer begins with a sequence number that no change has.
    """
    for place in (counts.stored_position, counts.position):
        if not (place.sequence == 0 or place == end or await model.has_change(place)):
            return False
    return True


async def _follow_up(
    model: Model, counts: CountsView, own: Counts | None, position: ChangePosition
) -> LoadedCounts:
    """Read the first scores, and apply the changes after ``position`` up to the present end of the stream."""
    with store_errors():
        first_scores = await scan_first_scores(model.client, model.keys)
    loaded = LoadedCounts(counts, own, first_scores, position, position)
    entries: Any = None
    while entries is None or len(entries) == READ_COUNT:
        with store_errors():
            start = b"(" + loaded.position.stream_id
            entries = await model.client.xrange(model.keys.changes, min=start, count=READ_COUNT)
        for entry_id, fields in entries:
            loaded.apply(entry_id, fields)
    return loaded
