"""The counts of the batches before, of which only those of new names are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import Totals
from nbstream.filter.message_counts import KnownCounts, MessageCounts
from nbstream.policy.thresholds import PrequentialScores


def counts_of(names: Sequence[bytes], totals: Totals, prequential_scores: PrequentialScores) -> MessageCounts:
    rows, sums = (np.zeros((size, len(CLASSES)), np.int64) for size in (len(names), len(SCORE_BINS)))
    return MessageCounts(names, rows, sums, totals, prequential_scores)


async def test_prequential_scores_are_those_of_the_last_read() -> None:
    """They are another object once the counts were loaded again, and the former one follows no lesson."""
    loads = [PrequentialScores(), PrequentialScores()]
    following = iter(loads)

    async def read_counts(names: Sequence[bytes]) -> MessageCounts:
        return counts_of(names, Totals(), next(following))

    known = KnownCounts(read_counts)
    for prequential_scores in loads:
        (rows,) = await known.read([[b"token:prize"]])
        assert known.message_counts(rows).prequential_scores is prequential_scores


@pytest.mark.parametrize(
    ("messages", "token_weights", "is_read"),
    [
        ((0, 0), (0, 0), True),
        ((1, 0), (5, 0), True),
        ((0, 1), (0, 7), True),
        ((1, 1), (5, 7), True),
        ((1, 2), (5, 9), False),
    ],
    ids=["neither", "ham", "spam", "both", "somebody-elses"],
)
async def test_names_are_read_ahead_whichever_own_steps_are_made_and_not_beside_lessons_of_others(
    messages: tuple[int, ...], token_weights: tuple[int, ...], is_read: bool
) -> None:
    made = Totals()

    async def read_counts(names: Sequence[bytes]) -> MessageCounts:
        return counts_of(names, made, PrequentialScores())

    known = KnownCounts(read_counts)
    (rows,) = await known.read([[b"token:prize"]])
    before = known.message_counts(rows)
    known.apply_lesson(rows, before.with_counts(before.rows, before.sums, Totals((1, 1), (5, 7), 1)))
    known.end_step()

    made = Totals(messages, token_weights, 1)

    assert (await known.read_ahead([[b"token:next"]]) is not None) is is_read
