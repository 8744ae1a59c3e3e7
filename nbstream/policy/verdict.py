"""Thresholds and verdicts.

A verdict is a decision under unequal costs: with a cost ratio c of a lost ham to a passed spam, the Bayes
decision calls spam from P(spam) >= c / (1 + c) on, 0.95 for c = 19 (Duda, Hart, Stork, Pattern
Classification, 2.2). Below ``unsure`` a message is ham, between the two nobody is asked to be certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
    def learning(self) -> bool:
        """True until each class has the messages it needs."""
        return any(self.learned.get(label, 0) < count for label, count in self.needed.items())

    def __str__(self) -> str:
        """``ready``, or ``learning N/M``: N of the M needed messages are known."""
        if not self.learning:
            return "ready"
        known = sum(min(self.learned.get(label, 0), count) for label, count in self.needed.items())
        return f"learning {known}/{sum(self.needed.values())}"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """P(spam) from which a message is called unsure, spam, or (where set) refused."""

    unsure: float = 0.5
    spam: float = 0.95
    reject: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.unsure <= self.spam <= (1.0 if self.reject is None else self.reject) <= 1:
            raise ValueError(f"thresholds out of order: {self}")


def decide(probability: float, thresholds: Thresholds, state: ModelState) -> tuple[Verdict, str]:
    """The verdict and its reason, a short ASCII text."""
    if state.learning:
        return Verdict.UNSURE, str(state)
    if thresholds.reject is not None and probability >= thresholds.reject:
        return Verdict.REJECT, f"probability >= {thresholds.reject:g} (reject)"
    if probability >= thresholds.spam:
        return Verdict.SPAM, f"probability >= {thresholds.spam:g} (spam)"
    if probability >= thresholds.unsure:
        return Verdict.UNSURE, f"{thresholds.unsure:g} (unsure) <= probability < {thresholds.spam:g} (spam)"
    return Verdict.HAM, f"probability < {thresholds.unsure:g} (unsure)"
