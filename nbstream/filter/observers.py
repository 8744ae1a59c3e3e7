"""Observers of the filter that others are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nbstream.filter.protocols import SilentObserver
from nbstream.store.recent.checked_messages import CheckedMessage

if TYPE_CHECKING:
    from nbstream.filter.protocols import FilterObserver
    from nbstream.filter.results import Check, CheckSeconds, Lesson
    from nbstream.store.recent.checked_messages import BuildExplanation
    from nbstream.tokens.tokenizer import Tokens


class CompositeObserver:
    """Reports to several observers, in their order."""

    def __init__(self, *observers: FilterObserver) -> None:
        self._observers = observers

    def checked(self, check: Check, tokens: Tokens, seconds: CheckSeconds) -> None:
        """Tell each."""
        for each in self._observers:
            each.checked(check, tokens, seconds)

    def feedback_taken(self, lesson: Lesson, source: str, actor: str) -> None:
        """Tell each."""
        for each in self._observers:
            each.feedback_taken(lesson, source, actor)

    def feedback_failed(self, label: str | None, source: str) -> None:
        """Tell each."""
        for each in self._observers:
            each.feedback_failed(label, source)

    def store_refused(self) -> None:
        """Tell each."""
        for each in self._observers:
            each.store_refused()


class RememberingObserver(SilentObserver):
    """Has each checked message remembered, and why it was called what it was called."""

    def __init__(self, remember: Callable[[CheckedMessage, BuildExplanation], None]) -> None:
        self._remember = remember

    def checked(self, check: Check, tokens: Tokens, seconds: CheckSeconds) -> None:
        """One message was checked."""
        checked = CheckedMessage(check.id, tokens, check.probability, str(check.verdict), check.policy)
        self._remember(checked, check.explain)
