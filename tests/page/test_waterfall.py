"""``nbstream.page.waterfall``."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nbstream.page.waterfall import (
    MAX_STEPS,
    Axis,
    Mark,
    Step,
    StepKind,
    draw_waterfall,
    ticks_between,
)

AXIS = Axis(-10, 10, [Mark(-10, "0.01"), Mark(0, "0.5")], [Mark(2, "unsure 0.6"), Mark(8, "spam 0.95")])
STEPS = [
    Step(StepKind.PRIOR, "prior", 0, 1),
    Step(StepKind.CLUE, "body:free", 1, 6),
    Step(StepKind.REST, "3 more", 6, 5),
    Step(StepKind.SCORE, "score", 0, 5),
]


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def elements(root: ElementTree.Element, tag: str, css_class: str) -> list[ElementTree.Element]:
    return [element for element in root.iter(tag) if css_class in element.attrib["class"].split()]


def test_each_bar_begins_where_the_one_before_it_ends() -> None:
    bars = elements(parse(draw_waterfall(STEPS, AXIS, "why")), "rect", "bar")

    sides = [(float(bar.attrib["x"][:-1]), float(bar.attrib["width"][:-1])) for bar in bars]
    assert sides == [(44.5, 4.25), (48.75, 21.25), (65.75, 4.25), (44.5, 21.25)]
    assert [bar.attrib["class"] for bar in bars] == [
        "bar prior spam",
        "bar clue spam",
        "bar rest ham",
        "bar score total",
    ]
    tops = [int(bar.attrib["y"]) for bar in bars]
    assert tops == sorted(set(tops))


def test_thresholds_are_lines_beside_all_bars_and_through_no_text() -> None:
    root = parse(draw_waterfall(STEPS, AXIS, "why"))

    lines = elements(root, "line", "threshold")
    assert sorted({line.attrib["x1"] for line in lines}) == ["53.00%", "78.50%"]
    assert len(lines) == 2 * (1 + len(STEPS))
    for line in lines:
        top, bottom = int(line.attrib["y1"]), int(line.attrib["y2"])
        baselines = [int(text.attrib["y"]) for text in elements(root, "text", "label")]
        assert [y for y in baselines if top < y < bottom] == []
    bars = [(int(bar.attrib["y"]), int(bar.attrib["height"])) for bar in elements(root, "rect", "bar")]
    for y, height in bars:
        assert any(int(each.attrib["y1"]) <= y and y + height <= int(each.attrib["y2"]) for each in lines)
    assert [text.text for text in elements(root, "text", "threshold")] == ["unsure 0.6", "spam 0.95"]


def test_ticks_say_nats_and_probability() -> None:
    texts = [text.text for text in elements(parse(draw_waterfall(STEPS, AXIS, "why")), "text", "tick")]
    assert texts == ["-10", "0.01", "0", "0.5"]


def test_each_step_says_its_name_and_its_weight() -> None:
    root = parse(draw_waterfall(STEPS, AXIS, "why"))
    assert [text.text for text in elements(root, "text", "label")] == ["prior", "body:free", "3 more", "score"]
    assert [text.text for text in elements(root, "text", "value")] == ["+1.00", "+5.00", "-1.00", "+5.00"]


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("</text><script>alert(1)</script>", "</text><script>alert(1)</script>"),
        ("a\u202eb", "a[U+202E]b"),
        ("x" * 1000, "x" * 34 + "…"),
        ("中" * 1000, "中" * 17 + "…"),
        ("\x00&<\"'", "␀&<\"'"),
    ],
)
def test_a_hostile_label_is_a_short_text_and_nothing_else(label: str, shown: str) -> None:
    root = parse(draw_waterfall([Step(StepKind.CLUE, label, 0, 1)], AXIS, label.replace("\x00", "")))

    assert [text.text for text in elements(root, "text", "label")] == [shown]
    assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_what_lies_beyond_the_axis_is_drawn_at_its_end() -> None:
    assert [AXIS.position(nats) for nats in (-math.inf, -10, 10, 1e300, math.inf)] == [2, 2, 87, 87, 87]
    assert Axis(0, 0).position(5) == 44.5


def test_the_number_of_steps_is_bounded() -> None:
    steps = [Step(StepKind.CLUE, "x", 0, 1)] * 1000
    assert len(elements(parse(draw_waterfall(steps, AXIS, "")), "rect", "bar")) == MAX_STEPS


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(numbers, numbers), max_size=5), numbers, numbers)
@example([], 0.0, 5e-324)
def test_no_number_leaves_the_drawing(bounds: list[tuple[float, float]], low: float, high: float) -> None:
    axis = Axis(low, high, [Mark(tick, "") for tick in ticks_between(low, high)])
    svg = draw_waterfall([Step(StepKind.CLUE, "", *pair) for pair in bounds], axis, "")

    for position in re.findall(r'(?:x|x1|x2|width)="([^"]*)%"', svg):
        assert 0 <= float(position) <= 100


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_there_are_few_ticks_within_the_bounds(low: float, width: float) -> None:
    ticks = ticks_between(low, low + width)
    assert len(ticks) <= 7
    assert all(low - 1e-6 * width <= tick <= low + width * (1 + 1e-6) for tick in ticks)


def test_of_many_ticks_a_narrow_screen_shows_every_second_label_and_that_of_zero() -> None:
    axis = Axis(-30, 20, [Mark(nats, "") for nats in (-30, -20, -10, 0, 10, 20)])
    texts = elements(parse(draw_waterfall(STEPS, axis, "why")), "text", "tick")

    assert [text.text for text in texts if text.text and "dense" not in text.attrib["class"]] == [
        "-20",
        "0",
        "+20",
    ]
