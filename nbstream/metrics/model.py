"""Gauges of model, mirror and thresholds, read at each scrape. Names are a contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from nbstream.bayes.counts import CLASSES
from nbstream.policy.budget import budget_promise

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from nbstream.filter import FilterPolicy
    from nbstream.store.connection import Primary
    from nbstream.store.replica.mirror import Mirror


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
