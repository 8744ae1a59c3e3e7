"""``nbstream.web.admin.drawings``."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nbstream.evaluation.tuning import LabelledSample, score_classes
from nbstream.policy.verdict import Thresholds
from nbstream.web.admin.drawings import Step, draw_histogram, draw_steps
from tests.harness.scored import prequential_scores

STEPS = [
    Step("prior", "prior", 0, 1),
    Step("clue", "body:free", 1, 6),
    Step("rest", "3 more", 6, 5),
    Step("score", "score", 0, 5),
]
P = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 5e-324, math.nextafter(1, 0), 0.5]))


def elements(svg: str, tag: str, css_class: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return [element for element in root.iter(tag) if css_class in element.attrib["class"].split()]


def assert_within(svg: str) -> None:
    height = int(ElementTree.fromstring(svg).attrib["height"])
    assert all(0 <= float(position) <= 100 for position in re.findall(r'(?:x|x1|x2|width)="([^"]*)%"', svg))
    assert all(0 <= int(position) <= height for position in re.findall(r' (?:y|y1|y2|height)="([^"]*)"', svg))


def test_each_bar_begins_where_the_one_before_it_ends() -> None:
    bars = elements(draw_steps(STEPS, {"unsure 0.6": 2, "spam 0.95": 10}), "rect", "bar")

    sides = [(float(bar.attrib["x"][:-1]), float(bar.attrib["width"][:-1])) for bar in bars]
    assert sides == [(2, 8.5), (10.5, 42.5), (44.5, 8.5), (2, 42.5)]
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
    svg = draw_steps([Step("clue", label, 0, 1)], {})

    assert [text.text for text in elements(svg, "text", "label")] == [shown]
    assert "<script" not in svg


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(numbers, numbers), max_size=5), st.floats(-36, 36))
@example([(0.0, 5e-324)], 0.0)
def test_no_number_leaves_the_drawing(bounds: list[tuple[float, float]], threshold: float) -> None:
    assert_within(draw_steps([Step("clue", "", *pair) for pair in bounds], {"spam": threshold}))


@given(
    st.lists(P, max_size=40),
    st.lists(P, max_size=40),
    st.lists(st.one_of(st.floats(1e-300, 1), st.just(math.inf)), min_size=3, max_size=3).map(sorted),
)
def test_any_histogram_is_drawn_within_its_box(
    ham: list[float], spam: list[float], thresholds: list[float]
) -> None:
    mail = [*(("ham", p) for p in ham), *(("spam", p) for p in spam)]
    classes = score_classes(LabelledSample.from_prequential_scores(prequential_scores(mail)))

    svg = draw_histogram(classes, Thresholds(thresholds[0], thresholds[1], thresholds[2]))

    assert_within(svg)
    for label in ("ham", "spam"):
        assert len(elements(svg, "rect", label)) == sum(getattr(each, label) > 0 for each in classes)
    marks = [text.text or "" for text in elements(svg, "text", "threshold")]
    named = zip(("unsure", "spam", "reject"), thresholds, strict=True)
    assert [mark.split()[0] for mark in marks] == [name for name, p in named if p <= 1]
