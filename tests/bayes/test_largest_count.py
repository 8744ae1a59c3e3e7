"""The largest count is found without a search through all of them."""

from __future__ import annotations

import pytest

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.counts import ClassCounts
from nbstream.bayes.largest_count import LARGE_SUMS, largest_count
from nbstream.bayes.multinomial import SPAM
from tests.bayes.sample_models import CHOICES, classifier_of, trained_counts


def largest_by_search(counts: ClassCounts) -> int:
    return max(*counts.totals.tokens, int(counts.snapshot()[1].max()))


@pytest.mark.parametrize("choice", CHOICES)
def test_the_largest_of_all_counts_is_a_total_or_a_large_sum(choice: str) -> None:
    counts = trained_counts(classifier_of(choice))

    assert largest_count(counts.totals, counts.sums(LARGE_SUMS)) == largest_by_search(counts)


def test_a_bin_of_the_calibration_may_be_larger_than_the_totals() -> None:
    """A message that the model knows for sure teaches its tokens nothing, and counts in a bin all the same."""
    counts, calibration = ClassCounts(), Calibration()
    for weight in (1, 0, 0):
        counts.add((b"body:offer",), SPAM, weight, calibration.lesson_sums(1000.0, counts.totals))

    assert largest_count(counts.totals, counts.sums(LARGE_SUMS)) == largest_by_search(counts) > 1
