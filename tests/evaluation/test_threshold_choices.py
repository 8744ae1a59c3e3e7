"""The choices that ``tune`` compares, and how they are told."""

from __future__ import annotations

import json
import math
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
)
from nbstream.evaluation.threshold_report import (
    describe_choice,
    format_threshold_rounded_up,
    render_json,
    render_text,
)
from nbstream.policy.policy import FalsePositiveBudget, ThresholdPolicy
from tests.evaluation.scored import drawn, first_scores

PRESENT = ThresholdPolicy(0.5, 0.95)
STRICT = ThresholdPolicy(0.5, FalsePositiveBudget(0.001))


def lines(found: TuningResult, width: int | None = None, *, bold: bool = False) -> list[str]:
    return render_text(found, "default", width=width, bold=bold).splitlines()


def budgets(found: TuningResult) -> dict[float, ThresholdChoice]:
    return dict(zip(BUDGET_RATES, found.budgets, strict=True))


def test_a_budget_calls_no_more_of_the_ham_spam_than_it_may_and_a_smaller_one_less() -> None:
    found = compare_thresholds(drawn(12_000, 8_000), PRESENT)

    counts = [int(choice.error_counts.ham_called_spam[0]) for choice in found.budgets]
    for rate, count in zip(BUDGET_RATES, counts, strict=True):
        assert count <= rate * 12_000
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 100
    assert [choice.spam_threshold for choice in found.fixed] == list(FIXED_THRESHOLDS)


def test_a_budget_that_cannot_be_promised_says_what_it_needs() -> None:
    # (1 - 0.001)^n <= 0.05 from n = 2995 on.
    found = budgets(compare_thresholds(drawn(1000, 10), PRESENT))

    assert (
        describe_choice(found[0.001]) == "max_false_positive_rate: 0.001 -> needs 1,995 more ham to promise 0.1 %"
    )
    assert describe_choice(found[0.01]).startswith("max_false_positive_rate: 0.01 -> threshold 0.")


def test_the_plain_answer_compares_with_the_present_policy() -> None:
    # Of 3,000 ham 0.1 % may not be one: the threshold is just above the highest.
    mail = [("ham", 0.1)] * 2993 + [("ham", 0.96)] * 6 + [("ham", 0.9876)]
    mail += [("spam", 0.999)] * 969 + [("spam", 0.97)] * 31
    found = compare_thresholds(first_scores(mail), PRESENT, ("with strict.yaml", STRICT))

    said = "max_false_positive_rate: 0.001 -> threshold 0.9877: "
    said += "would have moved 7 ham out of spam, let 31 more spam through, of the last 4,000"
    assert describe_choice(budgets(found)[0.001]) == said
    assert lines(found)[-5:-2] == [
        f"with strict.yaml, {said}",
        "  ham: 7 spam -> unsure",
        "  spam: 31 spam -> unsure",
    ]
    assert "present spam: 0.95 -> threshold 0.95" in lines(found)


def test_a_budget_in_force_is_told_as_one_and_is_compared_with_itself() -> None:
    found = compare_thresholds(drawn(5000, 500), STRICT)

    assert found.present.setting == "max_false_positive_rate: 0.001"
    assert not found.present.verdict_changes.counts
    assert found.cost_ratio == 19


def test_the_cost_ratio_is_the_one_that_a_fixed_threshold_is_right_for() -> None:
    assert compare_thresholds(drawn(10, 10), ThresholdPolicy(0.5, 0.99)).cost_ratio == 99


def test_the_table_has_each_threshold_once_lowest_first() -> None:
    found = compare_thresholds(drawn(12_000, 8_000), PRESENT, ("with strict.yaml", STRICT))

    names = [choice.name for choice in found.by_threshold()]
    assert "fixed 0.95" not in names  # the present one
    assert "budget 0.0001" not in names  # cannot be promised
    assert {"present", "with strict.yaml", "fixed 0.5", "budget 0.05", "fixed 0.9999"} <= set(names)
    places = [choice.spam_threshold for choice in found.by_threshold()]
    assert places == sorted(places)


