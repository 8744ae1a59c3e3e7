"""``charts.activity_chart``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.listeners.http.page.charts.activity_chart import ActivityChart, Bar, draw_activity
from tests.listeners.http.page.charts.svg import coordinates, is_within_view_box, parse_svg

CLASSES = ("ham", "unsure", "spam")
VALUES = st.dictionaries(st.sampled_from(CLASSES), st.floats(allow_nan=True, allow_infinity=True))


def chart(values: Sequence[Mapping[str, float]], text: str = "12:31") -> ActivityChart:
    bars = tuple(Bar(value, text) for value in values)
    return ActivityChart("Verdicts", "a minute", CLASSES, bars, [(0, "12:00"), (len(bars), "13:00")])


@given(st.lists(VALUES, max_size=30))
def test_whatever_the_numbers_are_the_drawing_is_finite_and_within_its_box(
    values: Sequence[Mapping[str, float]],
) -> None:
    assert is_within_view_box(parse_svg(draw_activity(chart(values))))


@pytest.mark.parametrize("values", [[], [{}], [{"ham": 0.0}] * 60])
def test_without_a_message_there_are_axes_and_no_places(values: Sequence[Mapping[str, float]]) -> None:
    root = parse_svg(draw_activity(chart(values)))

    assert len(list(root.iter("text"))) >= 4
    assert list(root.iter("rect")) == []


def test_one_message_fills_its_step_up_to_the_highest_tick() -> None:
    root = parse_svg(draw_activity(chart([{}, {"spam": 1.0}, {}])))

    (spam,) = (path for path in root.iter("path") if path.attrib["class"] == "area spam")
    assert spam.attrib["d"] == "M60 212L276 212L276 12L492 12L492 212L708 212L708 212L60 212Z"
    assert [title.text for title in root.iter("title")] == ["12:31"]


def test_classes_are_stacked_in_their_order() -> None:
    root = parse_svg(draw_activity(chart([{"spam": 2.0, "ham": 1.0, "unsure": 1.0}])))

    tops = [path.attrib["d"].split("L")[0].removeprefix("M60 ") for path in root.iter("path")]
    assert tops == ["162", "112", "12"]


def test_the_longest_chart_is_bounded() -> None:
    drawing = draw_activity(chart([{"ham": number % 7, "spam": 5} for number in range(10_000)]))

    assert drawing.count("<rect") == 400
    assert len(drawing) < 100_000


def test_a_huge_number_is_drawn_like_the_highest() -> None:
    root = parse_svg(draw_activity(chart([{"ham": 1e300}, {"ham": math.inf}, {"ham": 3.0}])))

    assert is_within_view_box(root)
    assert (60.0, 12.0) in set(coordinates(root))


def test_texts_are_escaped() -> None:
    assert "<script>" not in draw_activity(chart([{"ham": 1.0}], "<script>"))
