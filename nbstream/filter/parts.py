"""The parts of a filter, and the observers that it reports to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbstream.engine.name_numbers import NameNumbers
from nbstream.filter.scorer import Scorer
from nbstream.store.recent.checked_messages import CheckedMessage

if TYPE_CHECKING:
    from nbstream.bayes.calibration import Calibration
    from nbstream.bayes.classifier import Classifier
    from nbstream.filter.canaries import Canaries
    from nbstream.filter.message_counts import CountSource, LessonStore
    from nbstream.filter.own_models.index import UserLabels
    from nbstream.filter.results import CheckSeconds, FeedbackResult, FilterPolicy
    from nbstream.filter.scorer import CheckQueue
    from nbstream.policy.check import Check
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.store.recent.checked_messages import BuildExplanation, RecentMessages
    from nbstream.tokens.tokenizer import Tokenizer


OWN_MODEL_UNAVAILABLE = "?"
"""Stands for the name of an own model that could not be loaded in time; no name is like this."""


class FilterObserver:
    """Receives what the filter reports while it works; each observer overrides what it wants to know."""

    def checked(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None) -> None:
        """Note that one message was checked.

        ``build_envelope`` builds what is known of its envelope, None where nobody knows anything; it takes time
        that a check does not have, so an observer calls it later.
        """

    def feedback_taken(self, lesson: FeedbackResult, source: str) -> None:
        """Note feedback for one message that was taken or changed nothing."""

    def feedback_failed(self, label: str | None, source: str, *, is_refused: bool = False) -> None:
        """Note feedback for one message that could not be stored; ``is_refused``: Redis refused to write it."""


class CompositeObserver(FilterObserver):
    """Passes each report on to several observers, in their order."""

    def __init__(self, *observers: FilterObserver) -> None:
        self._observers = observers

    def checked(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None) -> None:
        """Pass the report on."""
        for observer in self._observers:
            observer.checked(check, seconds, build_envelope)

    def feedback_taken(self, lesson: FeedbackResult, source: str) -> None:
        """Pass the report on."""
        for observer in self._observers:
            observer.feedback_taken(lesson, source)

    def feedback_failed(self, label: str | None, source: str, *, is_refused: bool = False) -> None:
        """Pass the report on."""
        for observer in self._observers:
            observer.feedback_failed(label, source, is_refused=is_refused)


class RememberingObserver(FilterObserver):
    """Remembers each checked message together with its explanation and its envelope."""

    def __init__(self, remember: Callable[[CheckedMessage, BuildExplanation, BuildEnvelope | None], None]) -> None:
        self._remember = remember

    def checked(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None) -> None:
        """Remember the message that was checked."""
        is_listed = check.listed is not None and check.listed.decides
        checked = CheckedMessage(
            check.id,
            check.tokens,
            check.probability,
            str(check.verdict),
            check.policy,
            is_listed,
            check.is_discounted,
        )
        self._remember(checked, check.explain, build_envelope)


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterParts:
    """What a filter works with. A filter with another policy has the very same parts.

    ``counts`` are those that people taught; ``model`` is where lessons are stored. The filter of an own model has
    the counts of the levels above it in ``parents``, the common model first. ``own_model`` is its name: empty for
    the common model, and ``OWN_MODEL_UNAVAILABLE`` where an own model is missing. ``checked_messages`` is None
    where no message is remembered, ``user_labels`` where nobody asks which messages users have labelled in own
    models, ``check_queue`` where checks do not wait for each other, and ``canaries`` where no message is one.
    ``clock`` gives the seconds since the epoch. What is tokenized in a thread passes ``large_messages``: threads
    that compute do not help each other, and each of them holds up the event loop. ``make_name_numbers`` makes what
    numbers the names of lessons that are taught together. ``lesson_groups`` are the tasks that teach lessons
    together at the moment, those of all filters with these parts.
    """

    tokenizer: Tokenizer
    classifier: Classifier
    calibration: Calibration
    model: LessonStore
    counts: CountSource
    observer: FilterObserver = field(default_factory=FilterObserver)
    checked_messages: RecentMessages | None = None
    clock: Callable[[], float] = time.time
    uses_automatic: bool = False
    """Whether checks use what was learned without people."""
    user_labels: UserLabels | None = None
    check_queue: CheckQueue | None = None
    canaries: Canaries | None = None
    large_messages: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    make_name_numbers: Callable[[], NameNumbers] = NameNumbers
    lesson_groups: set[asyncio.Task[None]] = field(default_factory=set)
    parents: tuple[CountSource, ...] = ()
    own_model: str = ""

    def make_scorer(self, policy: FilterPolicy) -> Scorer:
        """Return what scores with these parts by a policy."""
        return Scorer(
            self.classifier,
            self.calibration,
            self.counts,
            policy,
            uses_automatic=self.uses_automatic,
            parents=self.parents,
            is_own_missing=self.own_model == OWN_MODEL_UNAVAILABLE,
        )
