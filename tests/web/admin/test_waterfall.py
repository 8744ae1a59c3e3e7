"""``nbstream.web.admin.waterfall``."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nbstream.web.admin.waterfall import (
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


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(numbers, numbers), max_size=5), numbers, numbers)
@example([], 0.0, 5e-324)
def test_no_number_leaves_the_drawing(bounds: list[tuple[float, float]], low: float, high: float) -> None:
    axis = Axis(low, high, [Mark(tick, "") for tick in ticks_between(low, high)])
    svg = draw_waterfall([Step(StepKind.CLUE, "", *pair) for pair in bounds], axis, "")

    for position in re.findall(r'(?:x|x1|x2|width)="([^"]*)%"', svg):
        assert 0 <= float(position) <= 100
