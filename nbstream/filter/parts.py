"""The parts that a filter is made of, whatever its policy is."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbstream.filter.half_life_monitor import HalfLifeMonitor
from nbstream.filter.protocols import SilentObserver
from nbstream.filter.scorer import Scorer

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbstream.bayes.calibration import Calibration
    from nbstream.bayes.classifier import Classifier
    from nbstream.filter.check_queue import CheckQueue
    from nbstream.filter.protocols import (
        CanarySource,
        CheckedMessageSource,
        CountSource,
        FilterObserver,
        LessonStore,
        WithdrawableLayer,
    )
    from nbstream.filter.results import FilterPolicy
    from nbstream.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterParts:
    """What a filter works with. A filter with another policy has the very same parts.

    ``counts`` are those that people taught; ``model`` is where lessons are stored. ``checked_messages``
    is None where no message is remembered, ``autolearn_layer`` where nothing is learned without people,
    ``check_queue`` where checks do not wait for each other, and ``canaries`` where no message is one. ``clock``
    gives the seconds since the epoch. What is tokenized in a thread passes ``large_messages``: threads that
    compute do not help each other, and each of them holds up the event loop.
    """

    tokenizer: Tokenizer
    classifier: Classifier
    calibration: Calibration
    model: LessonStore
    counts: CountSource
    observer: FilterObserver = field(default_factory=SilentObserver)
    checked_messages: CheckedMessageSource | None = None
    clock: Callable[[], float] = time.time
    autolearn_layer: WithdrawableLayer | None = None
    check_queue: CheckQueue | None = None
    canaries: CanarySource | None = None
    large_messages: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    half_life_monitor: HalfLifeMonitor = field(default_factory=HalfLifeMonitor)

    def make_scorer(self, policy: FilterPolicy) -> Scorer:
        """Return what scores with these parts by a policy."""
        layer_counts = self.autolearn_layer.counts if self.autolearn_layer else None
        return Scorer(self.classifier, self.calibration, self.counts, policy, self.clock, layer_counts)
