"""Thresholds and verdicts.

A verdict is a decision under unequal costs. With a cost ratio c of a lost ham to a passed spam, the Bayes decision
calls a message spam from P(spam) >= c / (1 + c) on (Duda, Hart, Stork, Pattern Classification, 2.2). Below
``unsure`` a message is ham. Between the two thresholds it is unsure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from enum import StrEnum
from functools import cached_property, lru_cache

SPAM_THRESHOLD = 0.99
"""The P(spam) from which a message is called spam by default.

A lost message is taken to be as bad as 19 passed spam or more. If P were exact in every regime, 0.95 would be the
threshold for 19. It is not where people label little and late: over four streams and seven regimes the cost is the
least with 0.99. See docs/experiments.md, "The default threshold".
"""


UNLIKE_SPAM = "unlike learned spam"
"""The reason of a message that would be spam, were it not unlike learned spam; see ``bayes.novelty``."""


class Verdict(StrEnum):
    """What a message is called."""

    HAM = "ham"
    UNSURE = "unsure"
    SPAM = "spam"
    REJECT = "reject"

    @property
    def is_spam(self) -> bool:
        """True for spam, whether it is refused or not."""
        return self in {Verdict.SPAM, Verdict.REJECT}


@dataclass(frozen=True)
class ModelState:
    """How much a model has learned: the distinct messages of each class, and how many it needs.

    ``kept`` of the learned ham were labelled by nobody: they are implicit ham; see ``policy.autolearn``.
    """

    learned: Mapping[str, int]
    needed: Mapping[str, int] = field(default_factory=dict)
    kept: int = 0

    @cached_property
    def is_learning(self) -> bool:
        """True until each class has as many messages as it needs."""
        return any(self.learned.get(label, 0) < count for label, count in self.needed.items())

    def __str__(self) -> str:
        """Return ``ready``, or ``learning N/M`` where N of the M needed messages are learned."""
        if not self.is_learning:
            return "ready"
        learned = sum(min(self.learned.get(label, 0), count) for label, count in self.needed.items())
        text = f"learning {learned}/{sum(self.needed.values())}"
        if not self.kept:
            return text
        missing_without = self.needed.get("ham", 0) - (self.learned["ham"] - self.kept)
        return f"{text}, {min(self.kept, missing_without)} of them implicit ham"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The P(spam) from which a message is called unsure, spam, or (where set) refused, at one moment.

    An infinite threshold is never reached. ``guarantee`` says in words what is guaranteed of the budgets, or why
    nothing is. ``guaranteed`` is true while ``spam`` keeps a budget. Raises ValueError where the order is wrong.
    """

    unsure: float = 0.5
    spam: float = SPAM_THRESHOLD
    reject: float | None = None
    guarantee: str = ""
    guaranteed: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.unsure <= self.spam <= (math.inf if self.reject is None else self.reject):
            raise ValueError(f"thresholds out of order: {self}")


def contradicts_label(label: str, probability: float, thresholds: Thresholds, state: ModelState) -> bool:
    """Return whether P(spam) is on the other side of ``unsure`` than ``label``.

    While the model is learning, nothing contradicts a label.
    """
    if state.is_learning:
        return False
    return (probability >= thresholds.unsure) != (label == "spam")


def is_discounted(probability: float, thresholds: Thresholds, state: ModelState, full: float) -> bool:
    """Return whether P(spam) is below the threshold for spam, and the ``full`` one, without discount, is not."""
    return probability < thresholds.spam <= full and not state.is_learning


def decide_verdict(
    probability: float, thresholds: Thresholds, state: ModelState, full: float = 0.0
) -> tuple[Verdict, str]:
    """Return the verdict and its reason, a short ASCII text; ``full`` is P(spam) without the discount."""
    if state.is_learning:
        return Verdict.UNSURE, str(state)
    verdict, reason = _compare_thresholds(probability, thresholds)
    if is_discounted(probability, thresholds, state, full):
        verdict, reason = Verdict.UNSURE, f"{reason}; {UNLIKE_SPAM}"
    return verdict, f"{reason}; {thresholds.guarantee}" if thresholds.guarantee else reason


def _compare_thresholds(probability: float, thresholds: Thresholds) -> tuple[Verdict, str]:
    if thresholds.reject is not None and probability >= thresholds.reject:
        return Verdict.REJECT, f"probability >= {format_threshold(thresholds.reject)} (reject)"
    if probability >= thresholds.spam:
        return Verdict.SPAM, f"probability >= {format_threshold(thresholds.spam)} (spam)"
    if probability < thresholds.unsure:
        return Verdict.HAM, f"probability < {format_threshold(thresholds.unsure)} (unsure)"
    if math.isinf(thresholds.spam):
        return Verdict.UNSURE, f"probability >= {format_threshold(thresholds.unsure)} (unsure)"
    return (
        Verdict.UNSURE,
        f"{format_threshold(thresholds.unsure)} (unsure) <= probability "
        f"< {format_threshold(thresholds.spam)} (spam)",
    )


@lru_cache(maxsize=64)  # all checks have the same few thresholds
def format_threshold(probability: float) -> str:
    """Return a threshold with six digits, or as ``1-X`` where six digits would round it to 1."""
    if probability > 1:
        return "never"
    rounded = f"{probability:g}"
    return rounded if float(rounded) < 1 or probability == 1 else f"1-{1 - probability:.2g}"


def shorten_probability(probability: float, digits: int) -> str:
    """Return P(spam) with so many digits behind the point, rounded down.

    A verdict holds from its threshold on: so what is below a threshold of so many digits is shown below it.
    """
    return str(Decimal(repr(probability)).quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR))


# What happens to a message because of its verdict: pass, redirect, quarantine, defer or reject.
#
# Rules: no message is ever dropped. Actions are ordered, and the mildest comes first. Where one action has to hold
# for recipients that would get different ones, it is the mildest of these; the order of the recipients does not
# matter.

_ADDRESS = re.compile(r"[!-;=?A-~]{1,64}@[!-;=?A-~]{1,253}")


class ActionKind(StrEnum):
    """The kinds of actions, the mildest first."""

    PASS = "pass"  # noqa: S105 - no password
    REDIRECT = "redirect"
    QUARANTINE = "quarantine"
    DEFER = "defer"
    REJECT = "reject"

    @property
    def takes_message(self) -> bool:
        """True where we accept the message; else the client keeps it."""
        return self not in {ActionKind.DEFER, ActionKind.REJECT}

    @property
    def severity_rank(self) -> int:
        """The place of the kind in the order of severity; 0 is the mildest."""
        return _SEVERITY_RANKS[self]


_SEVERITY_RANKS = {kind: rank for rank, kind in enumerate(ActionKind)}


@dataclass(frozen=True, slots=True)
class Action:
    """One action. ``address`` is where a message is redirected to; it is empty for the other kinds."""

    kind: ActionKind
    address: str = ""

    @classmethod
    def parse(cls, text: str) -> Action:
        """Return the action that ``text`` names. Raises ValueError, "must be ...", for any other text."""
        word, colon, address = text.partition(":")
        if word == ActionKind.REDIRECT:
            if not _ADDRESS.fullmatch(address):
                raise ValueError("must be redirect:ADDRESS with a mail address such as redirect:abuse@example.org")
            return cls(ActionKind.REDIRECT, address)
        if colon or word not in set(ActionKind):
            raise ValueError("must be pass, quarantine, redirect:ADDRESS, reject or defer")
        return cls(ActionKind(word))

    def __str__(self) -> str:
        return f"{self.kind}:{self.address}" if self.address else str(self.kind)
