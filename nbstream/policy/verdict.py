"""Thresholds and verdicts.

A verdict is a decision under unequal costs: with a cost ratio c of a lost ham to a passed spam, the Bayes
decision calls spam from P(spam) >= c / (1 + c) on, 0.95 for c = 19 (Duda, Hart, Stork, Pattern
Classification, 2.2). Below ``unsure`` a message is ham, between the two nobody is asked to be certain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache


class Verdict(StrEnum):
    """What a message is called."""

    HAM = "ham"
    UNSURE = "unsure"
    SPAM = "spam"
    REJECT = "reject"

    @property
    def is_spam(self) -> bool:
        """True for spam, refused or not."""
        return self in {Verdict.SPAM, Verdict.REJECT}


@dataclass(frozen=True, slots=True)
class ModelState:
    """How much a model has learned: distinct labelled messages per class, and how many it needs."""

    learned: Mapping[str, int]
    needed: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_learning(self) -> bool:
        """True until each class has the messages it needs."""
        return any(self.learned.get(label, 0) < count for label, count in self.needed.items())

    def __str__(self) -> str:
        """``ready``, or ``learning N/M``: N of the M needed messages are known."""
        if not self.is_learning:
            return "ready"
        known = sum(min(self.learned.get(label, 0), count) for label, count in self.needed.items())
        return f"learning {known}/{sum(self.needed.values())}"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """P(spam) from which a message is called unsure, spam, or (where set) refused, at one moment.

    An infinite one is never reached. ``promise`` says in words what is promised of a budget, or why nothing is;
    ``promised`` is true while ``spam`` keeps one.
    """

    unsure: float = 0.5
    spam: float = 0.95
    reject: float | None = None
    promise: str = ""
    promised: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.unsure <= self.spam <= (math.inf if self.reject is None else self.reject):
            raise ValueError(f"thresholds out of order: {self}")


def decide_verdict(probability: float, thresholds: Thresholds, state: ModelState) -> tuple[Verdict, str]:
    """The verdict and its reason, a short ASCII text."""
    if state.is_learning:
        return Verdict.UNSURE, str(state)
    verdict, reason = _compare_thresholds(probability, thresholds)
    return verdict, f"{reason}; {thresholds.promise}" if thresholds.promise else reason


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


@lru_cache(maxsize=64)  # the same few for every check
def format_threshold(probability: float) -> str:
    """A threshold with six digits, or as what it lacks to 1 where that would round it to 1."""
    if probability > 1:
        return "never"
    rounded = f"{probability:g}"
    return rounded if float(rounded) < 1 or probability == 1 else f"1-{1 - probability:.2g}"
