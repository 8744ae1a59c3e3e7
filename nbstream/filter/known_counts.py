"""The counts of a group of lessons, and those of the groups before it, plus what these have taught.

Most tokens of a group came in one of those before it. So their counts are not read again, but known: what was read
plus what was learned. Those of the next group can be read while lessons are on their way: its new names are none
of theirs. Where the totals in Redis are those of no step of our own, somebody else has taught, and all are read
again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbstream.engine.name_numbers import NameNumbers
from nbstream.filter.message_counts import MessageCounts
from nbstream.tokens.token_list import TokenList, join_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray


MAX_KNOWN_NAMES = 1 << 18  # some 40 MB; when there are more, all are forgotten
_STEPS_ON_THEIR_WAY = 600  # of two groups, where each lesson is a step


class MessageRows(NamedTuple):
    """The names of the counts of one message, and the numbers of their rows."""

    names: Sequence[bytes]
    numbers: NDArray[np.int64]


class KnownCounts:
    """The counts of a group, and those that were read for the groups before it, plus what they have taught.

    ``read_counts`` reads the counts of some names on all levels, and ``make_numbers`` makes what numbers names.
    """

    def __init__(
        self,
        read_counts: Callable[[Sequence[bytes]], Awaitable[MessageCounts]],
        make_numbers: Callable[[], NameNumbers] = NameNumbers,
    ) -> None:
        self._make_numbers = make_numbers
        self._read_counts = read_counts
        self._totals_of_steps = deque[tuple[object, ...]](maxlen=_STEPS_ON_THEIR_WAY)
        self._forget()

    def _forget(self) -> None:
        self._row_numbers = self._make_numbers()
        self._counts: MessageCounts | None = None

    async def read(self, names: Sequence[Sequence[bytes]]) -> Sequence[MessageRows]:
        """Read what is not known of the counts of a group; ``names`` are the names of counts of each message.

        All lessons so far are in Redis.
        """
        self._totals_of_steps.clear()
        if len(self._row_numbers) > MAX_KNOWN_NAMES:
            self._forget()
        self.end_step()
        rows = await self._read_unknown(names)
        if rows is None:
            self._forget()
            rows = await self._read_unknown(names)
            assert rows is not None
        self.end_step()
        return rows

    async def read_ahead(self, names: Sequence[Sequence[bytes]]) -> Sequence[MessageRows] | None:
        """Read the same while lessons are on their way: what they change is known, and is not read.

        Returns None where it has to wait for them: somebody else may have taught, or too many names are known.
        """
        return await self._read_unknown(names) if len(self._row_numbers) <= MAX_KNOWN_NAMES else None

    async def _read_unknown(self, names: Sequence[Sequence[bytes]]) -> Sequence[MessageRows] | None:
        """Read the counts of new names; return None where the totals are those of no step of the lessons."""
        number, known = self._row_numbers.number, len(self._counts.rows) if self._counts else 0
        rows = [MessageRows(of_one, number(join_tokens(of_one), len(of_one))) for of_one in names]
        unknown = TokenList.from_joined(self._row_numbers.joined(known), len(self._row_numbers) - known)
        counts = await self._read_counts(unknown)
        if self._counts:
            if _all_totals(counts) not in self._totals_of_steps:
                return None
            counts = _join_rows(self._counts, counts)
        self._counts = counts
        return rows

    def message_counts(self, rows: MessageRows) -> MessageCounts:
        """Return the counts of a message, with the lessons so far."""
        assert self._counts
        return _rows_of(self._counts, *rows)

    def apply_lesson(self, rows: MessageRows, counts_after: MessageCounts) -> None:
        """Put the counts after the lesson of a message in the place of those before it."""
        assert self._counts
        _as_items(self._counts.rows)[rows.numbers] = _as_items(counts_after.rows)
        self._counts = self._counts.with_counts(self._counts.rows, counts_after.sums, counts_after.totals)

    def end_step(self) -> None:
        """Note that Redis may have all lessons so far, and none of those that follow."""
        if self._counts:
            self._totals_of_steps.append(_all_totals(self._counts))


def _all_totals(counts: MessageCounts) -> tuple[object, ...]:
    """Return the totals of all levels: whoever teaches changes some of them."""
    layer = counts.autolearned
    return counts.totals, layer and layer.totals, *map(_all_totals, counts.parents)


def _as_items(rows: NDArray[np.int64]) -> NDArray[np.void]:
    """Return a view with an item for each row, which takes a tenth of the time to write."""
    return rows.view(f"V{rows.shape[1] * rows.itemsize}").reshape(-1)


def _join_rows(known: MessageCounts, counts: MessageCounts) -> MessageCounts:
    """Return ``known``, of the moment of ``counts``, with the rows of these behind its own, on all levels."""
    rows, layer = np.concatenate((known.rows, counts.rows)), counts.autolearned
    if layer and known.autolearned:
        layer = replace(layer, rows=np.concatenate((known.autolearned.rows, layer.rows)))
    parents = tuple(map(_join_rows, known.parents, counts.parents))
    prequential_scores = counts.prequential_scores  # another object where the counts were loaded again
    return replace(known, rows=rows, prequential_scores=prequential_scores, autolearned=layer, parents=parents)


def _rows_of(counts: MessageCounts, names: Sequence[bytes], row_numbers: NDArray[np.int64]) -> MessageCounts:
    """Return the counts of ``names``, which are in the rows of these numbers, on all levels."""
    layer = counts.autolearned
    return MessageCounts(  # ``replace`` takes twice the time
        names,
        counts.rows.take(row_numbers, axis=0),
        counts.sums,
        counts.totals,
        counts.prequential_scores,
        replace(layer, rows=layer.rows.take(row_numbers, axis=0)) if layer else None,
        tuple([_rows_of(parent, names, row_numbers) for parent in counts.parents]),
    )
