"""Which checked messages people are asked about: those of the fair sample, and those whose label teaches most.

Rules: both have no label yet, and are still remembered. The sample is fair, and budgets count on it; the others
are chosen by their P(spam), and teach the model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nbstream.policy.verdict import Verdict
from nbstream.store.recent.row_search import RowFilter

if TYPE_CHECKING:
    from nbstream.store.recent.message_rows import MessageRow, RowPosition
    from nbstream.store.recent.row_search import RowSearch

MAX_DRAWN = 2000
"""So many of the drawn messages, the newest, are looked at."""

_PAGE = 500  # rows: a few ms of the event loop
_MAX_UNSURE = 500

FindLabels: TypeAlias = "Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]"
"""Returns what messages are learned as, by their ids."""


@dataclass(frozen=True, slots=True)
class AnsweredShare:
    """How many of some drawn messages have a label."""

    drawn: int
    labelled: int

    def __str__(self) -> str:
        """Return the share in words."""
        share = f", {100 * self.labelled / self.drawn:.0f} %" if self.drawn else ""
        return f"{self.labelled:,} of {self.drawn:,}{share}"


@dataclass(frozen=True, slots=True)
class Questions:
    """The messages without a label that people are asked about.

    ``drawn`` are of the fair sample, the oldest first. ``nearest`` are unsure ones that are not drawn, the nearest
    to a P(spam) of 1/2 first: their labels teach most. ``answered`` is of all drawn messages that are remembered,
    ``answered_spam`` of those whose verdict was spam: if these get fewer answers, budgets are kept less well.
    """

    drawn: Sequence[MessageRow]
    nearest: Sequence[MessageRow]
    answered: AnsweredShare
    answered_spam: AnsweredShare


async def find_questions(search: RowSearch, find_labels: FindLabels, count: int) -> Questions:
    """Return at most ``count`` questions of each kind. Raises ``StoreUnavailable``."""
    drawn = await _rows(search, RowFilter(is_drawn=True), MAX_DRAWN)
    labels = await find_labels([row.id for row in drawn])
    spam = [row for row in drawn if Verdict(row.verdict).is_spam]
    unsure = await _rows(search, RowFilter(verdict=str(Verdict.UNSURE)), _MAX_UNSURE)
    drawn_ids = {row.id for row in drawn}
    others = [row for row in unsure if row.id not in drawn_ids]
    other_labels = await find_labels([row.id for row in others])
    nearest = sorted(
        (row for row in others if row.id not in other_labels), key=lambda row: abs(row.probability - 0.5)
    )
    return Questions(
        [row for row in reversed(drawn) if row.id not in labels][:count],
        nearest[:count],
        _answered_share(drawn, labels),
        _answered_share(spam, labels),
    )


def _answered_share(rows: Sequence[MessageRow], labels: Mapping[str, str]) -> AnsweredShare:
    return AnsweredShare(len(rows), sum(row.id in labels for row in rows))


async def _rows(search: RowSearch, wanted: RowFilter, limit: int) -> list[MessageRow]:
    """Return the newest ``limit`` rows that are wanted, the newest first."""
    rows: list[MessageRow] = []
    position: RowPosition | None = None
    while len(rows) < limit:
        page = await search.search(wanted, position, count=min(_PAGE, limit - len(rows)))
        rows += page.rows
        position = page.next_position
        if position is None:
            break
    return rows
