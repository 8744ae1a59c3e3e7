"""``page.charts``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from nbstream.page.charts import Bar, Frame, draw_activity, round_ticks, tick_label
from tests.page.svg import coordinates, is_within_view_box, parse_svg


@given(st.floats(min_value=1e-6, max_value=1e15))
def test_ticks_go_from_zero_to_at_least_the_highest_value_in_a_few_round_steps(high: float) -> None:
    ticks = round_ticks(high)

    assert ticks[0] == 0
    assert high <= ticks[-1] * (1 + 1e-9)
    assert 2 <= len(ticks) <= 6


@pytest.mark.parametrize(
    ("value", "label"),
    [(0, "0"), (0.05, "0.05"), (250, "250"), (9999, "9999"), (12_000, "12k"), (1.5e6, "1.5M"), (3e12, "3000G")],
)
def test_labels_are_short(value: float, label: str) -> None:
    assert tick_label(value) == label


@given(st.floats(min_value=-1e300, max_value=1e300))
def test_no_label_is_longer_than_its_room(value: float) -> None:
    assert len(tick_label(value)) <= 8


def test_texts_are_escaped() -> None:
    frame = Frame()
    drawing = frame.drawing("x", '<b>"', "<&", [frame.x_axis(frame.x_scale(0, 1), [(0.5, "<script>")])])

    root = parse_svg(drawing)
    assert root.attrib["aria-label"].startswith('<b>"')
    assert [text.text for text in root.iter("text")] == ["<script>"]
    assert is_within_view_box(root)


def test_labels_without_room_on_a_narrow_screen_are_dense_and_those_without_any_are_left_out() -> None:
    frame = Frame()
    axis = frame.x_axis(frame.x_scale(0, 100), [(50, "0.5"), (56, "0.9"), (99, "0.99999"), (100, "1")])

    assert re.findall(r'class="(tick[ a-z]*)"[^>]*>([^<]*)', axis) == [
        ("tick", "0.5"),
        ("tick dense", "0.9"),
        ("tick", "0.99999"),
    ]


def test_a_label_at_either_end_stays_below_the_data_in_the_font_of_a_narrow_screen() -> None:
    """Else it lies on the lowest label of the other axis, which is at its left."""
    frame = Frame()
    scale = frame.x_scale(0, 168)
    drawing = parse_svg(
        frame.drawing("c", "t", "d", [frame.x_axis(scale, [(8, "Wed 18"), (80, "Sat 21"), (158, "Tue 24")])])
    )

    anchors = [text.get("text-anchor") for text in drawing.iter() if text.tag.endswith("text")]

    assert anchors == ["start", "middle", "end"]


# The chart of activity.

CLASSES = ("ham", "unsure", "spam")
VALUES = st.dictionaries(st.sampled_from(CLASSES), st.floats(allow_nan=True, allow_infinity=True))


def chart(values: Sequence[Mapping[str, float]], text: str = "12:31") -> Markup:
    bars = tuple(Bar(value, text) for value in values)
    return draw_activity("Verdicts", "a minute", CLASSES, bars, [(0, "12:00"), (len(bars), "13:00")])


@given(st.lists(VALUES, max_size=30))
def test_whatever_the_numbers_are_the_drawing_is_finite_and_within_its_box(
    values: Sequence[Mapping[str, float]],
) -> None:
    assert is_within_view_box(parse_svg(chart(values)))


@pytest.mark.parametrize("values", [[], [{}], [{"ham": 0.0}] * 60])
def test_without_a_message_there_are_axes_and_no_places(values: Sequence[Mapping[str, float]]) -> None:
    root = parse_svg(chart(values))

    assert len(list(root.iter("text"))) >= 4
    assert list(root.iter("rect")) == []


def test_one_message_fills_its_step_up_to_the_highest_tick() -> None:
    root = parse_svg(chart([{}, {"spam": 1.0}, {}]))

    (spam,) = (path for path in root.iter("path") if path.attrib["class"] == "area spam")
    assert spam.attrib["d"] == "M60 212L276 212L276 12L492 12L492 212L708 212L708 212L60 212Z"
    assert [title.text for title in root.iter("title")] == ["12:31"]


def test_classes_are_stacked_in_their_order() -> None:
    root = parse_svg(chart([{"spam": 2.0, "ham": 1.0, "unsure": 1.0}]))

    tops = [path.attrib["d"].split("L")[0].removeprefix("M60 ") for path in root.iter("path")]
    assert tops == ["162", "112", "12"]


def test_the_longest_chart_is_bounded() -> None:
    drawing = chart([{"ham": number % 7, "spam": 5} for number in range(10_000)])

    assert drawing.count("<rect") == 400
    assert len(drawing) < 100_000


def test_a_huge_number_is_drawn_like_the_highest() -> None:
    root = parse_svg(chart([{"ham": 1e300}, {"ham": math.inf}, {"ham": 3.0}]))

    assert is_within_view_box(root)
    assert (60.0, 12.0) in set(coordinates(root))
