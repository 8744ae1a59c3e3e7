"""The parts of a daemon that learn without people, beside those that people teach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.assembly import assembly
from nbstream.filter import Autolearner, AutolearnLayer, AutolearnReconciler
from nbstream.store.replica.mirror import Mirror

if TYPE_CHECKING:
    from nbstream.assembly.assembly import RedisClients
    from nbstream.config import Settings
    from nbstream.metrics.daemon import DaemonMetrics
    from nbstream.store.model.autolearn_layer import AutolearnModel
    from nbstream.store.model.model import Model


@dataclass(frozen=True, slots=True)
class AutolearnParts:
    """The layer that is learned without people, and what learns it."""

    model: AutolearnModel
    mirror: Mirror
    layer: AutolearnLayer
    learner: Autolearner
    settler: AutolearnReconciler

    @classmethod
    def from_settings(
        cls, settings: Settings, store: RedisClients, model: Model, mirror: Mirror, metrics: DaemonMetrics
    ) -> AutolearnParts:
        """The parts beside ``model`` and its ``mirror``."""
        layer_model = assembly.make_autolearn_model(settings, store.client)
        layer_mirror = Mirror(
            assembly.make_autolearn_model(settings, store.blocking_client),
            settings.redis.timeout_seconds,
            store.embedded.ensure_running if store.embedded else None,
        )
        metrics.watch_autolearned(layer_mirror)
        layer = AutolearnLayer(layer_model, layer_mirror)
        learner = assembly.make_autolearner(settings, model, mirror, layer, metrics.filter.autolearned)
        return cls(
            layer_model,
            layer_mirror,
            layer,
            learner,
            AutolearnReconciler(layer, lambda: layer_model.disputed_messages(model)),
        )

    def runnable_parts(self, *, settling: bool) -> dict[str, Mirror | Autolearner | AutolearnReconciler]:
        """Those that run, by the names of their tasks; one process of those that share a model is to settle."""
        settlers = {"settler": self.settler} if settling else {}
        return {"auto mirror": self.mirror, "autolearner": self.learner, **settlers}
