"""Class counts in memory that follow the change stream, so that scoring never waits for Redis.

Rules, each shown by a test: a gap in the numbers of the changes (the stream was trimmed past our position) or a
step back (a failover lost entries) means that the counts are loaded again, and the old ones serve meanwhile.
Whatever comes next, the change before it must still be in the stream under its number: a promoted replica may have
continued with other lessons under the same numbers. Whoever teaches gets their own changes from the stream like
all others. At a load the position in the change stream is noted before the counts are scanned, and replay begins
there: a change carries resulting counts, so it does no harm when the scan has already seen it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.bayes.columns import is_automatic
from nbstream.bayes.counts import ChangePosition, Totals
from nbstream.bayes.table_counts import make_counts
from nbstream.errors import StoreUnavailable
from nbstream.policy.thresholds import PrequentialScores
from nbstream.store.follower.follower import READ_COUNT, Followed, RescanNeeded, StreamEntries
from nbstream.store.model.scan import scan_counts, scan_prequential_scores
from nbstream.store.model.scripts import changed_counts, is_of_model, lesson_count, read_totals_in_turn
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    import ctypes

    import numpy as np
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Counts
    from nbstream.store.model.model import Model

_log = logging.getLogger(__name__)

_APPLIED_SECONDS = 5.0


@dataclass(slots=True)
class LoadedCounts:
    """The counts of a model in memory, complete up to the change at ``position``.

    ``counts`` are what people taught, ``automatic`` what was learned without them. They are apart, so that a
    token of one takes no room in the other. ``name_in_changes`` tells the changes of the model from those of
    others in the same stream.
    """

    counts: Counts
    automatic: Counts
    prequential_scores: PrequentialScores
    position: ChangePosition
    name_in_changes: str = ""

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
        if fields[b"predecessor"] != self.position.stream_id:
            raise RescanNeeded(f"change {self.position.sequence} that is known here is not in Redis")
        if not is_of_model(fields, self.name_in_changes):
            self.position = ChangePosition.of(entry_id, sequence)
            return
        tokens, columns = changed_counts(fields)
        totals = read_totals_in_turn(fields[b"totals"].split())
        self.prequential_scores.apply_change(fields)
        self.position = ChangePosition.of(entry_id, sequence)
        for column, values in columns:
            self.group(automatic=is_automatic(column)).set_column(tokens, column, values)
        for counts, of_group in zip((self.counts, self.automatic), totals, strict=True):
            counts.set_totals(of_group)

    def group(self, *, automatic: bool) -> Counts:
        """Return what was learned without people, or what they taught."""
        return self.automatic if automatic else self.counts


async def load_counts(model: Model, library: ctypes.CDLL | None, *, has_automatic: bool = True) -> LoadedCounts:
    """Scan all counts, then replay what was learned meanwhile, to the end of the stream.

    They are in tables of the native ``library`` where there is one. ``has_automatic`` says whether something may
    be learned without people. Raises ``StoreUnavailable`` and ``RescanNeeded``.
    """
    start = await model.position()
    counts = make_counts(library, start.people.vocabulary_size, start.people.columns)
    automatic = make_counts(
        library if has_automatic else None, start.automatic.vocabulary_size, start.automatic.columns
    )
    with store_errors():
        await scan_counts(model.client, model.keys, counts)
        if has_automatic:
            await scan_counts(model.client, model.keys, automatic)
        prequential_scores = await scan_prequential_scores(model.client, model.keys)
    counts.set_totals(start.people)
    automatic.set_totals(start.automatic)
    loaded = LoadedCounts(counts, automatic, prequential_scores, start.change, model.keys.name_in_changes)
    await replay(model, loaded)
    return loaded


async def replay(model: Model, loaded: LoadedCounts) -> None:
    """Apply what is in the stream behind ``loaded``. Raises ``StoreUnavailable`` and ``RescanNeeded``."""
    entries: Any = None
    while entries is None or len(entries) == READ_COUNT:
        begin = b"(" + loaded.position.stream_id
        with store_errors():
            entries = await model.client.xrange(model.keys.changes, min=begin, count=READ_COUNT)
        for entry_id, fields in entries:
            loaded.apply(entry_id, fields)


class FollowedCounts(Followed):
    """The counts of ``model`` in memory, which a follower keeps equal to Redis.

    With a native ``library`` the counts are in tables of it.
    """

    def __init__(self, model: Model, library: ctypes.CDLL | None = None) -> None:
        super().__init__(model.keys.changes)
        self.model = model
        self._library = library
        self._loaded: LoadedCounts | None = None
        self._progress = asyncio.Event()
        self._has_ended = False
        self.loads = 0
        """How often the counts were loaded: at the start, and whenever Redis was away or is another one."""

    # How far the counts are

    @property
    def lag_seconds(self) -> float:
        """Seconds since the counts were last known to equal Redis; 0 while they follow."""
        return 0.0 if self.is_current else time.monotonic() - self.equal_at

    async def wait_for_more_tokens(self, tokens: int) -> Sequence[bool]:
        """Return when there are more distinct tokens than ``tokens``, whatever their counts are.

        Those of people and those that were learned without them are counted apart: for each of them that has
        more, whether it is ``automatic``.
        """

        def larger() -> Sequence[bool]:
            loaded = self._loaded
            return [
                automatic
                for automatic in (False, True)
                if loaded and loaded.group(automatic=automatic).distinct_tokens > tokens
            ]

        await self._wait_until(lambda: bool(larger()))
        return larger()

    async def wait_until_applied(self, change: bytes) -> None:
        """Return when the change with the stream id ``change`` is in the counts, or nobody follows any more.

        Raises ``StoreUnavailable`` when that takes longer than 5 seconds; the change is durable all the same.
        """
        wanted = ChangePosition.of(change)
        try:
            async with asyncio.timeout(_APPLIED_SECONDS):
                await self._wait_until(
                    lambda: self._has_ended or (self._loaded is not None and self.position >= wanted)
                )
        except TimeoutError as error:
            raise StoreUnavailable("the change is stored, but the counts in memory do not follow Redis") from error

    async def _wait_until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._progress.wait()

    def _wake_waiters(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    # What it holds

    @property
    def totals(self) -> Totals | None:
        """The totals of what people taught as they are in memory; None before the first load."""
        return None if self._loaded is None else self._loaded.counts.totals

    @property
    def automatic_totals(self) -> Totals | None:
        """The totals of what was learned without people; None before the first load."""
        return None if self._loaded is None else self._loaded.automatic.totals

    @property
    def vocabulary_size(self) -> int:
        """The number of distinct tokens with a count above zero; 0 before the first load."""
        totals = self.totals
        return 0 if totals is None else totals.vocabulary_size

    def snapshot(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return all names of tokens and sums that people taught, and their counts, shape (names, classes).

        Takes 30 ms for half a million tokens. Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().counts.snapshot()

    def group(self, *, automatic: bool) -> Counts:
        """Return the counts that were learned without people, or those that they taught.

        Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().group(automatic=automatic)

    @property
    def in_memory(self) -> Counts:
        """The counts as people taught them. Raises ``StoreUnavailable`` before the first load."""
        return self._loaded_counts().counts

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens``, shape (n, classes), and the totals; never waits.

        Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().counts.look_up_with_totals(tokens)

    async def look_up_columns(
        self, tokens: Sequence[bytes], *, automatic: bool = False
    ) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` in each of the columns of the totals, and these; it never waits."""
        counts = self.group(automatic=automatic)
        return counts.look_up_columns(tokens), counts.column_totals

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (n, classes); never waits.

        Returns the same array until a count changes. Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().counts.sums(names)

    @property
    def loaded_prequential_scores(self) -> PrequentialScores:
        """The prequential scores as they are in memory; an empty collection before the first load."""
        return PrequentialScores() if self._loaded is None else self._loaded.prequential_scores

    async def prequential_scores(self) -> PrequentialScores:
        """Return the prequential scores; never waits.

        The object goes on following the change stream. Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().prequential_scores

    def _loaded_counts(self) -> LoadedCounts:
        if self._loaded is None:
            raise StoreUnavailable("the counts are not loaded yet")
        return self._loaded

    # Following the stream

    async def load(self) -> None:
        """Load the counts of the model, and say so in the log."""
        former, former_stream = self.position if self.loads else None, self.stream
        await self.model.open()
        self.begin_with(await load_counts(self.model, self._library))
        totals, name = self.totals or Totals(), self.model.keys.log_name
        if former and self.stream == former_stream and self._is_behind(former):
            _log.warning(
                "%s: history differs, rescanned: known here was change %d, the last in Redis is %d",
                name,
                former.sequence,
                self.position.sequence,
            )
        _log.info("%s loaded: %d tokens of %d messages", name, totals.vocabulary_size, sum(totals.messages))

    def _is_behind(self, former: ChangePosition) -> bool:
        """Whether Redis has fewer changes than were known here, or another one in the last place."""
        here = self.position
        return here < former or (here.stream_id == former.stream_id and here != former)

    def begin_with(self, loaded: LoadedCounts) -> None:
        """Take over counts that were loaded just now."""
        self._loaded, self.position, self.stream = loaded, loaded.position, self.model.keys.changes
        self.loads += 1
        self._wake_waiters()

    def apply_change(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        """Apply a change of the stream, unless it is in the counts. Raises ``RescanNeeded``."""
        if ChangePosition.of(entry_id) > self.position:
            loaded = self._loaded_counts()
            loaded.apply(entry_id, fields)
            self.position = loaded.position

    async def apply(self, entries: StreamEntries) -> None:
        """Apply the next changes of the stream, with other work between them."""
        for number, (entry_id, fields) in enumerate(entries):
            if number:
                await asyncio.sleep(0)
            try:
                self.apply_change(entry_id, fields)
            finally:
                self._wake_waiters()

    def end(self) -> None:
        """Follow no more: nobody needs the counts any longer, and who waits for a change goes on."""
        self.is_current, self._has_ended = False, True
        self._wake_waiters()
