"""What learns without people, from settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.assembly.filter import make_scorer
from nbstream.assembly.store import make_autolearn_model
from nbstream.filter import Autolearner, AutolearnLayer, AutolearnReconciler
from nbstream.policy.autolearn import AutolearnOptions

if TYPE_CHECKING:
    from nbstream.assembly.store import RedisClients
    from nbstream.config import Settings
    from nbstream.filter import CountSource, LessonStore
    from nbstream.metrics.daemon import DaemonMetrics
    from nbstream.store.model.autolearn_layer import AutolearnModel
    from nbstream.store.model.model import Model
    from nbstream.store.replica.mirror import Mirror


@dataclass(frozen=True, slots=True)
class AutolearnParts:
    """The layer that is learned without people, what learns it, and what takes back lessons in dispute."""

    model: AutolearnModel
    mirror: Mirror
    layer: AutolearnLayer
    learner: Autolearner
    reconciler: AutolearnReconciler


def make_autolearn_parts(
    settings: Settings,
    clients: RedisClients,
    model: Model,
    mirror: Mirror,
    layer_mirror: Mirror,
    metrics: DaemonMetrics,
) -> AutolearnParts:
    """Return the parts beside ``model``, which people teach, and its ``mirror``."""
    layer_model = make_autolearn_model(settings, clients.client)
    layer = AutolearnLayer(layer_model, layer_mirror)
    return AutolearnParts(
        layer_model,
        layer_mirror,
        layer,
        make_autolearner(settings, model, mirror, layer, metrics.filter.autolearned),
        AutolearnReconciler(layer, lambda: layer_model.disputed_messages(model)),
    )


def make_autolearner(
    settings: Settings,
    people: LessonStore,
    counts: CountSource,
    layer: AutolearnLayer,
    report_outcome: Callable[[str, str], object] = lambda _label, _outcome: None,
) -> Autolearner:
    """Return what learns without people; ``counts`` are those of ``people`` alone.

    ``report_outcome`` is called with the label and the outcome of each lesson.
    """
    autolearn = settings.autolearn
    assert autolearn is not None
    options = AutolearnOptions(autolearn.ham, autolearn.spam)
    return Autolearner(people, layer, make_scorer(settings, counts), options, report_outcome)
