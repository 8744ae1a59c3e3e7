"""The regimes: which labels the filter learns, and when.

Rules: ``due_labels`` is called once for each message, in the order of the stream, after the message was scored. A
label that is still delayed at the end of the stream is never learned.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.filter import Check
    from nbstream.mail.message import Message


@dataclass(frozen=True, slots=True)
class LabelledCheck:
    """A message, the label that a person would give to it, and its check before that."""

    message: Message
    label: str
    check: Check


class LabelRegime(Protocol):
    """A rule about which labels are learned, and when."""

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """Return the cases whose labels are to be learned now, after ``case`` was scored."""


class DelayedLabels:
    """Every label is learned when ``delay`` other messages have been scored; with 0 at once."""

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._waiting: deque[LabelledCheck] = deque()

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """Return the case of ``delay`` messages ago."""
        self._waiting.append(case)
        return [self._waiting.popleft()] if len(self._waiting) > self._delay else []


class CorrectionLabels:
    """Labels of wrong verdicts, with ``unsure`` of unsure ones too; all labels while the model is learning."""

    def __init__(self, *, unsure: bool) -> None:
        self._unsure = unsure

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """Return the case itself, if its label is to be learned."""
        verdict = case.check.verdict
        if case.check.state.is_learning or (self._unsure and verdict is Verdict.UNSURE):
            return [case]
        wrong = verdict.is_spam if case.label == "ham" else verdict is Verdict.HAM
        return [case] if wrong else []


class NoLabels:
    """No label is learned, so the model stays as it was."""

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """Return no case."""
        return []


def parse_regime(name: str) -> LabelRegime:
    """Return the regime ``immediate``, ``delayed:N``, ``errors``, ``unsure`` or ``none``.

    Raises ``ValueError`` for another name.
    """
    kind, _, delay = name.partition(":")
    match kind, delay:
        case "delayed", _:
            return DelayedLabels(int(delay))
        case "immediate", "":
            return DelayedLabels(0)
        case "errors" | "unsure", "":
            return CorrectionLabels(unsure=kind == "unsure")
        case "none", "":
            return NoLabels()
    raise ValueError(f"no regime is called {name}")
