"""The choices that ``tune`` compares, and their report."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from nbstream.evaluation.threshold_report import (
    describe_choice,
    format_threshold_rounded_up,
    render_text,
)
from nbstream.evaluation.tuning import (
    BUDGET_RATES,
    FIXED_THRESHOLDS,
    ThresholdChoice,
    TuningResult,
    compare_thresholds,
    policies_of_rules,
)
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.recipient_rules import RecipientRule, RecipientRules
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from tests.harness.scored import prequential_scores, random_scores

PRESENT = ThresholdPolicy(0.5, 0.95)
STRICT = ThresholdPolicy(0.5, max_false_positive_rate=0.001)


def text_lines(result: TuningResult, width: int | None = None, *, bold: bool = False) -> list[str]:
    return render_text(result, "default", width=width, bold=bold).splitlines()


def budget_choices(result: TuningResult) -> dict[float, ThresholdChoice]:
    return dict(zip(BUDGET_RATES, result.budgets, strict=True))


def test_a_budget_is_kept_and_a_smaller_one_loses_less_ham() -> None:
    result = compare_thresholds(random_scores(12_000, 8_000), PRESENT)

    counts = [choice.error_counts.ham_called_spam for choice in result.budgets]
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


def test_the_table_has_each_threshold_once_lowest_first() -> None:
    result = compare_thresholds(random_scores(12_000, 8_000), PRESENT, [("with strict.yaml", STRICT)])

    names = [choice.name for choice in result.by_threshold()]
    assert "fixed 0.95" not in names  # the present one
    assert "budget 0.0001" not in names  # not guaranteed
    assert {"present", "with strict.yaml", "fixed 0.5", "budget 0.05", "fixed 0.9999"} <= set(names)
    thresholds = [choice.spam_threshold for choice in result.by_threshold()]
    assert thresholds == sorted(thresholds)


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


@given(st.floats(1e-9, 1, exclude_max=True))
def test_a_shown_threshold_is_rounded_up(p: float) -> None:
    shown = float(format_threshold_rounded_up(p))

    assert p <= shown <= p + 0.01 * min(p, 1 - p) + 1e-15
