"""The regimes: which labels the filter learns, and when.

Rules: a regime is called once for each message, in the order of the stream, after the message was scored. A
label that is still delayed at the end of the stream is never learned. A regime draws nothing at random: a case
brings its own draw, so that a message has the same draw in every regime, whatever the verdicts are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbstream.filter import Check
    from nbstream.mail.message import Message


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


LabelRegime: TypeAlias = "Callable[[LabelledCheck], Sequence[LabelledCheck]]"
"""Takes a case that was scored, and returns the cases whose labels are to be learned now."""


_INBOX = "0.3,0.3,50"
"""The shares of spam in the inbox that is moved and of ham in Junk that is rescued, and the delay in messages."""

_SPAM_ONLY = "0.3,50,200"
"""The share of spam in the inbox that is moved, after how many messages, and after how many it is kept."""


def messages_until_kept(name: str) -> int | None:
    """Return after how many other messages one that nobody moved counts as kept; None where that says nothing."""
    kind, _, argument = name.partition(":")
    return _count((argument or _SPAM_ONLY).split(",")[2]) if kind == "spam-only" else None


def parse_regime(name: str, taught: int = 0) -> LabelRegime:
    """Return a regime by its name. All labels of the first ``taught`` messages are learned before it begins.

    The names are ``immediate``, ``delayed:N``, ``errors``, ``unsure``, ``inbox``, ``inbox:P,Q,DELAY``,
    ``spam-only``, ``spam-only:P,DELAY,KEEP``, ``first:N`` and ``none``. Raises ``ValueError`` for another name.
    """
    count, regime = count_taught(name, taught), _regime_after_taught(name)
    return lambda case: [case] if case.position <= count else regime(case)


def count_taught(name: str, taught: int) -> int:
    """Return how many messages are taught with all their labels: N of the regime ``first:N``, else ``taught``."""
    kind, _, count = name.partition(":")
    return _count(count) if kind == "first" else taught


def _regime_after_taught(name: str) -> LabelRegime:
    kind, _, argument = name.partition(":")
    match kind, argument:
        case "delayed", _:
            return _delayed(_count(argument))
        case "immediate", "":
            return _delayed(0)
        case "errors" | "unsure", "":
            return _corrections(unsure=kind == "unsure")
        case "inbox", _:
            junked, rescued, delay = (argument or _INBOX).split(",")
            return _moved(_share(junked), _share(rescued), _count(delay))
        case "spam-only", _:
            junked, delay, kept_after = (argument or _SPAM_ONLY).split(",")
            _count(kept_after)
            return _moved(_share(junked), 0.0, _count(delay))
        case ("first", _) | ("none", ""):
            return lambda _: []
    raise ValueError(f"no regime is called {name}")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text} is no whole number")
    return int(text)


def _share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        raise ValueError(f"{text} is no number from 0 to 1")
    return float(text)


def _delayed(count: int) -> LabelRegime:
    """Return the regime that learns every label when ``count`` other messages have been scored; with 0 at once."""
    waiting: deque[LabelledCheck] = deque()

    def due_labels(case: LabelledCheck) -> Sequence[LabelledCheck]:
        waiting.append(case)
        return [waiting.popleft()] if len(waiting) > count else []

    return due_labels


def _corrections(*, unsure: bool) -> LabelRegime:
    """Return the regime that learns labels of wrong verdicts, with ``unsure`` of unsure ones too.

    While the model is learning, all labels are learned.
    """

    def due_labels(case: LabelledCheck) -> Sequence[LabelledCheck]:
        verdict = case.check.verdict
        wrong = verdict.is_spam if case.label == "ham" else verdict is Verdict.HAM
        corrected = wrong or (unsure and verdict is Verdict.UNSURE)
        return [case] if corrected or case.check.state.is_learning else []

    return due_labels


def _moved(junked: float, rescued: float, delay: int) -> LabelRegime:
    """Return the regime of a person who moves mail out of the wrong folder, and says nothing else.

    Spam in the inbox is moved with the probability ``junked``, ham in Junk with ``rescued``, when ``delay`` other
    messages have come.
    """
    delayed = _delayed(delay)
    return lambda case: [
        passed
        for passed in delayed(case)
        if passed.is_misplaced and passed.draw < (junked if passed.label == "spam" else rescued)
    ]
