"""The regimes: which labels the filter learns, and when.

Rules: ``due_labels`` is called once for each message, in the order of the stream, after the message was scored. A
label that is still delayed at the end of the stream is never learned. A regime draws nothing at random: a case
brings its own draw, so that a message has the same draw in every regime, whatever the verdicts are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.filter import Check
    from nbstream.mail.message import Message

_Case = TypeVar("_Case")


@dataclass(frozen=True, slots=True)
class LabelledCheck:
    """A message, the label that a person would give to it, and its check before that.

    ``position`` is that of the message in the stream, counted from 1. ``draw`` is a random number from [0, 1) that
    belongs to the message.
    """

    message: Message
    label: str
    check: Check
    position: int = 1
    draw: float = 0.0

    @property
    def is_misplaced(self) -> bool:
        """Whether the message lies in the wrong folder: ham in Junk, or spam (unsure spam too) in the inbox."""
        return self.check.verdict.is_spam != (self.label == "spam")

    @property
    def is_contradiction(self) -> bool:
        """Whether the model has learned enough to decide, and P(spam) is on the other side of ``unsure``."""
        return not self.check.state.is_learning and not self.agrees_with(self.check)

    def agrees_with(self, check: Check) -> bool:
        """Whether the label and the P(spam) of ``check`` are on the same side of ``unsure``."""
        return (check.probability >= check.thresholds.unsure) == (self.label == "spam")


class LabelRegime(Protocol):
    """A rule about which labels are learned, and when."""

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """Return the cases whose labels are to be learned now, after ``case`` was scored."""


class Delay(Generic[_Case]):
    """A line in which each case waits until ``count`` others have come after it; with 0 none waits."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._waiting: deque[_Case] = deque()

    def pass_through(self, case: _Case) -> Sequence[_Case]:
        """Put a case at the end of the line, and return the one that has waited long enough, if there is one."""
        self._waiting.append(case)
        return [self._waiting.popleft()] if len(self._waiting) > self._count else []


class DelayedLabels:
    """Every label is learned when ``delay`` other messages have been scored; with 0 at once."""

    def __init__(self, delay: int) -> None:
        self._delay: Delay[LabelledCheck] = Delay(delay)

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """Return the case of ``delay`` messages ago."""
        return self._delay.pass_through(case)


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


@dataclass(frozen=True, slots=True)
class InboxHabits:
    """What a person does with mail in the wrong folder, and says nothing else.

    ``junked`` is the probability that spam in the inbox is moved to Junk, ``rescued`` the probability that ham in
    Junk is moved to the inbox. Either is done when ``delay`` other messages have come.
    """

    junked: float = 0.3
    rescued: float = 0.3
    delay: int = 50

    @classmethod
    def parse(cls, text: str) -> InboxHabits:
        """Return the habits of ``P,Q,DELAY``, the default ones of an empty text. Raises ``ValueError``."""
        if not text:
            return cls()
        junked, rescued, delay = text.split(",")
        return cls(float(junked), float(rescued), int(delay))

    def moves(self, label: str, draw: float) -> bool:
        """Whether a message with this label is moved, once it lies in the wrong folder."""
        return draw < (self.junked if label == "spam" else self.rescued)


class InboxLabels:
    """Labels of messages that a person moves out of the wrong folder: a share of them, some messages later."""

    def __init__(self, habits: InboxHabits) -> None:
        self._habits = habits
        self._delay: Delay[LabelledCheck] = Delay(habits.delay)

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """Return the case of ``delay`` messages ago, if its message lay in the wrong folder and is moved now."""
        return [
            passed
            for passed in self._delay.pass_through(case)
            if passed.is_misplaced and self._habits.moves(passed.label, passed.draw)
        ]


class TaughtFirst:
    """Every label of the first ``count`` messages at once, as of old mail; then those of another regime."""

    def __init__(self, count: int, then: LabelRegime) -> None:
        self._count = count
        self._then = then

    def due_labels(self, case: LabelledCheck) -> Sequence[LabelledCheck]:
        """Return the case itself if it is one of the first, else the cases of the other regime."""
        return [case] if case.position <= self._count else self._then.due_labels(case)


def parse_regime(name: str, taught: int = 0) -> LabelRegime:
    """Return a regime by its name. All labels of the first ``taught`` messages are learned before it begins.

    The names are ``immediate``, ``delayed:N``, ``errors``, ``unsure``, ``inbox``, ``inbox:P,Q,DELAY``, ``first:N``
    and ``none``. Raises ``ValueError`` for another name.
    """
    return TaughtFirst(count_taught(name, taught), _regime_after_taught(name))


def count_taught(name: str, taught: int) -> int:
    """Return how many messages are taught with all their labels: N of the regime ``first:N``, else ``taught``."""
    kind, _, count = name.partition(":")
    return int(count) if kind == "first" else taught


def _regime_after_taught(name: str) -> LabelRegime:
    kind, _, argument = name.partition(":")
    match kind, argument:
        case "delayed", _:
            return DelayedLabels(int(argument))
        case "immediate", "":
            return DelayedLabels(0)
        case "errors" | "unsure", "":
            return CorrectionLabels(unsure=kind == "unsure")
        case "inbox", _:
            return InboxLabels(InboxHabits.parse(argument))
        case ("first", _) | ("none", ""):
            return NoLabels()
    raise ValueError(f"no regime is called {name}")
