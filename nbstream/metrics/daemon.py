"""All metrics of one process of the daemon, each group an observer of its own.

Rule: a part of the daemon is given only the observer that it needs, never the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.metrics.delivery import DeliveryMetrics
from nbstream.metrics.filter import FeedbackMetrics, FilterMetrics
from nbstream.metrics.model import AutolearnCollector, FirstScoreCollector, ModelCollector
from nbstream.metrics.process import ProcessMetrics
from nbstream.metrics.registry import MetricsRegistry
from nbstream.metrics.store import StoreMetrics

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.engine.choice import Engine
    from nbstream.filter import FilterPolicy
    from nbstream.store.connection import Primary
    from nbstream.store.mirror.mirror import Mirror


@dataclass(frozen=True, slots=True)
class DaemonMetrics:
    """The observers of one process, and the registry that they count in."""

    registry: MetricsRegistry
    feedback: FeedbackMetrics
    filter: FilterMetrics
    delivery: DeliveryMetrics
    store: StoreMetrics
    process: ProcessMetrics

    @classmethod
    def create(cls, engine: Engine, shared_folder: Path | None = None) -> DaemonMetrics:
        """Return new metrics of a process with this engine.

        ``shared_folder`` is the folder in which several processes count together.
        """
        registry = MetricsRegistry(shared_folder)
        feedback = FeedbackMetrics(registry)
        return cls(
            registry,
            feedback,
            FilterMetrics(registry, feedback),
            DeliveryMetrics(registry, feedback),
            StoreMetrics(registry),
            ProcessMetrics(registry, engine.name),
        )

    def watch_model(self, mirror: Mirror, primary: Primary, policy: Callable[[], FilterPolicy]) -> None:
        """Export the state of the model, of its Redis and of the policies in force, read at each scrape."""
        self.registry.state.register(ModelCollector(mirror, primary, policy))
        self.registry.state.register(FirstScoreCollector(mirror, policy))

    def watch_autolearned(self, mirror: Mirror) -> None:
        """Export the state of the layer that is learned without people, read at each scrape."""
        self.registry.state.register(AutolearnCollector(mirror))
