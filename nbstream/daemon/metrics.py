"""All metrics of one process of the daemon, each group an observer of its own.

Rule: a part of the daemon is given only the observer that it needs, never the whole.
"""

from __future__ import annotations

import platform
import time
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import Counter, Gauge

from nbstream import __version__
from nbstream.correspondents.metrics import CorrespondentMetrics
from nbstream.filter.metrics import FilterMetrics
from nbstream.metrics import MetricsRegistry, StateGauge
from nbstream.server.metrics import DeliveryMetrics
from nbstream.store.metrics import StoreMetrics

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.engine.choice import Engine


# Metrics of the daemon's processes: version, reloads, policy in force, replaced workers. Names are a contract.


class ProcessMetrics:
    """Counts dead workers (for the supervisor) and reloads."""

    def __init__(self, registry: MetricsRegistry, engine: str) -> None:
        self._policy = StateGauge(
            registry, "nbstream_policy_info", "The hash of the active policy, as a label; always 1.", ["hash"]
        )
        self._policy_since = Gauge(
            "nbstream_config_last_success_timestamp_seconds",
            "When the configuration was last applied, at startup or by a reload.",
            registry=registry.counts,
            multiprocess_mode="livemax",
        )
        self._reloads = Counter(
            "nbstream_config_reloads",
            "Reloads of the configuration, by outcome: applied, refused.",
            ["outcome"],
            registry=registry.counts,
        )
        for outcome in ("applied", "refused"):
            self._reloads.labels(outcome)
        self._restarts = Counter(
            "nbstream_worker_restarts",
            "Workers that exited without a SIGTERM and were replaced.",
            registry=registry.counts,
        )
        self._background_failures = Counter(
            "nbstream_background_failures",
            "Failures of background work, by its name. It is retried; mail is not affected.",
            ["work"],
            registry=registry.counts,
        )
        build = Gauge(
            "nbstream_build_info",
            "The running version, its Python and its engine (native, python); always 1.",
            ["version", "python", "engine"],
            registry=registry.counts,
            multiprocess_mode="livemax",
        )
        build.labels(__version__, platform.python_version(), engine).set(1)

    def worker_died(self) -> None:
        """Count a worker that ended without having been asked to."""
        self._restarts.inc()

    def background_failed(self, name: str, failures: int) -> None:
        """Count failures of background work; 0 of them make its counter appear."""
        self._background_failures.labels(name).inc(failures)

    def reloaded(self, applied: bool) -> None:
        """Count a reload of the configuration, by whether it was applied or refused."""
        self._reloads.labels("applied" if applied else "refused").inc()

    def set_policy(self, policy_hash: str) -> None:
        """Note that the policy of this hash is in force from now on."""
        self._policy.set({(policy_hash,): 1})
        self._policy_since.set(time.time())


class DaemonMetrics(NamedTuple):
    """The observers of one process, and the registry that they count in."""

    registry: MetricsRegistry
    filter: FilterMetrics
    delivery: DeliveryMetrics
    store: StoreMetrics
    process: ProcessMetrics
    correspondents: CorrespondentMetrics

    @classmethod
    def create(cls, engine: Engine, shared_folder: Path | None = None) -> DaemonMetrics:
        """Return new metrics of a process with this engine.

        ``shared_folder`` is the folder in which several processes count together.
        """
        registry = MetricsRegistry(shared_folder)
        filter_metrics = FilterMetrics(registry)
        return cls(
            registry,
            filter_metrics,
            DeliveryMetrics(registry, filter_metrics),
            StoreMetrics(registry),
            ProcessMetrics(registry, engine.name),
            CorrespondentMetrics(registry),
        )
