"""The thresholds that somebody tries: read from a form, and written as a line of the configuration.

Rules: pure. What the configuration would refuse is refused here too, with the field that is wrong. A field that
the form does not have is that of the policy in force.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from nbstream.policy.thresholds import FalsePositiveBudget, Threshold, ThresholdPolicy

UNSURE, SPAM, SPAM_BUDGET, REJECT, REJECT_BUDGET = FIELDS = (
    "unsure", "spam", "spam_budget", "reject", "reject_budget",
)  # fmt: skip
"""The fields of the form; a budget replaces the number beside it."""

_MAX_CHARACTERS = 400  # of a number; the smallest one above 0 has 343
_NUMBER = re.compile(r"[0-9]*\.?[0-9]*(e-?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ThresholdTrial:
    """What somebody tries: the policy, or the keys of the texts that say what is wrong, by the fields."""

    policy: ThresholdPolicy | None
    problems: Mapping[str, str]


def read_trial(query: Mapping[str, str], present: ThresholdPolicy, rates: Iterable[float]) -> ThresholdTrial:
    """Read the fields of a form; ``rates`` are the budgets that it offers, and ``present`` is in force."""
    return _TrialReader(query, present, {rate_value(rate): rate for rate in rates}).read()


def rate_value(rate: float) -> str:
    """Return the value that stands for a budget in the form."""
    return plain_number(rate)


class _TrialReader:
    """Reads one form; the problems are collected."""

    def __init__(self, query: Mapping[str, str], present: ThresholdPolicy, rates: Mapping[str, float]) -> None:
        self._query = query
        self._present = present
        self._rates = rates
        self._problems: dict[str, str] = {}

    def read(self) -> ThresholdTrial:
        unsure = self._number(UNSURE, self._present.unsure)
        spam = self._threshold(SPAM, SPAM_BUDGET, self._present.spam)
        reject = self._threshold(REJECT, REJECT_BUDGET, self._present.reject)
        if spam is None and not self._problems.keys() & {SPAM, SPAM_BUDGET}:
            self._problems[SPAM] = "needed"
        if unsure is None or spam is None or self._problems:
            return ThresholdTrial(None, self._problems)
        self._compare(unsure, spam, reject)
        return ThresholdTrial(None if self._problems else ThresholdPolicy(unsure, spam, reject), self._problems)

    def _number(self, field: str, present: float | None, *, may_be_one: bool = False) -> float | None:
        """Return the number of a field, above 0 and below 1; an empty field is that of the policy in force."""
        given = self._query.get(field, "").strip()
        if not given:
            return present
        number = float(given) if len(given) <= _MAX_CHARACTERS and _is_number(given) else 0.0
        if 0 < number < 1 or (may_be_one and number == 1):
            return number
        self._problems[field] = "not_a_probability"
        return None

    def _threshold(self, field: str, budget_field: str, present: Threshold | None) -> Threshold | None:
        """Return a number or a budget; None where there is neither, or it is wrong."""
        if field not in self._query and budget_field not in self._query:
            return present
        if given := self._query.get(budget_field, ""):
            rate = self._rates.get(given)
            if rate is None:
                self._problems[budget_field] = "not_offered"
                return None
            return budget_instead(self._present.spam, rate) if field == SPAM else FalsePositiveBudget(rate)
        return self._number(field, None, may_be_one=field == REJECT)

    def _compare(self, unsure: float, spam: Threshold, reject: Threshold | None) -> None:
        """Note what is out of order, as the configuration does."""
        if isinstance(spam, FalsePositiveBudget):
            if spam.until_promised is not None and spam.until_promised < unsure:
                self._problems[UNSURE] = "above_until_promised"
            if isinstance(reject, FalsePositiveBudget) and reject.rate > spam.rate:
                self._problems[REJECT_BUDGET] = "larger_than_spam"
            return
        if spam < unsure:
            self._problems[SPAM] = "below_unsure"
        if isinstance(reject, float) and reject < spam:
            self._problems[REJECT] = "below_spam"


def budget_instead(present: Threshold, rate: float) -> FalsePositiveBudget:
    """Return a budget in place of the threshold for spam; until it is promised, what is in force stays."""
    until = present.until_promised if isinstance(present, FalsePositiveBudget) else present
    return FalsePositiveBudget(rate, until)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and any(digit.isdigit() for digit in text.lower().split("e")[0])


def verdict_line(policy: ThresholdPolicy) -> str:
    """Return the section ``verdict`` of the configuration with these thresholds, as one line of YAML."""
    members = {"unsure": plain_number(policy.unsure)}
    if isinstance(policy.spam, FalsePositiveBudget):
        until = policy.spam.until_promised
        members["max_false_positive_rate"] = plain_number(policy.spam.rate)
        members["until_promised"] = "unsure" if until is None else plain_number(until)
    else:
        members["spam"] = plain_number(policy.spam)
    match policy.reject:
        case None:
            members["reject"] = "null"
        case FalsePositiveBudget(rate=rate):
            members["reject"] = f"{{max_false_positive_rate: {plain_number(rate)}}}"
        case _:
            members["reject"] = plain_number(policy.reject)
    return f"verdict: {{{', '.join(f'{key}: {value}' for key, value in members.items())}}}"


def plain_number(value: float) -> str:
    """Return all digits of a number without an exponent, which YAML would read as text."""
    return f"{Decimal(repr(value)):f}"