def test_columns_are_aligned_and_the_figures_are_those_of_the_choices() -> None:
    found = compare_thresholds(drawn(12_000, 8_000), PRESENT)
    table = lines(found)[2 : 3 + len(found.by_threshold())]

    assert len({len(line) for line in table}) == 1
    head, rows = table[0], table[1:]
    titles = "from P ham called spam % of ham 95 % spam missed % of spam 95 % unsure cost at 19"
    assert " ".join(head.split()) == titles
    for choice, row in zip(found.by_threshold(), rows, strict=True):
        figures = row.removeprefix(choice.name).split()
        assert figures[0] == format_threshold_rounded_up(choice.spam_threshold)
        assert figures[1] == f"{choice.error_counts.ham_called_spam[0]:,}"
        assert figures[2] == f"{choice.error_counts.ham_called_spam[0] / 120:.3f}"
        assert figures[6] == f"{choice.error_counts.spam_missed[0]:,}"


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 100, 140])
def test_the_table_fits_the_terminal(width: int) -> None:
    found = compare_thresholds(drawn(12_000, 8_000), PRESENT, ("with strict.yaml", STRICT))

    table = lines(found, width)[2 : 3 + len(found.by_threshold())]

    assert max(map(len, table)) <= width
    assert ("95 %" in table[0]) == (width == 140)
    assert ("% of ham" in table[0]) == (width >= 40)


def test_bold_is_the_present_row_alone() -> None:
    found = compare_thresholds(drawn(500, 500), PRESENT)

    marked = [line for line in lines(found, bold=True) if "\033" in line]

    assert len(marked) == 1
    assert marked[0].startswith("\033[1mpresent ")
    assert "\033" not in "".join(lines(found))


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
def test_whatever_there_is_can_be_told(mail: Sequence[tuple[str, float]], present: ThresholdPolicy) -> None:
    found = compare_thresholds(first_scores(mail), present, ("with a.yaml", ThresholdPolicy(0.2, 0.2, 1.0)))

    told = json.loads(render_json(found, "default"))
    said = render_text(found, "default", width=80, bold=False)

    assert told["messages"] == len(mail)
    assert "nan" not in said
    assert f"the last {len(mail)} messages labelled" in said
    unknown = told["present"]["ham_called_spam_percent"] is None
    assert unknown == (told["ham"] == 0)
    assert (told["present"]["cost_percent"] is None) == (told["ham"] * told["spam"] == 0)


def test_json_has_the_figures_of_the_table() -> None:
    found = compare_thresholds(drawn(12_000, 8_000), PRESENT, ("with strict.yaml", STRICT))

    told = json.loads(render_json(found, "default"))

    assert set(told) == {
        *("model", "messages", "ham", "spam", "biased", "cost_ratio", "present", "with", "budgets", "fixed")
    }
    assert (told["messages"], told["ham"], told["spam"], told["biased"]) == (20_000, 12_000, 8_000, False)
    never = told["budgets"][-1]
    assert (never["spam_from"], never["promise"]) == (None, "needs 17,956 more ham to promise 0.01 %")
    assert told["with"]["answer"] == describe_choice(found.other) if found.other else False
    moved = sum(each["messages"] for each in told["with"]["moves"])
    assert moved == sum(found.other.verdict_changes.counts.values()) if found.other else False
    low, high = told["present"]["ham_called_spam_percent_95"]
    assert low <= told["present"]["ham_called_spam_percent"] <= high


@given(st.floats(1e-9, 1, exclude_max=True))
def test_a_threshold_is_shown_so_that_no_ham_more_reaches_it(p: float) -> None:
    written = float(format_threshold_rounded_up(p))

    assert p <= written <= p + 0.01 * min(p, 1 - p) + 1e-15


@pytest.mark.parametrize(
    ("p", "written"),
    [
        (0.95, "0.95"),
        (0.5, "0.5"),
        (math.nextafter(0.987, 1), "0.9871"),
        (0.9999, "0.9999"),
        (0.00123, "0.00123"),
        (math.inf, "never"),
        (math.nextafter(1.0, 2), "never"),
    ],
)
def test_shown_thresholds(p: float, written: str) -> None:
    assert format_threshold_rounded_up(p) == written
