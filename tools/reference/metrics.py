"""The reference of the metrics: name, type, labels and meaning of each, from the collectors of a daemon.

The gauges of the model read a substitute that has every value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import Totals
from nbstream.correspondents.store import Correspondents
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.filter import FilterPolicy
from nbstream.filter.metrics import AutolearnGauges, ModelGauges
from nbstream.filter.own_models.metrics import OwnModelMetrics
from nbstream.filter.own_models.store import OwnModels
from nbstream.listeners.dovecot.learner import SpoolMetrics
from nbstream.listeners.stream.listener import StreamMetrics
from nbstream.policy.thresholds import PrequentialScores, ThresholdPolicy
from nbstream.store.connection import Primary
from nbstream.store.follower.counts import FollowedCounts
from nbstream.web.metrics import RequestMetrics
from nbstream.web.user.links import LinkMetrics
from nbstream.web.users.digests import DigestMetrics
from tools.reference.markup import NOTICE, Undocumented, definitions, plain


@dataclass(frozen=True, slots=True)
class ExportedMetric:
    """One metric, by the name of its series (of a histogram without ``_bucket``, ``_sum`` and ``_count``)."""

    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    """The attributes of a follower that the gauges read once the counts are loaded."""

    totals: Totals = field(default_factory=Totals)
    automatic_totals: Totals = field(default_factory=Totals)
    lag_seconds: float = 0.0
    is_current: bool = True
    loaded_prequential_scores: PrequentialScores = field(default_factory=PrequentialScores)


@dataclass(frozen=True, slots=True)
class _LoadedOwnModels:
    """The attributes of own models that their metrics read."""

    cached: int = 0
    bytes_used: int = 0
    loads: int = 0


@dataclass(frozen=True, slots=True)
class _KnownFacts:
    """The attributes of what is known of correspondents that its metrics read."""

    answers: tuple[()] = ()
    senders: tuple[()] = ()

    def known_now(self) -> _KnownFacts:
        return self


def metrics() -> list[ExportedMetric]:
    """Return all metrics that a daemon can export, sorted by name. Raises ``Undocumented``."""
    counts = cast("FollowedCounts", _LoadedModel())
    policy = FilterPolicy(ThresholdPolicy(max_false_positive_rate=0.01), dict.fromkeys(CLASSES, 50))
    daemon = DaemonMetrics.create(PYTHON)
    RequestMetrics.of_administrators(daemon.registry)
    RequestMetrics.of_users(daemon.registry)
    DigestMetrics(daemon.registry)
    LinkMetrics(daemon.registry)
    SpoolMetrics(daemon.registry)
    StreamMetrics(daemon.registry)
    ModelGauges(daemon.registry, counts, Primary(), lambda: policy)
    AutolearnGauges(daemon.registry, counts)
    OwnModelMetrics(daemon.registry, cast("OwnModels", _LoadedOwnModels()))
    daemon.correspondents.show(cast("Correspondents", _KnownFacts()))
    daemon.process.set_policy("")
    return sorted(exported(daemon.registry.counts), key=lambda metric: metric.name)


def exported(registry: CollectorRegistry) -> Iterator[ExportedMetric]:
    """Yield the metrics of the registry. Raises ``Undocumented``."""
    # The library has no public list of collectors, and a family has no label names before its first series.
    for metric in registry._collector_to_names:
        assert isinstance(metric, MetricWrapperBase)
        for family in metric.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            if not family.documentation.endswith("."):
                raise Undocumented(f"the metric {name} has no help that is a sentence")
            yield ExportedMetric(name, family.type, tuple(metric._labelnames), family.documentation)


def page() -> str:
    """Return the page as Markdown."""
    entries = [
        (
            metric.name,
            ", ".join((metric.type, *(f"`{label}`" for label in metric.labels))),
            plain(metric.meaning),
        )
        for metric in metrics()
    ]
    return NOTICE + _INTRODUCTION + "\n" + definitions(entries) + _CLOSING


_INTRODUCTION = """
# Metrics

`/metrics` exports these in Prometheus's text format, at the HTTP listener and, where it is open, at the
[metrics listener](settings.md#listenersmetrics). In parentheses stand the type and the labels.
"""

_CLOSING = """
With several [workers](settings.md#top-of-the-file) each listener exports the metrics of all of them: counters and
histograms are sums, `nbstream_follower_lag_seconds` and `nbstream_redis_up` are of the worst worker, sizes of the
largest.
"""
