"""The distribution of P(spam) over ham and spam that were labelled, with the thresholds drawn on it.

Rules: ham stands above the middle line and spam hangs below it, so that nobody needs their colours. The counts are
on a log scale, since it is the few messages on the wrong side that matter. The thresholds are a drawing of their
own over the chart, because a script moves them: what is in an image cannot be reached by the keyboard.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from nbstream.page.axes import (
    MAX_LOG_ODDS,
    Frame,
    Scale,
    coordinate,
    lines,
    log_odds,
    probability,
    probability_ticks,
    tick_label,
)

if TYPE_CHECKING:
    from nbstream.evaluation.measures import FloatArray
    from nbstream.evaluation.tuning import LabelledSample

_BINS = 60
_LOWEST, _HIGHEST = 0.001, 0.999  # P(spam) that are always on the axis
_MARGIN = 0.5  # of log-odds
_ROW = 22  # height of the handle of one threshold, above the data
_GRIP = 10  # half the width that a finger meets
FRAME = Frame(height=318, top=3 * _ROW + 6, bottom=50)
_TITLE = "P(spam) of ham and spam before their labels"
_DESCRIPTION = (
    "Ham above the middle line, spam below it, on a logarithmic scale of messages; P(spam) from left to right."
)
_X_AXIS = "P(spam), spread by its log-odds"


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many ham and spam have log-odds of P(spam) between two neighbours of ``edges``.

    The first and the last class also have all that lies beyond the edges.
    """

    edges: Sequence[float]
    ham: Sequence[int]
    spam: Sequence[int]

    @classmethod
    def of(cls, sample: LabelledSample, thresholds: Sequence[float]) -> Histogram:
        """Return the histogram of a sample, wide enough for its ham and for these thresholds."""
        shown = [p for p in (_LOWEST, _HIGHEST, *sample.hams[-1:].tolist(), *thresholds) if 0 < p < 1]
        low = max(-MAX_LOG_ODDS, log_odds(min(shown)) - _MARGIN)
        high = min(MAX_LOG_ODDS, log_odds(max(shown)) + _MARGIN)
        edges = np.linspace(low, high, _BINS + 1)
        inner = np.array([probability(odds) for odds in edges[1:-1].tolist()])
        return cls(edges.tolist(), _counts(sample.hams, inner), _counts(sample.spams, inner))

    @property
    def x_scale(self) -> Scale:
        """The scale of log-odds."""
        return FRAME.x_scale(self.edges[0], self.edges[-1])


def _counts(ascending: FloatArray, inner_edges: FloatArray) -> list[int]:
    starts = np.searchsorted(ascending, inner_edges).astype(np.int64)
    counts: list[int] = np.diff(starts, prepend=0, append=len(ascending)).tolist()
    return counts


@dataclass(frozen=True, slots=True)
class ThresholdHandle:
    """A threshold on the chart: its name, which is written on it, and its P(spam), infinite for never.

    ``words`` say where it stands.
    """

    name: str
    words: str
    threshold: float


def draw_distribution(histogram: Histogram) -> Markup:
    """Return the chart as SVG, without the thresholds."""
    highest = max(1, *histogram.ham, *histogram.spam)
    y_scale = FRAME.y_scale(-1, 1)
    areas = (
        Markup('<path class="area {}" d="{}"/>').format(
            label, _outline(histogram, [sign * _height(count, highest) for count in counts], y_scale)
        )
        for label, counts, sign in (("ham", histogram.ham, 1), ("spam", histogram.spam, -1))
    )
    ticks = [
        (sign * _height(count, highest), tick_label(count)) for count in _decades(highest) for sign in (1, -1)
    ]
    names = (  # where the other class is: the own one may fill the place
        Markup('<text class="name {}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
            label, x, coordinate(y_scale.position(height)), anchor, label
        )
        for label, x, anchor, height in (
            ("ham", FRAME.width - FRAME.right - 6, "end", 0.86),
            ("spam", FRAME.left + 6, "start", -0.93),
        )
    )
    content = (
        FRAME.labelled_y_axis(y_scale, [(0.0, "0"), *ticks]),
        *areas,
        FRAME.x_axis(histogram.x_scale, probability_ticks(histogram.x_scale)),
        *names,
        FRAME.x_axis_name(_X_AXIS),
    )
    return FRAME.drawing("distribution", _TITLE, _DESCRIPTION, content)


def _height(count: int, highest: int) -> float:
    return math.log1p(count) / math.log1p(highest)


def _decades(highest: int) -> Iterator[int]:
    """Yield 1, 10, 100 and so on; the first one only where there is room for it."""
    for power in range(0 if highest < 1000 else 1, len(str(highest))):
        yield 10**power


def _outline(histogram: Histogram, heights: Sequence[float], y_scale: Scale) -> str:
    """Return the path around bars that stand side by side, from the middle line back to it."""
    x_scale, middle = histogram.x_scale, coordinate(y_scale.position(0))
    parts = [f"M{coordinate(x_scale.position(histogram.edges[0]))} {middle}"]
    for (left, right), height in zip(pairwise(histogram.edges), heights, strict=True):
        y = coordinate(y_scale.position(height))
        parts += [f"L{coordinate(x_scale.position(x))} {y}" for x in (left, right)]
    return "".join([*parts, f"L{coordinate(x_scale.position(histogram.edges[-1]))} {middle}Z"])


def draw_handles(histogram: Histogram, handles: Sequence[ThresholdHandle]) -> Markup:
    """Return the thresholds as SVG, of the size of the chart that they lie on.

    It is hidden from screen readers, which have the same numbers in a form, until a script makes sliders of the
    handles. What a script needs to know of the scale is in its data.
    """
    scale = histogram.x_scale
    return Markup(
        '<svg class="handles" viewBox="0 0 {} {}" aria-hidden="true" data-low="{}" data-high="{}" data-start="{}"'
        ' data-end="{}">\n{}\n</svg>'
    ).format(
        FRAME.width, FRAME.height, repr(scale.low), repr(scale.high), scale.start, scale.end,
        lines(_handle(handle, row, scale) for row, handle in enumerate(handles)),
    )  # fmt: skip


def _handle(handle: ThresholdHandle, row: int, scale: Scale) -> Markup:
    x = scale.position(log_odds(handle.threshold))
    is_right = x > FRAME.width / 2  # its label stands at the left then
    top, bottom = row * _ROW + 3, FRAME.height - FRAME.bottom
    return Markup(
        '<g class="handle {name}{never}" data-threshold="{name}" data-words="{words}"'
        ' transform="translate({x} 0)">'
        '<line x1="0" x2="0" y1="{top}" y2="{bottom}"/>'
        '<rect class="grip" x="-{grip}" y="{top}" width="{width}" height="{height}"/>'
        '<path class="knob" d="M-7 {top}L7 {top}L7 {shoulder}L0 {tip}L-7 {shoulder}Z"/>'
        '<text x="{text_x}" y="{text_y}" text-anchor="{anchor}">{label}</text></g>'
    ).format(
        name=handle.name,
        words=handle.words,
        never="" if handle.threshold < math.inf else " never",
        x=coordinate(x),
        top=top,
        shoulder=top + 7,
        tip=top + 14,
        bottom=bottom,
        grip=_GRIP,
        width=2 * _GRIP,
        height=bottom - top,
        text_x=-_GRIP if is_right else _GRIP,
        text_y=top + 11,
        anchor="end" if is_right else "start",
        label=handle.name,
    )
