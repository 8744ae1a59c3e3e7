"""The outcome of thresholds in words and numbers: what is in force beside what somebody tries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbstream.evaluation.intervals import wilson_interval
from nbstream.policy.verdict import format_threshold

if TYPE_CHECKING:
    from nbstream.evaluation.intervals import IntervalEstimate
    from nbstream.evaluation.threshold_choices import ThresholdChoice
    from nbstream.evaluation.tuning import ErrorCounts
    from nbstream.policy.verdict import Thresholds

_NEVER = {"spam": "never called spam", "reject": "never rejected"}
_HAM_DIGITS, _SPAM_DIGITS = 3, 2  # of percents, as in the table of ``tune``


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of an outcome in words: its value, and its 95 % interval."""

    value: str
    interval: str


def outcome_measures(choice: ThresholdChoice, cost_ratio: float) -> Mapping[str, Measure]:
    """Return the measures of a choice by their names, in the order in which they are shown."""
    errors, unsure, rejected = choice.error_counts, choice.unsure_counts, choice.rejected_counts
    return {
        **error_measures(errors),
        "ham_rejected": share_measure(rejected.ham, errors.ham, _HAM_DIGITS),
        "spam_rejected": share_measure(rejected.spam, errors.spam, _SPAM_DIGITS),
        "ham_unsure": share_measure(unsure.ham, errors.ham, _HAM_DIGITS),
        "spam_unsure": share_measure(unsure.spam, errors.spam, _SPAM_DIGITS),
        "cost": _estimate_measure(errors.relative_cost(cost_ratio)),
    }


def error_measures(errors: ErrorCounts) -> Mapping[str, Measure]:
    """Return ham lost and spam missed at one threshold."""
    return {
        "ham_lost": share_measure(int(errors.ham_called_spam[0]), errors.ham, _HAM_DIGITS),
        "spam_missed": share_measure(int(errors.spam_missed[0]), errors.spam, _SPAM_DIGITS),
    }


def share_measure(count: int, total: int, digits: int) -> Measure:
    """Return how many of a class, and Wilson's interval of the share, with so many digits of percents."""
    if not total:
        return Measure("not known", "")
    low, high = (float(end[0]) for end in wilson_interval(np.array([float(count)]), total))
    percent = format_percent(count / total, digits)
    return Measure(f"{count:,} of {total:,}, {percent}", _interval(low, high, digits))


def _estimate_measure(estimate: IntervalEstimate) -> Measure:
    value, low, high = (float(end[0]) for end in (estimate.value, estimate.lower, estimate.upper))
    if not math.isfinite(value):
        return Measure("not known", "")
    return Measure(format_percent(value, _SPAM_DIGITS), _interval(low, high, _SPAM_DIGITS))


def _interval(low: float, high: float, digits: int) -> str:
    return f"{format_percent(low, digits)} to {format_percent(high, digits)}"


def format_percent(share: float, digits: int) -> str:
    """Return a share in percent."""
    return f"{100 * share:.{digits}f} %"


def changes_sentence(choice: ThresholdChoice, present: ThresholdChoice) -> str:
    """Return what a choice would have changed, and what is promised of its budgets."""
    changes = choice.verdict_changes
    if choice.thresholds == present.thresholds:
        sentence = "These are the thresholds in force."
    elif not changes.messages:
        sentence = "No message is labelled, so nobody knows what these thresholds would have done."
    else:
        sentence = f"These thresholds {changes.to_sentence()}."
    promise = choice.thresholds.promise
    return f"{sentence} {as_sentence(promise)}" if promise else sentence


def as_sentence(words: str) -> str:
    """Return words of the command line as a sentence of the page."""
    return f"{words[:1].upper()}{words[1:]}."


def threshold_texts(thresholds: Thresholds) -> Mapping[str, str]:
    """Return in words from which P(spam) each verdict is given, by the names of the thresholds."""
    reject = math.inf if thresholds.reject is None else thresholds.reject
    return {
        name: f"{name} from {format_threshold(p)}" if math.isfinite(p) else _NEVER[name]
        for name, p in (("unsure", thresholds.unsure), ("spam", thresholds.spam), ("reject", reject))
    }
