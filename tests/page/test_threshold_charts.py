"""``page.threshold_charts``."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.evaluation.tuning import LabelledSample, count_errors
from nbstream.page.charts import log_odds
from nbstream.page.threshold_charts import (
    Histogram,
    det_point,
    draw_budget_use,
    draw_det,
    draw_distribution,
    draw_handles,
)
from nbstream.policy.first_scores import BudgetUse
from tests.evaluation.scored import random_scores
from tests.page.svg import is_within_view_box, parse_svg

HOSTILE = "</title><script>alert(1)</script>\"'&"

P = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 5e-324, math.nextafter(1, 0), 0.5]))
THRESHOLDS = st.one_of(st.floats(1e-300, 1), st.just(math.inf))
SAMPLES = st.builds(
    lambda ham, spam: LabelledSample(np.array(sorted(ham)), np.array(sorted(spam))),
    st.lists(P, max_size=40),
    st.lists(P, max_size=40),
)


def drawn(svg: str) -> ElementTree.Element:
    """The root of a drawing in which nothing is out of its box, and nobody's text has become markup."""
    root = parse_svg(svg)
    assert is_within_view_box(root)
    assert {element.tag for element in root.iter()} <= {
        *("svg", "desc", "title", "g", "line", "path", "rect", "circle", "text")
    }
    assert "nan" not in svg.replace(HOSTILE, "")
    return root


def path_of(root: ElementTree.Element, name: str) -> str:
    (path,) = (path for path in root.iter("path") if path.attrib["class"] == name)
    return path.attrib["d"]


@given(SAMPLES, st.lists(THRESHOLDS, max_size=3))
def test_any_distribution_is_drawn_within_its_box_and_has_all_messages(
    sample: LabelledSample, thresholds: list[float]
) -> None:
    histogram = Histogram.of(sample, thresholds)

    drawn(draw_distribution(histogram))
    assert (sum(histogram.ham), sum(histogram.spam)) == (len(sample.hams), len(sample.spams))
    assert len(histogram.ham) == len(histogram.spam) == len(histogram.edges) - 1 == 60
    assert all(left < right for left, right in zip(histogram.edges, histogram.edges[1:], strict=False))


@given(SAMPLES, st.lists(THRESHOLDS, min_size=3, max_size=3))
def test_handles_stand_at_their_thresholds(sample: LabelledSample, thresholds: list[float]) -> None:
    histogram = Histogram.of(sample, thresholds)
    handles = [
        (name, HOSTILE, threshold)
        for name, threshold in zip(("unsure", "spam", "reject"), thresholds, strict=True)
    ]

    root = drawn(draw_handles(histogram, handles))

    groups = list(root.iter("g"))
    assert [group.attrib["data-threshold"] for group in groups] == ["unsure", "spam", "reject"]
    for group, threshold in zip(groups, thresholds, strict=True):
        x = float(group.attrib["transform"].removeprefix("translate(").removesuffix(" 0)"))
        start, end = float(root.attrib["data-start"]), float(root.attrib["data-end"])
        low, high = float(root.attrib["data-low"]), float(root.attrib["data-high"])
        expected = start + (min(max(log_odds(threshold), low), high) - low) / (high - low) * (end - start)
        assert x == pytest.approx(expected, abs=0.06)
        assert ("never" in group.attrib["class"].split()) == math.isinf(threshold)
        # What belongs to a handle stays in the box wherever it stands.
        box = re.fullmatch(r"0 0 ([0-9.]+) ([0-9.]+)", root.attrib["viewBox"])
        assert box
        rect = group.find("rect")
        assert rect is not None
        left = x + float(rect.attrib["x"])
        assert 0 <= left <= left + float(rect.attrib["width"]) <= float(box[1])


