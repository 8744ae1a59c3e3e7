"""The counts that matter for a message, what a lesson makes of them, and whether they have room for it.

Learning stops before counts become inexact. The check is made on the counts as they would be after the lesson.
These counts may be some lessons old, or others may change them at the same moment. That does no harm: very many
lessons fit between the limit and the largest integer that is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.counts import CLASSES, MAX_COUNT, ClassCounts
from nbstream.bayes.novelty import CHECK_SUMS
from nbstream.errors import CountsFull

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nbstream.bayes.counts import Sums, Totals
    from nbstream.policy.prequential_scores import PrequentialScores
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.tokens.tokenizer import Tokens


_IN_ANY_CLASS = np.dtype(f"u{len(CLASSES)}")
"""The booleans of all classes as one number: numpy is slow over short rows, and takes twice as long by columns."""


@dataclass(frozen=True, slots=True)
class AutolearnedCounts:
    """The counts of the autolearn layer: as in ``MessageCounts``; the calibration learns nothing there."""

    rows: NDArray[np.int64]
    totals: Totals


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """The counts that matter for a message, at one moment, as people taught them.

    ``names`` begin with its tokens. ``rows`` has the counts of these names, shape (names, classes), and ``sums``
    those of ``CHECK_SUMS``, shape (sums, classes). Neither array is changed later.
    ``prequential_scores`` is the live object: it changes with later lessons. ``autolearned`` is None where nothing
    is learned without people, or while that cannot be read. ``parents`` are the counts of the levels above an own
    model, the common model first; empty for the common model itself, which alone has an autolearned part.
    """

    names: Sequence[bytes]
    rows: NDArray[np.int64]
    sums: NDArray[np.int64]
    totals: Totals
    prequential_scores: PrequentialScores
    autolearned: AutolearnedCounts | None = None
    parents: tuple[MessageCounts, ...] = ()

    def with_counts(self, rows: NDArray[np.int64], sums: NDArray[np.int64], totals: Totals) -> MessageCounts:
        """Return the same with other counts, as ``replace`` does in twice the time."""
        rest = self.prequential_scores, self.autolearned, self.parents
        return MessageCounts(self.names, rows, sums, totals, *rest)

    @property
    def common(self) -> MessageCounts:
        """The counts of the common model."""
        return self.parents[0] if self.parents else self

    @property
    def own(self) -> tuple[MessageCounts, ...]:
        """The counts of the own models, the highest level first; empty for the common model."""
        return (*self.parents[1:], self) if self.parents else ()


def count_names(tokens: Tokens, old_entry: LedgerEntry | None) -> Sequence[bytes]:
    """Return the tokens whose counts matter for a message: its own, then those that only ``old_entry`` has."""
    return tuple(dict.fromkeys((*tokens.all, *old_entry.tokens))) if old_entry else tokens.all


def prequential_score_sums(entry: LedgerEntry) -> Sums:
    """Return the sums of an entry that say how its message was checked before its first label."""
    return [(name, amount) for name, amount in entry.sums if name in CHECK_SUMS]


def counts_after_lesson(
    counts: MessageCounts, old_entry: LedgerEntry | None, new_entry: LedgerEntry | None
) -> MessageCounts:
    """Return the counts once ``old_entry`` is taken back and ``new_entry`` is added, if nobody else teaches."""
    only = new_entry if not old_entry else old_entry if not new_entry else None
    if only and only.tokens == counts.names:
        return _counts_after_one_entry(counts, only, 1 if new_entry else -1)
    changed = ClassCounts()
    changed.set_counts(counts.names, counts.rows)
    changed.set_counts(CHECK_SUMS, counts.sums)
    changed.set_totals(counts.totals)
    if old_entry:
        changed.subtract(old_entry.tokens, CLASSES.index(old_entry.label), old_entry.weight, old_entry.sums)
    if new_entry:
        changed.add(new_entry.tokens, CLASSES.index(new_entry.label), new_entry.weight, new_entry.sums)
    rows, sums = changed.look_up(counts.names), changed.look_up(CHECK_SUMS)
    return replace(counts, rows=rows, sums=sums, totals=changed.totals)


def _counts_after_one_entry(counts: MessageCounts, entry: LedgerEntry, sign: int) -> MessageCounts:
    """Return the counts once ``entry``, whose tokens are those of ``counts``, is added (1) or taken back (-1).

    The result is that of ``ClassCounts``, but computed by arrays: most lessons are of this kind.
    """
    column, rows, sums = CLASSES.index(entry.label), counts.rows.copy(), counts.sums.copy()
    vocabulary_before = _vocabulary_size(rows)
    rows[:, column] += sign * entry.weight
    new_tokens = _vocabulary_size(rows) - vocabulary_before
    for name, amount in prequential_score_sums(entry):
        sums[CHECK_SUMS.index(name), column] += sign * amount
    totals = counts.totals.with_lesson(column, sign * entry.weight * len(rows), new_tokens, sign)
    return counts.with_counts(rows, sums, totals)


def _vocabulary_size(rows: NDArray[np.int64]) -> int:
    """Return how many of the tokens with these counts some class has."""
    return int(np.count_nonzero((rows > 0).view(_IN_ANY_CLASS)))


def check_room(counts: MessageCounts) -> None:
    """Raise ``CountsFull`` where ``counts``, those after a planned lesson, are too large."""
    largest = max(
        *counts.totals.token_weights,
        int(abs(counts.rows).max(initial=0)),
        int(abs(counts.sums).max(initial=0)),
    )
    if largest > MAX_COUNT:
        raise CountsFull(
            "the counts are as large as they can be, nothing more can be learned, and mail is scored as before: "
            "set model.name to a new name and teach that model"
        )
