"""What a rule for recipients takes from the top of the file, and what no rule may say.

Rules: what a rule gives replaces what the top gives, key by key; the thresholds for spam are one key under several
names. The rule is then checked like the top itself, with all that it has inherited.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from nbstream.policy.config_bounds import MAX_BUDGETS, MAX_RECIPIENT_RULES, ham_needed

if TYPE_CHECKING:
    from pydantic import BaseModel

    from nbstream.config.actions import ActionsSettings
    from nbstream.config.feedback import FeedbackSettings
    from nbstream.config.memory import MemorySettings
    from nbstream.config.problems import KeyPath
    from nbstream.config.recipients import RecipientRuleSettings
    from nbstream.config.verdict import VerdictSettings

_ALTERNATIVE_KEYS = ({"spam", "false_positive_cost", "max_false_positive_rate"},)

RuleProblem = tuple["KeyPath", str, object]
"""A key below the one that is checked, what is allowed there, and what was found."""


def inherit_settings(rules: object, top: Mapping[str, BaseModel | None]) -> object:
    """The rules as read from the file, with all that they inherit from the sections of ``top``.

    A section that is refused itself (None) is left out of the rules: it is put right first.
    """
    if not isinstance(rules, list | tuple) or len(rules) > MAX_RECIPIENT_RULES:
        return rules
    return [_inherit_into_rule(rule, top) if isinstance(rule, dict) else rule for rule in rules]


def _inherit_into_rule(rule: dict[str, Any], top: Mapping[str, BaseModel | None]) -> dict[str, Any]:
    full = dict(rule)
    for name, section in top.items():
        given = rule.get(name, {})
        if section is None:
            full.pop(name, None)
        elif isinstance(given, dict):
            full[name] = {**_inherited_values(section, given), **given}
    return full


def _inherited_values(section: BaseModel, given: dict[str, Any]) -> dict[str, Any]:
    """What the file gives at the top and the rule does not replace."""
    replaced = set(given).union(*(keys for keys in _ALTERNATIVE_KEYS if keys & set(given)))
    return {key: getattr(section, key) for key in section.model_fields_set - replaced}


def rule_problems(
    rules: Sequence[RecipientRuleSettings],
    verdict: VerdictSettings | None,
    feedback: FeedbackSettings | None,
    memory: MemorySettings | None,
) -> list[RuleProblem]:
    """What is wrong with the rules as a whole, under a top with this ``verdict``."""
    if len(rules) > MAX_RECIPIENT_RULES:
        return [((), f"must be a list of at most {MAX_RECIPIENT_RULES} rules", f"{len(rules)} rules")]
    found = _surplus_budget_problems(rules, verdict)
    for place, rule in enumerate(rules):
        found += feedback_action_problems(rule.actions, (place, "actions"), feedback)
        found += budget_problems(rule.verdict, (place, "verdict"), memory)
        if feedback and rule.match.text.lower() in _feedback_addresses(feedback):
            text = "must match an address that mail is delivered to: this is a feedback address"
            found.append(((place, "match"), text, rule.match.text))
        earlier = next((each for each in range(place) if rules[each].match.covers(rule.match)), None)
        if earlier is not None:
            above = f"recipients[{earlier}] ({rules[earlier].match.text})"
            text = f"must match an address that no rule above matches: {above} matches all of these"
            found.append(((place, "match"), text, rule.match.text))
    return found


def _surplus_budget_problems(
    rules: Sequence[RecipientRuleSettings], verdict: VerdictSettings | None
) -> list[RuleProblem]:
    """The budgets that a first score has no room for."""
    rates = set(verdict.budget_rates.values() if verdict else ())
    text = f"must be one of the budgets above: no more than {MAX_BUDGETS} different ones can be kept"
    found: list[RuleProblem] = []
    for place, rule in enumerate(rules):
        for name, rate in rule.verdict.budget_rates.items():
            if rate in rates or len(rates) < MAX_BUDGETS:
                rates.add(rate)
            else:
                found.append(((place, "verdict", name), text, rate))
    return found


def feedback_action_problems(
    actions: ActionsSettings, key: KeyPath, feedback: FeedbackSettings | None
) -> list[RuleProblem]:
    """The actions, below ``key``, that would send mail to be learned."""
    if feedback is None:
        return []
    return [
        ((*key, name), "must be redirected to no feedback address: it would be learned there", str(action))
        for name, action in actions
        if action.address.lower() in _feedback_addresses(feedback)
    ]


def budget_problems(verdict: VerdictSettings, key: KeyPath, memory: MemorySettings | None) -> list[RuleProblem]:
    """The budgets, below ``key``, that more ham would have to be remembered for than are."""
    kept = memory.first_scores if memory else math.inf
    text = f"must be a rate that memory.first_scores ({kept} ham) suffice to promise: this one takes"
    return [
        ((*key, name), f"{text} {ham_needed(rate)}", rate)
        for name, rate in verdict.budget_rates.items()
        if ham_needed(rate) > kept
    ]


def _feedback_addresses(feedback: FeedbackSettings) -> set[str]:
    return {feedback.spam_address.lower(), feedback.ham_address.lower()}


def located_error(found: Sequence[RuleProblem]) -> ValidationError:
    """The error that names each key, to be raised by a validator."""
    details = [
        InitErrorDetails(type=PydanticCustomError("value_error", "{error}", {"error": text}), loc=key, input=value)
        for key, text, value in found
    ]
    return ValidationError.from_exception_data("Settings", details, hide_input=True)
