"""The mirror: class counts in memory that follow the change stream, so that scoring never waits for Redis.

Rules, each shown by a test: a gap in the numbers of the changes (the stream was trimmed past our position) or a
step back (a failover lost entries) means that the counts are loaded again (``loading``), and the old ones serve
meanwhile. Whatever comes next, the change before it must still be in the stream under its number: a promoted
replica may have continued with other lessons under the same numbers. Whoever teaches gets their own changes from
the stream like all others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nbstream.bayes.counts import ChangePosition, Totals
from nbstream.errors import StoreUnavailable
from nbstream.policy.thresholds import PrequentialScores
from nbstream.store.mirror.follower import Followed, StreamEntries
from nbstream.store.mirror.loading import LoadedCounts, load_counts

if TYPE_CHECKING:
    import ctypes

    import numpy as np
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Counts
    from nbstream.engine.table import Table
    from nbstream.store.model.model import Model

_log = logging.getLogger(__name__)

_APPLIED_SECONDS = 5.0


class Mirror(Followed):
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

    # How far this mirror is

    @property
    def lag_seconds(self) -> float:
        """Seconds since this mirror was last known to equal Redis; 0 while it follows."""
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
        """Return when this mirror has applied the change with the stream id ``change``, or has ended.

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
        """The totals of what people taught as this mirror knows them; None before the first load."""
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
    def native_table(self) -> Table | None:
        """The table of the native library that has the counts now; None where they are in a dictionary.

        Raises ``StoreUnavailable`` before the first load.
        """
        return self._loaded_counts().counts.native_table

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
        """The prequential scores as this mirror knows them; an empty collection before the first load."""
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
        """Apply the next changes of the stream."""
        try:
            for entry_id, fields in entries:
                self.apply_change(entry_id, fields)
        finally:
            self._wake_waiters()

    def end(self) -> None:
        """Follow no more: nobody needs the counts any longer, and who waits for a change goes on."""
        self.is_current, self._has_ended = False, True
        self._wake_waiters()
