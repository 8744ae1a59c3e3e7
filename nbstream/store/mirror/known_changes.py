"""The last changes that a mirror has applied: by them it notices which changes Redis has lost."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.bayes.counts import ChangePosition
    from nbstream.store.mirror.loading import LoadedCounts
    from nbstream.store.model.model import Model

_log = logging.getLogger(__name__)

_REMEMBERED_CHANGES = 1000


class KnownChanges:
    """The changes of one model that a mirror knows, oldest first."""

    def __init__(self) -> None:
        self._changes: deque[ChangePosition] = deque(maxlen=_REMEMBERED_CHANGES)
        self._totals_key = ""
        self.lost = 0
        """How many known changes were missing when the counts were loaded again, at least."""

    @property
    def last(self) -> ChangePosition | None:
        """The last change; None before the first one."""
        return self._changes[-1] if self._changes else None

    def add(self, changes: Sequence[ChangePosition]) -> None:
        """Add changes that were applied."""
        self._changes.extend(changes)

    def forget_newest(self, number: int) -> None:
        """Forget so many of the changes that were added last."""
        for _ in range(number):
            self._changes.pop()

    async def note_losses(self, model: Model, loaded: LoadedCounts) -> None:
        """Count the changes that Redis has no longer, log an error for them, and know where it is now."""
        if model.keys.totals != self._totals_key:  # the first load, or another epoch of a layer
            self._changes.clear()
            self._totals_key = model.keys.totals
        lost = await self._forget_lost(model)
        if lost:
            self.lost += lost
            # How many there were before is not known to a reader: its counts are already those that came after.
            _log.error(
                "Redis has lost %s%d changes that %s followed; %d messages are learned now",
                "" if self._changes else "at least ",
                lost,
                model.keys.log_name,
                sum(loaded.counts.totals.messages),
            )
        end = loaded.position
        if end.sequence and (self.last is None or self.last.stream_id != end.stream_id):
            self._changes.append(end)

    async def _forget_lost(self, model: Model) -> int:
        """Forget the changes that Redis has no longer, and return how many changes these are.

        Two histories have a common beginning, so the last change of that is searched by halving.
        """
        common, end = 0, len(self._changes)
        while common < end:
            middle = (common + end) // 2
            if await model.has_change(self._changes[middle]):
                common = middle + 1
            else:
                end = middle
        if common == len(self._changes):
            return 0
        before = self._changes[common - 1].sequence if common else self._changes[0].sequence - 1
        lost = self._changes[-1].sequence - before
        self.forget_newest(len(self._changes) - common)
        return lost
