"""Observers of the filter: several as one, one that remembers checked messages, and one that counts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nbstream.filter.protocols import SilentObserver
from nbstream.store.recent.checked_messages import CheckedMessage

if TYPE_CHECKING:
    from nbstream.filter.protocols import FilterObserver
    from nbstream.filter.results import Check, CheckSeconds, Lesson
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.policy.verdict import Verdict
    from nbstream.store.recent.checked_messages import BuildExplanation
    from nbstream.tokens.tokenizer import Tokens


class CompositeObserver:
    """Passes each report on to several observers, in their order."""

    def __init__(self, *observers: FilterObserver) -> None:
        self._observers = observers

    def checked(
        self, check: Check, tokens: Tokens, seconds: CheckSeconds, build_envelope: BuildEnvelope | None
    ) -> None:
        """Pass the report on."""
        for observer in self._observers:
            observer.checked(check, tokens, seconds, build_envelope)

    def feedback_taken(self, lesson: Lesson, source: str, actor: str) -> None:
        """Pass the report on."""
        for observer in self._observers:
            observer.feedback_taken(lesson, source, actor)

    def feedback_failed(self, label: str | None, source: str) -> None:
        """Pass the report on."""
        for observer in self._observers:
            observer.feedback_failed(label, source)

    def store_refused(self) -> None:
        """Pass the report on."""
        for observer in self._observers:
            observer.store_refused()


class RememberingObserver(SilentObserver):
    """Remembers each checked message together with its explanation and its envelope."""

    def __init__(self, remember: Callable[[CheckedMessage, BuildExplanation, BuildEnvelope | None], None]) -> None:
        self._remember = remember

    def checked(
        self, check: Check, tokens: Tokens, seconds: CheckSeconds, build_envelope: BuildEnvelope | None
    ) -> None:
        """Remember the message that was checked."""
        checked = CheckedMessage(check.id, tokens, check.probability, str(check.verdict), check.policy)
        self._remember(checked, check.explain, build_envelope)


class CountingObserver(SilentObserver):
    """Counts each check; ``count`` is called with the verdict and with how long the check took, in seconds."""

    def __init__(self, count: Callable[[Verdict, float], None]) -> None:
        self._count = count

    def checked(
        self, check: Check, tokens: Tokens, seconds: CheckSeconds, build_envelope: BuildEnvelope | None
    ) -> None:
        """Count the check."""
        self._count(check.verdict, seconds.wait + seconds.tokenize + seconds.score)
