"""Gauges of model, mirror, thresholds, calibration and budgets. Names are a contract."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING

from prometheus_client import Gauge

from nbstream.bayes.counts import CLASSES
from nbstream.metrics import StateGauge
from nbstream.policy.budget import budget_guarantees

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbstream.filter import FilterPolicy
    from nbstream.metrics import MetricsRegistry
    from nbstream.policy.prequential_scores import PrequentialScores
    from nbstream.store.connection import Primary
    from nbstream.store.mirror.mirror import Mirror


class ModelGauges:
    """Gauges of the model, the mirror and the thresholds."""

    def __init__(
        self, registry: MetricsRegistry, mirror: Mirror, primary: Primary, policy: Callable[[], FilterPolicy]
    ) -> None:
        self._mirror = mirror
        self._primary = primary
        self._filter_policy = policy
        self._messages = StateGauge(
            registry, "nbstream_model_messages", "Messages learned and not taken back, by class.", ["class"]
        )
        self._tokens = StateGauge(registry, "nbstream_model_tokens", "Distinct tokens in the vocabulary.")
        self._messages_needed = StateGauge(
            registry,
            "nbstream_model_messages_needed",
            "Messages that the model must have learned before it decides, by class.",
            ["class"],
        )
        self._lag = Gauge(
            "nbstream_mirror_lag_seconds",
            "Seconds since the counts in memory were last known to equal Redis.",
            registry=registry.counts,
            multiprocess_mode="livemax",
        )
        self._redis_up = Gauge(
            "nbstream_redis_up",
            "1 while the change stream is followed and the server is a primary, not a replica.",
            registry=registry.counts,
            multiprocess_mode="livemin",
        )
        self._threshold = StateGauge(
            registry,
            "nbstream_threshold",
            "P(spam) from which a verdict holds, by the name of the threshold: unsure, spam, reject; infinite for "
            "never.",
            ["name"],
        )
        self._budget_guaranteed = StateGauge(
            registry,
            "nbstream_budget_guaranteed",
            "1 while this false-positive rate is guaranteed.",
            ["rate"],
        )
        self._budget_needed = StateGauge(
            registry,
            "nbstream_budget_ham_needed",
            "Ham messages still to be labelled before this false-positive rate can be guaranteed.",
            ["rate"],
        )
        self._prequential_scores = PrequentialScoreGauges(registry)
        registry.refresh_by(self._refresh)

    def _refresh(self) -> None:
        policy, prequential_scores, totals = (
            self._filter_policy(),
            self._mirror.loaded_prequential_scores,
            self._mirror.totals,
        )
        self._messages_needed.set({(label,): policy.min_learned.get(label, 0) for label in CLASSES})
        if totals is not None:
            self._messages.set({(label,): totals.messages[column] for column, label in enumerate(CLASSES)})
            self._tokens.set({(): totals.vocabulary_size})
            self._prequential_scores.set(prequential_scores)
        self._lag.set(self._mirror.lag_seconds)
        self._redis_up.set(self._mirror.following and not self._primary.is_replica)
        thresholds = policy.default_policy.thresholds(prequential_scores)
        named = {"unsure": thresholds.unsure, "spam": thresholds.spam, "reject": thresholds.reject}
        self._threshold.set({(name,): value for name, value in named.items() if value is not None})
        guarantees = budget_guarantees(prequential_scores["ham"], policy.budget_rates)
        self._budget_guaranteed.set(
            {(str(rate),): each.threshold is not None for rate, each in guarantees.items()}
        )
        self._budget_needed.set({(str(rate),): each.ham_missing for rate, each in guarantees.items()})


class AutolearnGauges:
    """Gauges of what was learned without people; without values before the mirror has loaded it."""

    def __init__(self, registry: MetricsRegistry, mirror: Mirror) -> None:
        self._mirror = mirror
        self._messages = StateGauge(
            registry,
            "nbstream_autolearn_messages",
            "Messages learned without people, by class. Only with autolearn.",
            ["class"],
        )
        self._tokens = StateGauge(
            registry,
            "nbstream_autolearn_tokens",
            "Distinct tokens of the messages learned without people. Only with autolearn.",
        )
        registry.refresh_by(self._refresh)

    def _refresh(self) -> None:
        totals = self._mirror.totals
        if totals is None:
            return
        self._messages.set({(label,): totals.messages[column] for column, label in enumerate(CLASSES)})
        self._tokens.set({(): totals.vocabulary_size})


_BIN_EDGES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)


class PrequentialScoreGauges:
    """Gauges of the stored prequential scores, the same in every process; none before the mirror has loaded them.

    A bin is named after its ends: ``0.9-0.95`` is 0.9 <= P(spam) < 0.95, and the last bin includes 1. In a
    calibrated model the number of spam messages in a bin is the sum of the probabilities of its messages.
    """

    def __init__(self, registry: MetricsRegistry) -> None:
        self._messages = StateGauge(
            registry,
            "nbstream_calibration_messages",
            "Labelled messages, by class and by the P(spam) that they had before; bin 0.9-0.95 is 0.9 <= P < "
            "0.95.",
            ["class", "bin"],
        )
        self._expected_spam = StateGauge(
            registry,
            "nbstream_calibration_expected_spam",
            "How many of the labelled messages of a bin should be spam: the sum of their P(spam).",
            ["bin"],
        )

    def set(self, prequential_scores: PrequentialScores) -> None:
        """Set them to what these prequential scores say."""
        messages: dict[tuple[str, ...], float] = {}
        expected: dict[tuple[str, ...], float] = {}
        for low, high in pairwise(_BIN_EDGES):
            name, total = f"{low:g}-{high:g}", 0.0
            for label in CLASSES:
                ascending = prequential_scores[label].ascending_probabilities
                end = len(ascending) if high == _BIN_EDGES[-1] else bisect_left(ascending, high)
                in_bin = ascending[bisect_left(ascending, low) : end]
                messages[label, name] = len(in_bin)
                total += sum(in_bin)
            expected[name,] = total
        self._messages.set(messages)
        self._expected_spam.set(expected)