def test_ham_stands_above_the_middle_and_spam_hangs_below_it() -> None:
    histogram = Histogram.of(LabelledSample(np.array([0.5] * 9), np.array([0.5] * 9)), [])
    root = drawn(draw_distribution(histogram))

    ys = {
        label: [float(y) for y in re.findall(r"[ML][-0-9.]+ ([-0-9.]+)", path_of(root, f"area {label}"))]
        for label in ("ham", "spam")
    }
    middle = ys["ham"][0]
    assert max(ys["ham"]) == middle == min(ys["spam"])
    assert middle - min(ys["ham"]) == pytest.approx(max(ys["spam"]) - middle, abs=0.2)
    assert min(ys["ham"]) < middle


def test_the_number_of_elements_does_not_grow_with_the_messages() -> None:
    sizes = []
    for count in (100, 20_000):
        sample = LabelledSample.from_first_scores(random_scores(count, count))
        errors = count_errors(sample, np.array([0.95]))
        sizes.append(
            [len(draw_distribution(Histogram.of(sample, [0.95]))),
             len(draw_det(sample, [errors], errors, errors) or "")]
        )  # fmt: skip

    assert all(large < 2 * small + 2000 for small, large in zip(*sizes, strict=True))
    assert max(sizes[1]) < 12_000


@given(SAMPLES, st.lists(THRESHOLDS, min_size=2, max_size=4))
def test_any_trade_off_is_drawn_within_its_box(sample: LabelledSample, thresholds: list[float]) -> None:
    present, chosen, *budgets = (count_errors(sample, np.array([threshold])) for threshold in thresholds)

    svg = draw_det(sample, budgets, present, chosen)

    assert (svg is None) == (len(sample.hams) * len(sample.spams) == 0)
    if svg is not None:
        root = drawn(svg)
        assert len([path for path in root.iter("path") if path.attrib.get("class") == "budget"]) == len(budgets)
        (chosen_mark,) = root.iter("g")
        point = det_point(chosen)
        assert point is not None
        assert [float(value) for value in chosen_mark.attrib["transform"][10:-1].split()] == pytest.approx(
            point, abs=0.06
        )


def test_no_error_is_drawn_in_the_lower_left_corner_and_the_worst_in_the_upper_right_one() -> None:
    sample = LabelledSample(np.array([0.1] * 10), np.array([0.9] * 10))
    corners = [det_point(count_errors(sample, np.array([p]))) for p in (0.5, 0.05, 0.95)]

    best, all_ham_lost, all_spam_missed = (corner or (math.nan, math.nan) for corner in corners)

    assert best[0] == all_spam_missed[0] < all_ham_lost[0]
    assert best[1] == all_ham_lost[1] > all_spam_missed[1]


USES = st.lists(
    st.tuples(st.floats(0, 4e9), st.integers(1, 10**7), st.integers(0, 10**7)), min_size=1, max_size=60
).map(
    lambda values: [
        BudgetUse(at, messages, min(messages, lost))
        for at, messages, lost in zip(*(sorted(column) for column in zip(*values, strict=True)), strict=True)
    ]
)


@given(USES, st.floats(1e-6, 0.5))
def test_any_use_of_a_budget_is_drawn_within_its_box(uses: list[BudgetUse], rate: float) -> None:
    root = drawn(draw_budget_use(rate, uses, HOSTILE))

    names = [text for text in root.iter("text") if text.attrib.get("class", "").startswith("name")]
    ys = sorted(float(name.attrib["y"]) for name in names)
    assert ys[1] - ys[0] >= 13.9  # neither hides the other


def test_a_kept_budget_has_its_loss_below_what_was_allowed() -> None:
    root = drawn(draw_budget_use(0.01, [BudgetUse(1.0, 500, 1), BudgetUse(2.0, 1000, 4)], HOSTILE))

    ends = {name: float(path_of(root, f"line {name}").rpartition(" ")[2]) for name in ("lost", "allowed")}
    assert ends["allowed"] < ends["lost"]  # the higher, the smaller
