"""What became of the messages that a command has taught, in one line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nbstream.errors import StoreIncompatible
from nbstream.filter import describe_lesson, describe_lessons, describe_outcome

if TYPE_CHECKING:
    from nbstream.errors import NbstreamError
    from nbstream.filter import FeedbackResult


class FeedbackSummary:
    """Counts lessons by what became of them, and remembers the last one; ``errors`` get why a message is none.

    ``label`` is the class that the messages are learned into, or None where they are unlearned.
    """

    def __init__(self, errors: list[NbstreamError], label: str | None) -> None:
        self._errors = errors
        self._verb = "learned" if label else "unlearned"
        self._outcomes = Counter[str]()
        self.last: FeedbackResult | None = None

    def add(self, lesson: FeedbackResult | StoreIncompatible) -> None:
        """Count one more lesson, or note why there is none."""
        if isinstance(lesson, StoreIncompatible):
            self._errors.append(lesson)
            return
        self._outcomes[describe_outcome(lesson)] += 1
        self.last = lesson

    def describe(self) -> str:
        """Return one line: the one lesson in detail, or how many came out how."""
        if self.last is None:
            return f"nothing {self._verb}"
        if self._outcomes.total() == 1:
            return f"1 {describe_lesson(self.last)}"
        return describe_lessons(self._outcomes, self.last)
