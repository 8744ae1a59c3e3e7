"""``threshold_query``: what somebody tries, and the line of the configuration that sets it."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nbstream.assembly.policy import make_policy
from nbstream.config import Settings
from nbstream.evaluation.threshold_choices import BUDGET_RATES
from nbstream.listeners.http.page.thresholds_view import (
    FIELDS,
    PROBLEMS,
    plain_number,
    rate_value,
    read_trial,
    verdict_line,
)
from nbstream.policy.policy import FalsePositiveBudget, ThresholdPolicy

FIXED = ThresholdPolicy(0.5, 0.95)
BUDGET = ThresholdPolicy(0.4, FalsePositiveBudget(0.001, 0.97), FalsePositiveBudget(0.0001))
PROBABILITIES = st.one_of(
    st.floats(0, 1, exclude_min=True, exclude_max=True), st.sampled_from([1e-9, 0.5, 0.95, 1 - 1e-12])
)


def problems(query: dict[str, str], present: ThresholdPolicy = FIXED) -> dict[str, str]:
    trial = read_trial(query, present, BUDGET_RATES)
    assert (trial.policy is None) == bool(trial.problems)
    assert PROBLEMS.keys() >= set(trial.problems.values())
    return dict(trial.problems)


def tried(query: dict[str, str], present: ThresholdPolicy = FIXED) -> ThresholdPolicy:
    trial = read_trial(query, present, BUDGET_RATES)
    assert trial.policy, trial.problems
    return trial.policy


@pytest.mark.parametrize("present", [FIXED, BUDGET])
def test_an_empty_query_is_the_policy_in_force(present: ThresholdPolicy) -> None:
    assert tried({}, present) == present


@pytest.mark.parametrize(
    ("query", "policy"),
    [
        ({"spam": "0.97"}, ThresholdPolicy(0.5, 0.97)),
        ({"unsure": "", "spam": "0.97", "spam_budget": ""}, ThresholdPolicy(0.5, 0.97)),
        ({"unsure": ".25", "spam": " 9e-1 "}, ThresholdPolicy(0.25, 0.9)),
        ({"spam": "0.97", "spam_budget": "0.01"}, ThresholdPolicy(0.5, FalsePositiveBudget(0.01, 0.95))),
        ({"spam_budget": "0.0001"}, ThresholdPolicy(0.5, FalsePositiveBudget(0.0001, 0.95))),
        ({"reject": "1"}, ThresholdPolicy(0.5, 0.95, 1.0)),
        (
            {"spam_budget": "0.01", "reject_budget": "0.001", "reject": "x"},
            ThresholdPolicy(0.5, FalsePositiveBudget(0.01, 0.95), FalsePositiveBudget(0.001)),
        ),
    ],
)
def test_a_field_takes_the_place_of_what_is_in_force(query: dict[str, str], policy: ThresholdPolicy) -> None:
    assert tried(query) == policy


def test_until_a_budget_is_promised_what_is_in_force_stays() -> None:
    assert tried({"spam_budget": "0.001"}, BUDGET).spam == BUDGET.spam
    assert tried({"spam_budget": "0.01"}, BUDGET).spam == FalsePositiveBudget(0.01, 0.97)
    assert tried({"spam_budget": "0.01"}, FIXED).spam == FalsePositiveBudget(0.01, 0.95)
    assert tried({"reject_budget": "0.0001"}, FIXED).reject == FalsePositiveBudget(0.0001)
    assert tried({"reject": "", "reject_budget": ""}, BUDGET).reject is None


@pytest.mark.parametrize(
    ("query", "present", "found"),
    [
        ({"spam": ""}, FIXED, {"spam": "needed"}),
        ({"spam": "0.4"}, FIXED, {"spam": "below_unsure"}),
        ({"unsure": "0.96"}, FIXED, {"spam": "below_unsure"}),
        ({"reject": "0.9"}, FIXED, {"reject": "below_spam"}),
        ({"spam": "1"}, FIXED, {"spam": "not_a_probability"}),
        ({"spam_budget": "0.3"}, FIXED, {"spam_budget": "not_offered"}),
        ({"unsure": "0.98"}, BUDGET, {"unsure": "above_until_promised"}),
        ({"spam_budget": "0.001", "reject_budget": "0.01"}, FIXED, {"reject_budget": "larger_than_spam"}),
        ({"unsure": "a", "spam": "b", "reject": "c"}, FIXED, dict.fromkeys(("unsure", "spam", "reject"), "n")),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    query: dict[str, str], present: ThresholdPolicy, found: dict[str, str]
) -> None:
    seen = problems(query, present)
    assert seen == found or (set(found.values()) == {"n"} and seen.keys() == found.keys())


HOSTILE = [
    *(
        "nan",
        "inf",
        "-inf",
        "1e999",
        "-0.5",
        "0",
        "1e-999",
        "0x1p-1",
        "0_5",
        "1/2",
        "\u0660.\u0665",
        ".",
        "e",
        "0.5\n0.6",
    ),
    "0." + "9" * 10_000,
    "'\"><script>",
]


@pytest.mark.parametrize("given_text", HOSTILE)
@pytest.mark.parametrize("field", FIELDS)
def test_no_hostile_text_is_a_threshold(field: str, given_text: str) -> None:
    assert field in problems({"spam": "0.95", "unsure": "0.5", field: given_text})


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, st.text(max_size=50))),
    st.sampled_from([FIXED, BUDGET]),
)
def test_any_query_is_a_policy_or_has_problems(query: dict[str, str], present: ThresholdPolicy) -> None:
    problems(query, present)


NUMBERS = PROBABILITIES.map(plain_number)
RATES = st.sampled_from([rate_value(rate) for rate in BUDGET_RATES])


@given(
    st.fixed_dictionaries(
        {"unsure": NUMBERS, "spam": NUMBERS},
        optional={"spam_budget": RATES, "reject": NUMBERS, "reject_budget": RATES},
    )
)
def test_what_can_be_tried_is_what_the_configuration_takes_and_the_line_sets_it(query: dict[str, str]) -> None:
    trial = read_trial(query, FIXED, BUDGET_RATES)
    unsure, reject = float(query["unsure"]), query.get("reject")
    budget, spam = query.get("spam_budget"), float(query["spam"])
    rate = query.get("reject_budget")
    wanted = ThresholdPolicy(
        unsure,
        FalsePositiveBudget(float(budget), 0.95) if budget else spam,
        FalsePositiveBudget(float(rate)) if rate else None if reject is None else float(reject),
    )

    if trial.policy is None:
        with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
            Settings.model_validate(yaml.safe_load(verdict_line(wanted)))
    else:
        assert trial.policy == wanted
        assert make_policy(Settings.model_validate(yaml.safe_load(verdict_line(wanted)))) == wanted


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (FIXED, "verdict: {unsure: 0.5, spam: 0.95, reject: null}"),
        (
            BUDGET,
            "verdict: {unsure: 0.4, max_false_positive_rate: 0.001, until_promised: 0.97, "
            "reject: {max_false_positive_rate: 0.0001}}",
        ),
        (ThresholdPolicy(1e-7, 0.5, 1.0), "verdict: {unsure: 0.0000001, spam: 0.5, reject: 1.0}"),
    ],
)
def test_the_line_is_one_line_of_yaml(policy: ThresholdPolicy, line: str) -> None:
    assert verdict_line(policy) == line
    assert make_policy(Settings.model_validate(yaml.safe_load(line))) == policy


@given(st.floats(1e-300, 1))
def test_a_plain_number_is_the_number_to_the_last_digit(value: float) -> None:
    assert float(plain_number(value)) == value
    assert "e" not in plain_number(value)
    assert math.isfinite(yaml.safe_load(plain_number(value)))
