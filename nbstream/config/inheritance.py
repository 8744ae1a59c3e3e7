"""What a recipient rule inherits from the top of the file, and what no rule may contain.

Rules: the keys of a rule replace those of the top, one by one; the three forms of the threshold for spam count as
one key. Then the rule is checked like the top itself, with all that it has inherited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from nbstream.policy.config_bounds import MAX_BUDGETS, MAX_RECIPIENT_RULES

if TYPE_CHECKING:
    from pydantic import BaseModel

    from nbstream.config.actions import ActionsSettings
    from nbstream.config.feedback import FeedbackSettings
    from nbstream.config.problems import KeyPath
    from nbstream.config.recipients import RecipientRuleSettings
    from nbstream.config.verdict import VerdictSettings

_ALTERNATIVE_KEYS = ({"spam", "false_positive_cost", "max_false_positive_rate"},)

RuleProblem = tuple["KeyPath", str, object]
"""A key below the one that is checked, the text of the problem, and the value that is there."""


def inherit_settings(rules: object, top: Mapping[str, BaseModel | None]) -> object:
    """Return the rules as read from the file, with all that they inherit from the sections of ``top``.

    A section of the top that is refused itself is None here, and is left out of the rules: its own problem has to
    be solved first.
    """
    if not isinstance(rules, list | tuple) or len(rules) > MAX_RECIPIENT_RULES:
        return rules
    return [_inherit_into_rule(rule, top) if isinstance(rule, dict) else rule for rule in rules]


def _inherit_into_rule(rule: dict[str, Any], top: Mapping[str, BaseModel | None]) -> dict[str, Any]:
    full = dict(rule)
    for name, section in top.items():
        rule_section = rule.get(name, {})
        if section is None:
            full.pop(name, None)
        elif isinstance(rule_section, dict):
            full[name] = {**_inherited_values(section, rule_section), **rule_section}
    return full


def _inherited_values(section: BaseModel, rule_section: dict[str, Any]) -> dict[str, Any]:
    """Return the values that the file has at the top and the rule does not replace."""
    replaced = set(rule_section).union(*(keys for keys in _ALTERNATIVE_KEYS if keys & set(rule_section)))
    return {key: getattr(section, key) for key in section.model_fields_set - replaced}


def rule_problems(
    rules: Sequence[RecipientRuleSettings],
    verdict: VerdictSettings | None,
    feedback: FeedbackSettings | None,
) -> list[RuleProblem]:
    """Return the problems of all rules together, under a top with these sections."""
    if len(rules) > MAX_RECIPIENT_RULES:
        return [((), f"must be a list of at most {MAX_RECIPIENT_RULES} rules", f"{len(rules)} rules")]
    problems = _surplus_budget_problems(rules, verdict)
    for position, rule in enumerate(rules):
        problems += feedback_action_problems(rule.actions, (position, "actions"), feedback)
        if feedback and rule.match.text.lower() in _feedback_addresses(feedback):
            text = "must match an address that mail is delivered to: this is a feedback address"
            problems.append(((position, "match"), text, rule.match.text))
        earlier = next((i for i in range(position) if rules[i].match.covers(rule.match)), None)
        if earlier is not None:
            above = f"recipients[{earlier}] ({rules[earlier].match.text})"
            text = f"must match an address that no rule above matches: {above} matches all of these"
            problems.append(((position, "match"), text, rule.match.text))
    return problems


def _surplus_budget_problems(
    rules: Sequence[RecipientRuleSettings], verdict: VerdictSettings | None
) -> list[RuleProblem]:
    """Return the problems of the budgets that are too many: a first score stores only ``MAX_BUDGETS``."""
    rates = set(verdict.budget_rates.values() if verdict else ())
    text = f"must be one of the budgets above: no more than {MAX_BUDGETS} different ones can be kept"
    problems: list[RuleProblem] = []
    for position, rule in enumerate(rules):
        for name, rate in rule.verdict.budget_rates.items():
            if rate in rates or len(rates) < MAX_BUDGETS:
                rates.add(rate)
            else:
                problems.append(((position, "verdict", name), text, rate))
    return problems


def feedback_action_problems(
    actions: ActionsSettings, key: KeyPath, feedback: FeedbackSettings | None
) -> list[RuleProblem]:
    """Return the problems of the actions, below ``key``, that would redirect mail to a feedback address."""
    if feedback is None:
        return []
    return [
        ((*key, name), "must be redirected to no feedback address: it would be learned there", str(action))
        for name, action in actions
        if action.address.lower() in _feedback_addresses(feedback)
    ]


def _feedback_addresses(feedback: FeedbackSettings) -> set[str]:
    return {feedback.spam_address.lower(), feedback.ham_address.lower()}


def located_error(problems: Sequence[RuleProblem]) -> ValidationError:
    """Return the error that names the key of each problem; a validator raises it."""
    details = [
        InitErrorDetails(type=PydanticCustomError("value_error", "{error}", {"error": text}), loc=key, input=value)
        for key, text, value in problems
    ]
    return ValidationError.from_exception_data("Settings", details, hide_input=True)
