"""The choices that ``tune`` compares, and their report."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.evaluation.threshold_choices import (
    BUDGET_RATES,
    FIXED_THRESHOLDS,
    ThresholdChoice,
    TuningResult,
    compare_thresholds,
    policies_of_rules,
)
from nbstream.evaluation.threshold_report import (
    describe_choice,
    format_threshold_rounded_up,
    render_text,
)
from nbstream.evaluation.threshold_report import (
    members as json_members,
)
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.recipient_rules import RecipientRule, RecipientRules
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import FalsePositiveBudget, ThresholdPolicy
from tests.harness.scored import prequential_scores, random_scores

PRESENT = ThresholdPolicy(0.5, 0.95)
STRICT = ThresholdPolicy(0.5, FalsePositiveBudget(0.001))


def text_lines(result: TuningResult, width: int | None = None, *, bold: bool = False) -> list[str]:
    return render_text(result, "default", width=width, bold=bold).splitlines()


def budget_choices(result: TuningResult) -> dict[float, ThresholdChoice]:
    return dict(zip(BUDGET_RATES, result.budgets, strict=True))


def test_a_budget_is_kept_and_a_smaller_one_loses_less_ham() -> None:
    result = compare_thresholds(random_scores(12_000, 8_000), PRESENT)

    counts = [int(choice.error_counts.ham_called_spam[0]) for choice in result.budgets]
    for rate, count in zip(BUDGET_RATES, counts, strict=True):
        assert count <= rate * 12_000
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 100
    assert [choice.spam_threshold for choice in result.fixed] == list(FIXED_THRESHOLDS)


def test_a_budget_that_is_not_guaranteed_says_what_it_needs() -> None:
    # (1 - 0.001)^n <= 0.05 from n = 2995 on.
    result = budget_choices(compare_thresholds(random_scores(1000, 10), PRESENT))

    assert (
        describe_choice(result[0.001])
        == "max_false_positive_rate: 0.001 -> needs 1,995 more ham to guarantee 0.1 %"
    )
    assert describe_choice(result[0.01]).startswith("max_false_positive_rate: 0.01 -> threshold 0.")


def test_the_plain_answer_compares_with_the_present_policy() -> None:
    # Of 3,000 ham 0.1 % may not be one: the threshold is just above the highest.
    mail = [("ham", 0.1)] * 2993 + [("ham", 0.96)] * 6 + [("ham", 0.9876)]
    mail += [("spam", 0.999)] * 969 + [("spam", 0.97)] * 31
    result = compare_thresholds(prequential_scores(mail), PRESENT, [("with strict.yaml", STRICT)])

    text = "max_false_positive_rate: 0.001 -> threshold 0.9877: "
    text += "would have moved 7 ham out of spam, let 31 more spam through, of the last 4,000"
    assert describe_choice(budget_choices(result)[0.001]) == text
    assert text_lines(result)[-5:-2] == [
        f"with strict.yaml, {text}",
        "  ham: 7 spam -> unsure",
        "  spam: 31 spam -> unsure",
    ]
    assert "present spam: 0.95 -> threshold 0.95" in text_lines(result)


def test_the_cost_ratio_is_the_one_for_which_a_fixed_threshold_is_right() -> None:
    assert compare_thresholds(random_scores(10, 10), ThresholdPolicy(0.5, 0.99)).cost_ratio == 99


def test_the_table_has_each_threshold_once_lowest_first() -> None:
    result = compare_thresholds(random_scores(12_000, 8_000), PRESENT, [("with strict.yaml", STRICT)])

    names = [choice.name for choice in result.by_threshold()]
    assert "fixed 0.95" not in names  # the present one
    assert "budget 0.0001" not in names  # not guaranteed
    assert {"present", "with strict.yaml", "fixed 0.5", "budget 0.05", "fixed 0.9999"} <= set(names)
    thresholds = [choice.spam_threshold for choice in result.by_threshold()]
    assert thresholds == sorted(thresholds)


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 100, 140])
def test_the_table_fits_the_terminal(width: int) -> None:
    result = compare_thresholds(random_scores(12_000, 8_000), PRESENT, [("with strict.yaml", STRICT)])

    table = text_lines(result, width)[2 : 3 + len(result.by_threshold())]

    assert max(map(len, table)) <= width
    assert ("95 %" in table[0]) == (width == 140)
    assert ("% of ham" in table[0]) == (width >= 40)


def test_the_policies_of_rules_are_compared_where_they_differ() -> None:
    rules = RecipientRules.build(
        PRESENT,
        ActionsSettings(),
        [
            RecipientRule.at_position(position, AddressPattern(pattern), policy, ActionsSettings())
            for position, (pattern, policy) in enumerate((("*@strict.example", STRICT), ("*@b.example", PRESENT)))
        ],
    )

    assert policies_of_rules(rules) == [("for *@strict.example", STRICT)]


FEW: list[Sequence[tuple[str, float]]] = [
    [],
    [("ham", 0.3)],
    [("spam", 0.3)],
    [("ham", 0.5), ("spam", 0.5)],
    [("ham", 1e-16), ("spam", 1 - 1e-16)] * 30,
    [("spam", 1e-16), ("ham", 1 - 1e-16)] * 30,
    [("ham", 0.99)] * 100,
]


@pytest.mark.parametrize("mail", FEW, ids=["none", "ham", "spam", "both", "sure", "all wrong", "errors"])
@pytest.mark.parametrize("present", [PRESENT, STRICT])
def test_any_sample_can_be_reported(mail: Sequence[tuple[str, float]], present: ThresholdPolicy) -> None:
    result = compare_thresholds(
        prequential_scores(mail), present, [("with a.yaml", ThresholdPolicy(0.2, 0.2, 1.0))]
    )

    report = json.loads(json.dumps(json_members(result, "default"), allow_nan=False))
    text = render_text(result, "default", width=80, bold=False)

    assert report["messages"] == len(mail)
    assert "nan" not in text
    assert f"the last {len(mail)} messages labelled" in text
    unknown = report["present"]["ham_called_spam_percent"] is None
    assert unknown == (report["ham"] == 0)
    assert (report["present"]["cost_percent"] is None) == (report["ham"] * report["spam"] == 0)


def test_json_has_the_figures_of_the_table() -> None:
    result = compare_thresholds(random_scores(12_000, 8_000), PRESENT, [("with strict.yaml", STRICT)])

    report = json.loads(json.dumps(json_members(result, "default"), allow_nan=False))

    assert set(report) == {
        *(
            "model",
            "messages",
            "ham",
            "spam",
            "left_out",
            "biased",
            "cost_ratio",
            "present",
            "others",
            "budgets",
            "fixed",
            "histogram",
        )
    }
    assert (report["messages"], report["ham"], report["spam"], report["biased"]) == (20_000, 12_000, 8_000, False)
    never = report["budgets"][-1]
    assert (never["spam_from"], never["guarantee"]) == (None, "needs 17,956 more ham to guarantee 0.01 %")
    (strict,), (members,) = result.others, report["others"]
    assert members["answer"] == describe_choice(strict)
    assert sum(move["messages"] for move in members["moves"]) == sum(strict.verdict_changes.counts.values())
    assert sum(each["ham"] + each["spam"] for each in report["histogram"]) == 20_000
    low, high = report["present"]["ham_called_spam_percent_95"]
    assert low <= report["present"]["ham_called_spam_percent"] <= high


@given(st.floats(1e-9, 1, exclude_max=True))
def test_a_shown_threshold_is_rounded_up(p: float) -> None:
    shown = float(format_threshold_rounded_up(p))

    assert p <= shown <= p + 0.01 * min(p, 1 - p) + 1e-15
