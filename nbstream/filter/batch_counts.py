"""The counts that a batch of messages needs; most of them are prefetched while the batch before it is taught.

A lesson changes the counts of the tokens of its message, and of those of its former ledger entry. All other
counts can be read before it is committed, with the same result. So the counts of names that the batch before does
not have are prefetched, and the rest is read at the turn of the batch.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import compress, count
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.counts import CLASSES
from nbstream.filter.message_counts import count_names
from nbstream.store.model.ledger import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from nbstream.errors import StoreIncompatible
    from nbstream.filter.lesson_plan import TokenizedMessage
    from nbstream.filter.message_counts import MessageCounts
    from nbstream.filter.protocols import CountSource


class PrefetchedBatch:
    """The messages of a batch before its turn, and those of its counts that were prefetched.

    ``has_begun`` is set when the batch has all its counts, and its first lessons are on their way: Redis is busy
    from then on.
    """

    def __init__(self, messages: Iterable[TokenizedMessage]) -> None:
        self.messages = tuple(messages)
        self._row_numbers = defaultdict[bytes, int](count().__next__)  # each new name gets the next number
        self._rows_by_message = [self._number(message.tokens.all.names) for message in self.messages]
        self._is_prefetched = np.zeros(len(self._row_numbers), dtype=np.bool_)
        self._prefetched_rows = np.zeros((0, len(CLASSES)), dtype=np.int64)
        self.has_begun = asyncio.Event()

    @property
    def is_single(self) -> bool:
        """Whether it has one message only, which is then taught alone."""
        return len(self.messages) == 1

    def _number(self, names: Collection[bytes]) -> NDArray[np.intp]:
        return np.fromiter(map(self._row_numbers.__getitem__, names), np.intp, len(names))

    async def prefetch(self, counts: CountSource, former: PrefetchedBatch) -> None:
        """Read the counts of all names that ``former``, the batch before, does not have.

        This waits until ``former`` has begun: then it has all its names, and what came before it is committed.
        """
        await former.has_begun.wait()
        is_late = map(former._row_numbers.__contains__, self._row_numbers)
        self._is_prefetched = ~np.fromiter(is_late, np.bool_, len(self._row_numbers))
        names = compress(self._row_numbers, self._is_prefetched.tolist())
        self._prefetched_rows, _ = await counts.look_up(tuple(names))

    async def read_rest(
        self,
        entries: Iterable[LedgerEntry | StoreIncompatible | None],
        read_counts: Callable[[tuple[bytes, ...]], Awaitable[MessageCounts]],
    ) -> BatchCounts:
        """Read what is missing, once the batch before is committed; ``entries`` are those of the messages."""
        names: list[tuple[bytes, ...]] = []
        for i, (message, entry) in enumerate(zip(self.messages, entries, strict=True)):
            old_entry = entry if isinstance(entry, LedgerEntry) else None
            names.append(count_names(message.tokens, old_entry))
            if old_entry:
                self._rows_by_message[i] = self._number(names[i])
        is_late = np.ones(len(self._row_numbers), dtype=np.bool_)  # also the names that only entries have
        is_late[: len(self._is_prefetched)] = ~self._is_prefetched
        counts = await read_counts(tuple(compress(self._row_numbers, is_late.tolist())))
        rows = np.empty((len(self._row_numbers), len(CLASSES)), dtype=np.int64)
        rows[~is_late] = self._prefetched_rows
        rows[is_late] = counts.rows
        return BatchCounts(names, self._rows_by_message, replace(counts, rows=rows))


@dataclass(slots=True)
class BatchCounts:
    """The counts that a batch needs, plus its own lessons.

    ``names`` are the names of counts of each message, ``rows_by_message`` the numbers of their rows in ``counts``.
    """

    names: Sequence[tuple[bytes, ...]]
    rows_by_message: Sequence[NDArray[np.intp]]
    counts: MessageCounts

    def message_counts(self, i: int) -> MessageCounts:
        """Return the counts of message ``i``, with the lessons so far."""
        row_numbers, layer = self.rows_by_message[i], self.counts.autolearned
        return replace(
            self.counts,
            names=self.names[i],
            rows=self.counts.rows[row_numbers],
            autolearned=replace(layer, rows=layer.rows[row_numbers]) if layer else None,
        )

    def apply_lesson(self, i: int, counts_after: MessageCounts) -> None:
        """Put the counts after the lesson of message ``i`` in the place of those before it."""
        rows = self.counts.rows
        rows[self.rows_by_message[i]] = counts_after.rows
        self.counts = replace(self.counts, sums=counts_after.sums, totals=counts_after.totals)
