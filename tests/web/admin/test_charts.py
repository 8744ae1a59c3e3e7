"""``page.charts``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from nbstream.web.admin.charts import Bar, Frame, draw_activity, round_ticks
from tests.web.admin.svg import is_within_view_box, parse_svg


@given(st.floats(min_value=1e-6, max_value=1e15))
def test_ticks_go_from_zero_to_at_least_the_highest_value_in_a_few_round_steps(high: float) -> None:
    ticks = round_ticks(high)

    assert ticks[0] == 0
    assert high <= ticks[-1] * (1 + 1e-9)
    assert 2 <= len(ticks) <= 6


def test_texts_are_escaped() -> None:
    frame = Frame()
    drawing = frame.drawing("x", '<b>"', "<&", [frame.x_axis(frame.x_scale(0, 1), [(0.5, "<script>")])])

    root = parse_svg(drawing)
    assert root.attrib["aria-label"].startswith('<b>"')
    assert [text.text for text in root.iter("text")] == ["<script>"]
    assert is_within_view_box(root)


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
