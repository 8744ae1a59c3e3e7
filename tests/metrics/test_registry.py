"""What a histogram counts."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from nbstream.metrics.registry import FrequentHistogram

BUCKETS = (0.1, 0.5, 1.0)


@given(st.lists(st.sampled_from((*BUCKETS, 0.0, 0.3, 7.0, math.inf))))
def test_a_frequent_histogram_counts_as_any_other(numbers: list[float]) -> None:
    histograms = [
        kind("seconds", "Seconds.", ["stage"], buckets=BUCKETS, registry=CollectorRegistry())
        for kind in (Histogram, FrequentHistogram)
    ]
    for histogram in histograms:
        for number in numbers:
            histogram.labels("wait").observe(number)

    usual, frequent = (
        {
            f"{sample.name} {sample.labels}": sample.value
            for family in histogram.collect()
            for sample in family.samples
            if not sample.name.endswith("_created")
        }
        for histogram in histograms
    )
    assert usual == frequent
