"""A policy in force beside what somebody tries instead of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.evaluation.threshold_report import choice_members
from nbstream.listeners.http.page.charts.det_chart import det_point
from nbstream.listeners.http.page.threshold_outcome import changes_sentence, outcome_measures, threshold_texts
from nbstream.listeners.http.page.threshold_query import (
    FIELDS,
    REJECT,
    REJECT_BUDGET,
    SPAM,
    SPAM_BUDGET,
    UNSURE,
    plain_number,
    rate_value,
    verdict_line,
)
from nbstream.policy.policy import FalsePositiveBudget, Threshold, ThresholdPolicy
from nbstream.policy.verdict import format_threshold

if TYPE_CHECKING:
    from nbstream.evaluation.threshold_choices import ThresholdChoice
    from nbstream.listeners.http.page.threshold_query import ThresholdTrial
    from nbstream.policy.recipient_rules import RecipientRules
    from nbstream.policy.verdict import Thresholds

TOP_KEY = "default"
"""The key of the policy at the top of the file."""

BRIEF = ("ham_lost", "spam_missed", "ham_unsure")
"""The measures that stand beside the chart, so that they are seen while a mark is dragged."""

PROBLEMS = {
    "needed": "Enter a number, or choose a budget.",
    "not_a_probability": "Enter a number above 0 and below 1.",
    "not_offered": "Choose one of the budgets offered.",
    "below_unsure": "Enter at least the threshold for unsure.",
    "below_spam": "Enter at least the threshold for spam, or nothing.",
    "larger_than_spam": "Choose no more than the budget for spam.",
    "above_until_promised": "Enter no more than verdict.until_promised, {until}.",
}
"""What is wrong with a field, by the problems of ``ThresholdTrial``."""

_MAX_SHOWN = 40  # characters of a field that is wrong


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy in force. ``key`` stands for it in queries; ``pattern`` is that of its rule, empty at the top.

    ``recipients`` says in words whom it is for.
    """

    key: str
    pattern: str
    recipients: str
    policy: ThresholdPolicy


@dataclass(frozen=True, slots=True)
class Comparison:
    """A policy in force beside what somebody tries instead; ``tried`` is None where that is wrong."""

    named: NamedPolicy
    trial: ThresholdTrial
    present: ThresholdChoice
    tried: ThresholdChoice | None
    cost_ratio: float

    @property
    def shown(self) -> ThresholdChoice:
        """What the chart shows."""
        return self.tried or self.present

    def problems(self) -> dict[str, str]:
        """Return what is wrong, in words, by the fields of the form."""
        spam = self.named.policy.spam
        until = format_threshold(getattr(spam, "until_promised", None) or math.inf)
        return {field: PROBLEMS[problem].format(until=until) for field, problem in self.trial.problems.items()}

    def texts(self) -> dict[str, str]:
        """Return the words of the outcome, by the ids of the elements that show them."""
        measures = outcome_measures(self.present, self.cost_ratio)
        tried = outcome_measures(self.tried, self.cost_ratio) if self.tried else None
        unknown = "not known"
        return {
            "summary": changes_sentence(self.tried, self.present)
            if self.tried
            else "These thresholds cannot be used. The field that is wrong says why.",
            "line": verdict_line(self.trial.policy) if self.trial.policy else "",
            **{f"brief-{name}": tried[name].value if tried else unknown for name in BRIEF},
            **{f"tried-{name}": tried[name].value if tried else unknown for name in measures},
            **{f"interval-{name}": tried[name].interval if tried else "" for name in measures},
        }


def named_policies(rules: RecipientRules) -> list[NamedPolicy]:
    """Return the policy at the top of the file, and those of the rules that have another one."""
    top = rules.default.policy
    others = [
        NamedPolicy(
            str(rule.treatment.position),
            rule.pattern.text,
            f"recipients that match {rule.pattern.text}",
            rule.treatment.policy,
        )
        for rule in rules.rules
        if rule.treatment.policy != top
    ]
    recipients = "all recipients without a rule of their own" if others else "all recipients"
    return [NamedPolicy(TOP_KEY, "", recipients, top), *others]


def rates_in_force(policies: Sequence[NamedPolicy]) -> set[float]:
    """Return the budgets that are to be kept."""
    return {rate for named in policies for rate in named.policy.budget_rates}


def thresholds_of(choice: ThresholdChoice) -> dict[str, float]:
    """Return the thresholds by their names; infinite where they are never reached."""
    thresholds = choice.thresholds
    reject = math.inf if thresholds.reject is None else thresholds.reject
    return {UNSURE: thresholds.unsure, SPAM: thresholds.spam, REJECT: reject}


def outcome_to_json(comparison: Comparison) -> dict[str, Any]:
    """Return what the script shows; ``tried`` has the members that ``nbstream tune --json`` gives a choice."""
    tried = comparison.tried
    point = det_point(tried.error_counts) if tried else None
    return {
        "problems": comparison.problems(),
        "tried": choice_members(tried, comparison.cost_ratio) if tried else None,
        "thresholds": {
            name: plain_number(p) if math.isfinite(p) else None for name, p in thresholds_of(tried).items()
        }
        if tried
        else None,
        "words": threshold_texts(tried.thresholds) if tried else None,
        "texts": comparison.texts(),
        "point": [round(coordinate, 1) for coordinate in point] if point else None,
    }


def form_values(query: Mapping[str, str], comparison: Comparison) -> dict[str, str]:
    """Return what stands in the fields: what was given where it is wrong, else what is tried."""
    if comparison.trial.policy is None:
        fallback = _policy_fields(comparison.named.policy, comparison.present.thresholds)
        return {field: query.get(field, fallback[field])[:_MAX_SHOWN] for field in FIELDS}
    return _policy_fields(comparison.trial.policy, comparison.shown.thresholds)


def _policy_fields(policy: ThresholdPolicy, thresholds: Thresholds) -> dict[str, str]:
    return {
        UNSURE: plain_number(policy.unsure),
        SPAM: _number_field(thresholds.spam),
        SPAM_BUDGET: _budget_field(policy.spam),
        REJECT: _number_field(thresholds.reject),
        REJECT_BUDGET: _budget_field(policy.reject),
    }


def _number_field(threshold: float | None) -> str:
    return plain_number(threshold) if threshold is not None and threshold <= 1 else ""


def _budget_field(threshold: Threshold | None) -> str:
    return rate_value(threshold.rate) if isinstance(threshold, FalsePositiveBudget) else ""
