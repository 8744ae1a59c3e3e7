"""The chart of activity: how many messages a minute got each verdict, stacked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from nbstream.page.axes import Frame, Scale, coordinate, lines, round_ticks

_MAX_BARS = 400


@dataclass(frozen=True, slots=True)
class Bar:
    """One step of time: its value of each class, and a text that says all of it in words."""

    values: Mapping[str, float]
    text: str


def draw_activity(
    title: str, description: str, classes: Sequence[str], bars: Sequence[Bar], ticks: Sequence[tuple[float, str]]
) -> Markup:
    """Return the chart as SVG: an area in steps for each class, and for each bar a place with its text.

    ``classes`` are stacked in this order, the first at the bottom. ``bars`` are equally long steps, of which the
    last 400 are drawn; ``ticks`` are labels below, each with the index of the bar that begins there.
    """
    frame = Frame()
    bars = bars[-_MAX_BARS:]
    edges = list(zip(*(_stacked(bar, classes) for bar in bars), strict=True))
    heights = round_ticks(max(edges[-1], default=0.0) if edges else 0.0)
    x_scale, y_scale = frame.x_scale(0, max(len(bars), 1)), frame.y_scale(0, heights[-1])
    corners = [tuple(_corners(edge, x_scale, y_scale)) for edge in edges]
    areas = [
        Markup('<path class="area {}" d="{}"/>').format(name, _area(lower, upper))
        for name, (lower, upper) in zip(classes, pairwise(corners), strict=False)
    ]
    axes = (frame.y_axis(y_scale, heights), *areas, frame.x_axis(x_scale, ticks))
    return frame.drawing("activity", title, description, (*axes, _places(bars, x_scale, frame)))


def _stacked(bar: Bar, classes: Sequence[str]) -> Iterator[float]:
    """Yield 0 and the upper edge of each class; what is no positive, finite number has no height."""
    height = 0.0
    yield height
    for name in classes:
        value = bar.values.get(name, 0.0)
        height += min(value, 1e12) if 0 < value < math.inf else 0.0
        yield height


def _area(lower: Sequence[str], upper: Sequence[str]) -> str:
    """Return the path around the area between two edges."""
    return f"M{'L'.join((*upper, *reversed(lower)))}Z"


def _corners(edge: Sequence[float], x_scale: Scale, y_scale: Scale) -> Iterator[str]:
    """Yield the corners of an edge in steps; equal neighbours are one step."""
    last = ""
    for number, value in enumerate(edge):
        y = coordinate(y_scale.position(value))
        if y != last:
            x = coordinate(x_scale.position(number))
            if last:
                yield f"{x} {last}"
            yield f"{x} {y}"
        last = y
    yield f"{coordinate(x_scale.position(len(edge)))} {last}"


def _places(bars: Sequence[Bar], x_scale: Scale, frame: Frame) -> Markup:
    """Return a rectangle over each bar, which shows its text under the pointer."""
    width = coordinate(x_scale.position(1) - x_scale.position(0))
    height = frame.height - frame.top - frame.bottom
    size = Markup('y="%s" width="%s" height="%s"') % (frame.top, width, height)
    place = Markup('<rect class="place" x="%s" %s><title>%s</title></rect>')
    return lines(
        place % (coordinate(x_scale.position(number)), size, bar.text)
        for number, bar in enumerate(bars)
        if any(bar.values.values())
    )
