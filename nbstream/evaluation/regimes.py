"""The regimes: which labels a filter is given, and when.

Rules: a regime is asked once for each message, in the order of the stream, when the message has been scored. A
label that it holds back at the end of the stream is never given.
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
    """A message, the label that a person would give it, and the check before that."""

    message: Message
    label: str
    check: Check


class LabelRegime(Protocol):
    """Who gives labels, and when."""

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """Whose labels are learned now that ``case`` has been scored."""


class DelayedLabels:
    """Every label, ``delay`` messages later: when as many others have been scored. With 0 at once."""

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._waiting: deque[LabelledCheck] = deque()

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """The case of ``delay`` messages ago."""
        self._waiting.append(case)
        return [self._waiting.popleft()] if len(self._waiting) > self._delay else []


class CorrectionLabels:
    """What a person sees to be wrong, or ``unsure`` too; every label while the model does not decide yet."""

    def __init__(self, *, unsure: bool) -> None:
        self._unsure = unsure

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """The case itself, if its label is given."""
        verdict = case.check.verdict
        if case.check.state.is_learning or (self._unsure and verdict is Verdict.UNSURE):
            return [case]
        wrong = verdict.is_spam if case.label == "ham" else verdict is Verdict.HAM
        return [case] if wrong else []


class NoLabels:
    """No label at all: an untaught model."""

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """Nothing."""
        return []


def parse_regime(name: str) -> LabelRegime:
    """The regime ``immediate``, ``delayed:N``, ``errors``, ``unsure`` or ``none``; ``ValueError`` for another."""
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
