"""Gauges that compare P(spam) with labels: calibration, and what budgets lost. Names are a contract."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from nbstream.bayes.counts import CLASSES

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from nbstream.filter import FilterPolicy
    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.replica.mirror import Mirror

_BIN_EDGES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)


class FirstScoreCollector(Collector):
    """Gauges of the stored first scores, the same in every process; none before the mirror has loaded them.

    A bin is named after its ends: ``0.9-0.95`` is 0.9 <= P(spam) < 0.95, and the last bin includes 1. In a
    calibrated model the number of spam messages in a bin is the sum of the probabilities of its messages.
    """

    def __init__(self, mirror: Mirror, policy: Callable[[], FilterPolicy]) -> None:
        self._mirror = mirror
        self._filter_policy = policy

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges as they are now."""
        if self._mirror.totals is not None:
            yield from calibration_metrics(self._mirror.loaded_first_scores)
            yield from budget_metrics(self._mirror.loaded_first_scores, self._filter_policy().budget_rates)


def calibration_metrics(first_scores: FirstScores) -> Iterator[Metric]:
    """Yield how many messages of each label are in each bin, and how many messages of each bin should be spam."""
    messages = GaugeMetricFamily(
        "nbstream_calibration_messages",
        "Labelled messages, by class and by the P(spam) that they had before; bin 0.9-0.95 is 0.9 <= P < 0.95.",
        labels=["class", "bin"],
    )
    expected = GaugeMetricFamily(
        "nbstream_calibration_expected_spam",
        "How many of the labelled messages of a bin should be spam: the sum of their P(spam).",
        labels=["bin"],
    )
    for low, high in pairwise(_BIN_EDGES):
        name, total = f"{low:g}-{high:g}", 0.0
        for label in CLASSES:
            ascending = first_scores[label].ascending_probabilities
            end = len(ascending) if high == _BIN_EDGES[-1] else bisect_left(ascending, high)
            in_bin = ascending[bisect_left(ascending, low) : end]
            messages.add_metric([label, name], len(in_bin))
            total += sum(in_bin)
        expected.add_metric([name], total)
    yield from (messages, expected)


def budget_metrics(first_scores: FirstScores, rates: Iterable[float]) -> Iterator[Metric]:
    """Yield how many ham messages each rate has allowed to be called spam so far, and how many were."""
    allowed = GaugeMetricFamily(
        "nbstream_budget_ham_allowed",
        "Ham messages that the budget of this rate allowed to be called spam, of those labelled since it is in "
        "force.",
        labels=["rate"],
    )
    lost = GaugeMetricFamily(
        "nbstream_budget_ham_lost",
        "Ham messages that were called spam by the budget of this rate, of those labelled since it is in force.",
        labels=["rate"],
    )
    for rate in sorted(rates):
        seen, called = first_scores["ham"].budget_use(rate)
        allowed.add_metric([str(rate)], rate * seen)
        lost.add_metric([str(rate)], called)
    yield from (allowed, lost)
