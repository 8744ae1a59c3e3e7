"""The parts of a daemon that learn without people, beside those that people teach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.assembly import assembly
from nbstream.filter import AutoLayer, Autolearner, Settler
from nbstream.store.replica.mirror import Mirror

if TYPE_CHECKING:
    from nbstream.assembly.assembly import Store
    from nbstream.config import Settings
    from nbstream.metrics.metrics import Metrics
    from nbstream.store.model.autolearn_layer import Layer
    from nbstream.store.model.model import Model


@dataclass(frozen=True, slots=True)
class Beside:
    """The layer that is learned without people, and what learns it."""

    model: Layer
    mirror: Mirror
    layer: AutoLayer
    learner: Autolearner
    settler: Settler

    @classmethod
    def of(cls, settings: Settings, store: Store, model: Model, mirror: Mirror, metrics: Metrics) -> Beside:
        """The parts beside ``model`` and its ``mirror``."""
        layer_model = assembly.auto_model(settings, store.client)
        layer_mirror = Mirror(
            assembly.auto_model(settings, store.follower),
            settings.redis.timeout_seconds,
            store.embedded.ensure_running if store.embedded else None,
        )
        metrics.watch_layer(layer_mirror)
        layer = AutoLayer(layer_model, layer_mirror)
        learner = assembly.autolearner(settings, model, mirror, layer, metrics.autolearned)
        return cls(layer_model, layer_mirror, layer, learner, Settler(layer, lambda: layer_model.disputed(model)))

    def parts(self, *, settling: bool) -> dict[str, Mirror | Autolearner | Settler]:
        """Those that run, by the names of their tasks; one process of those that share a model is to settle."""
        settlers = {"settler": self.settler} if settling else {}
        return {"auto mirror": self.mirror, "autolearner": self.learner, **settlers}
