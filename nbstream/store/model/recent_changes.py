"""The last changes of the history, in memory: whoever looks again reads only what is new."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nbstream.store.cancellation import stop_if_cancelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.store.model.history import History, HistoryChange

MAX_RECENT_CHANGES = 10_000
"""So many changes are kept: some 6 MB, read for the first time in a fifth of a second."""

_BATCH = 100  # changes in one round trip: other work goes on after each


class RecentChanges:
    """The last ``limit`` changes of a history. Each process has its own."""

    def __init__(self, history: History, limit: int = MAX_RECENT_CHANGES) -> None:
        self._history = history
        self._limit = limit
        self._known: tuple[HistoryChange, ...] = ()
        self._reading = asyncio.Lock()

    @property
    def known(self) -> Sequence[HistoryChange]:
        """The changes as they were read last, newest first; empty before that."""
        return self._known

    @property
    def limit(self) -> int:
        """How many changes there are at most."""
        return self._limit

    async def read(self) -> Sequence[HistoryChange]:
        """Return the changes as they are now, newest first. Raises ``StoreUnavailable`` and ``StoreIncompatible``.

        What is known is read again where the history has gone another way, as after a failover.
        """
        async with self._reading:
            fresh: list[HistoryChange] = []
            known: Sequence[HistoryChange] = ()
            async for change in self._history.changes(batch=_BATCH):
                if self._known and change.id == self._known[0].id:
                    known = self._known
                    break
                fresh.append(change)
                if len(fresh) >= self._limit:
                    break
                stop_if_cancelled()
            if fresh or not known:
                self._known = (*fresh, *known[: self._limit - len(fresh)])
            return self._known
