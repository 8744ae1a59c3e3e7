"""Thresholds, actions and recipient rules, from settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.config import FalsePositiveCost, FalsePositiveRate
from nbstream.filter import FilterPolicy
from nbstream.policy.actions import VerdictActions
from nbstream.policy.policy import FalsePositiveBudget, Threshold, ThresholdPolicy, threshold_of_cost_ratio
from nbstream.policy.recipient_rules import RecipientRule, RecipientRules

if TYPE_CHECKING:
    from nbstream.config import ActionsSettings, Settings, VerdictSettings


def make_policy(settings: Settings) -> ThresholdPolicy:
    """Return the thresholds for recipients without a rule."""
    return _make_policy(settings.verdict)


def _make_policy(verdict: VerdictSettings) -> ThresholdPolicy:
    until_promised = None if verdict.until_promised == "unsure" else float(verdict.until_promised)
    spam: Threshold
    if verdict.max_false_positive_rate is not None:
        spam = FalsePositiveBudget(verdict.max_false_positive_rate, until_promised)
    elif verdict.false_positive_cost is not None:
        spam = threshold_of_cost_ratio(verdict.false_positive_cost)
    else:
        assert verdict.spam is not None  # one of the three is a number
        spam = verdict.spam
    return ThresholdPolicy(verdict.unsure, spam, _reject_threshold(verdict.reject))


def _reject_threshold(threshold: float | FalsePositiveCost | FalsePositiveRate | None) -> Threshold | None:
    match threshold:
        case FalsePositiveCost(ratio):
            return threshold_of_cost_ratio(ratio)
        case FalsePositiveRate(rate):
            return FalsePositiveBudget(rate)  # nothing is refused on a promise that is not kept yet
    return threshold


def make_rules(settings: Settings) -> RecipientRules:
    """Return the policies and actions by recipient."""
    rules = [
        RecipientRule.at_position(position, rule.match, _make_policy(rule.verdict), _make_actions(rule.actions))
        for position, rule in enumerate(settings.recipients)
    ]
    return RecipientRules.build(make_policy(settings), _make_actions(settings.actions), rules)


def _make_actions(actions: ActionsSettings) -> VerdictActions:
    return VerdictActions(actions.ham, actions.unsure, actions.spam, actions.reject)


def make_filter_policy(settings: Settings) -> FilterPolicy:
    """Return what the filter decides by: all policies, and how much has to be learned before they hold."""
    others = tuple(rule.treatment.policy for rule in make_rules(settings).rules)
    return FilterPolicy(make_policy(settings), settings.model.min_learned.model_dump(), others)
