"""The counts of the batches before, of which only those of new names are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import Totals
from nbstream.filter.message_counts import KnownCounts, MessageCounts
from nbstream.policy.thresholds import PrequentialScores


async def test_prequential_scores_are_those_of_the_last_read() -> None:
    """They are another object once the counts were loaded again, and the former one follows no lesson."""
    loads = [PrequentialScores(), PrequentialScores()]
    following = iter(loads)

    async def read_counts(names: Sequence[bytes]) -> MessageCounts:
        rows, sums = (np.zeros((size, len(CLASSES)), np.int64) for size in (len(names), len(SCORE_BINS)))
        return MessageCounts(names, rows, sums, Totals(), next(following))

    known = KnownCounts(read_counts)
    for prequential_scores in loads:
        (rows,) = await known.read([[b"token:prize"]])
        assert known.message_counts(rows).prequential_scores is prequential_scores
