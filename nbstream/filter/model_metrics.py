"""Gauges of model, mirror, thresholds, calibration and budgets, read at each scrape. Names are a contract."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from nbstream.bayes.counts import CLASSES
from nbstream.policy.budget import budget_promise

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from nbstream.filter import FilterPolicy
    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.connection import Primary
    from nbstream.store.mirror.mirror import Mirror


class ModelCollector(Collector):
    """Gauges of the model, the mirror and the thresholds."""

    def __init__(self, mirror: Mirror, primary: Primary, policy: Callable[[], FilterPolicy]) -> None:
        self._mirror = mirror
        self._primary = primary
        self._filter_policy = policy

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges as they are now."""
        yield from self._model_metrics()
        yield GaugeMetricFamily(
            "nbstream_mirror_lag_seconds",
            "Seconds since the counts in memory were last known to equal Redis.",
            value=self._mirror.lag_seconds,
        )
        is_up = self._mirror.following and not self._primary.is_replica
        yield GaugeMetricFamily(
            "nbstream_redis_up",
            "1 while the change stream is followed and the server is a primary, not a replica.",
            value=float(is_up),
        )
        yield from self._policy_metrics()

    def _policy_metrics(self) -> Iterator[Metric]:
        policy, first_scores = self._filter_policy(), self._mirror.loaded_first_scores
        thresholds = policy.default_policy.thresholds(first_scores)
        gauge = GaugeMetricFamily(
            "nbstream_threshold",
            "P(spam) from which a verdict holds, by the name of the threshold: unsure, spam, reject; infinite for "
            "never.",
            labels=["name"],
        )
        for name, value in (
            ("unsure", thresholds.unsure),
            ("spam", thresholds.spam),
            ("reject", thresholds.reject),
        ):
            if value is not None:
                gauge.add_metric([name], value)
        promised = GaugeMetricFamily(
            "nbstream_budget_promised",
            "1 while the budget of this false-positive rate is promised.",
            labels=["rate"],
        )
        needed = GaugeMetricFamily(
            "nbstream_budget_ham_needed",
            "Ham messages still to be labelled before the budget of this false-positive rate can be promised.",
            labels=["rate"],
        )
        for rate in sorted(policy.budget_rates):
            promise = budget_promise(first_scores["ham"], rate)
            promised.add_metric([str(rate)], float(promise.is_promised))
            needed.add_metric([str(rate)], promise.ham_missing)
        yield from (gauge, promised, needed)

    def _model_metrics(self) -> Iterator[Metric]:
        """Yield what is needed and, once the counts are loaded, what is learned."""
        messages = GaugeMetricFamily(
            "nbstream_model_messages", "Messages learned and not taken back, by class.", labels=["class"]
        )
        tokens = GaugeMetricFamily("nbstream_model_tokens", "Distinct tokens in the vocabulary.")
        needed = GaugeMetricFamily(
            "nbstream_model_messages_needed",
            "Messages that the model must have learned before it decides, by class.",
            labels=["class"],
        )
        totals = self._mirror.totals
        for column, label in enumerate(CLASSES):
            needed.add_metric([label], self._filter_policy().min_learned.get(label, 0))
            if totals is not None:
                messages.add_metric([label], totals.messages[column])
        if totals is not None:
            tokens.add_metric([], totals.vocabulary_size)
        yield from (messages, tokens, needed)
        half_lives_left = (
            None
            if totals is None or self._mirror.half_life.days is None
            else self._mirror.half_life.half_lives_left(time.time(), self._mirror.largest_count)
        )
        if half_lives_left is not None:
            yield GaugeMetricFamily(
                "nbstream_model_half_lives_left",
                "Half-lives until nothing more can be learned. Only with model.half_life_days.",
                value=half_lives_left,
            )


class AutolearnCollector(Collector):
    """Gauges of what was learned without people; without values before the mirror has loaded it."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges as they are now."""
        totals = self._mirror.totals
        messages = GaugeMetricFamily(
            "nbstream_autolearn_messages",
            "Messages learned without people, by class. Only with autolearn.",
            labels=["class"],
        )
        tokens = GaugeMetricFamily(
            "nbstream_autolearn_tokens",
            "Distinct tokens of the messages learned without people. Only with autolearn.",
        )
        if totals is not None:
            for column, label in enumerate(CLASSES):
                messages.add_metric([label], totals.messages[column])
            tokens.add_metric([], totals.vocabulary_size)
        yield from (messages, tokens)


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
