"""The charts of the view thresholds: the distribution of P(spam), the error trade-off, and the use of a budget.

Rules: points and lines differ in shape, not only in colour.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from nbstream.evaluation.tuning import candidate_thresholds, count_errors
from nbstream.page.charts import (
    MAX_LOG_ODDS,
    Frame,
    Scale,
    coordinate,
    lines,
    log_odds,
    probability,
    probability_ticks,
    round_ticks,
    tick_label,
)

if TYPE_CHECKING:
    from nbstream.evaluation.measures import FloatArray
    from nbstream.evaluation.tuning import ErrorCounts, LabelledSample
    from nbstream.policy.first_scores import BudgetUse

# The distribution of P(spam) over ham and spam that were labelled, with the thresholds drawn on it.
#
# Rules: ham stands above the middle line and spam hangs below it, so that nobody needs their colours. The counts
# are on a log scale, since it is the few messages on the wrong side that matter. The thresholds are a drawing of
# their own over the chart, because a script moves them: what is in an image cannot be reached by the keyboard.

_BINS = 60
_LOWEST, _HIGHEST = 0.001, 0.999  # P(spam) that are always on the axis
_MARGIN = 0.5  # of log-odds
_ROW = 22  # height of the handle of one threshold, above the data
_GRIP = 10  # half the width that a finger meets
_DISTRIBUTION = Frame(height=318, top=3 * _ROW + 6, bottom=50)
_DISTRIBUTION_TITLE = "P(spam) of ham and spam before their labels"
_DISTRIBUTION_DESCRIPTION = (
    "Ham above the middle line, spam below it, on a logarithmic scale of messages; P(spam) from left to right."
)
_PROBABILITY_AXIS = "P(spam), spread by its log-odds"


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
        return _DISTRIBUTION.x_scale(self.edges[0], self.edges[-1])


def _counts(ascending: FloatArray, inner_edges: FloatArray) -> list[int]:
    starts = np.searchsorted(ascending, inner_edges).astype(np.int64)
    counts: list[int] = np.diff(starts, prepend=0, append=len(ascending)).tolist()
    return counts


def draw_distribution(histogram: Histogram) -> Markup:
    """Return the chart as SVG, without the thresholds."""
    highest = max(1, *histogram.ham, *histogram.spam)
    y_scale = _DISTRIBUTION.y_scale(-1, 1)
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
            ("ham", _DISTRIBUTION.width - _DISTRIBUTION.right - 6, "end", 0.86),
            ("spam", _DISTRIBUTION.left + 6, "start", -0.93),
        )
    )
    content = (
        _DISTRIBUTION.labelled_y_axis(y_scale, [(0.0, "0"), *ticks]),
        *areas,
        _DISTRIBUTION.x_axis(histogram.x_scale, probability_ticks(histogram.x_scale)),
        *names,
        _DISTRIBUTION.x_axis_name(_PROBABILITY_AXIS),
    )
    return _DISTRIBUTION.drawing("distribution", _DISTRIBUTION_TITLE, _DISTRIBUTION_DESCRIPTION, content)


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


def draw_handles(histogram: Histogram, handles: Iterable[tuple[str, str, float]]) -> Markup:
    """Return the thresholds as SVG, of the size of the chart that they lie on.

    Each has its name, which is written on it, words that say where it stands, and its P(spam), infinite for never.

    It is hidden from screen readers, which have the same numbers in a form, until a script makes sliders of the
    handles. What a script needs to know of the scale is in its data.
    """
    scale = histogram.x_scale
    return Markup(
        '<svg class="handles" viewBox="0 0 {} {}" aria-hidden="true" data-low="{}" data-high="{}" data-start="{}"'
        ' data-end="{}">\n{}\n</svg>'
    ).format(
        _DISTRIBUTION.width, _DISTRIBUTION.height, repr(scale.low), repr(scale.high), scale.start, scale.end,
        lines(_handle(*handle, row, scale) for row, handle in enumerate(handles)),
    )  # fmt: skip


def _handle(name: str, words: str, threshold: float, row: int, scale: Scale) -> Markup:
    x = scale.position(log_odds(threshold))
    is_right = x > _DISTRIBUTION.width / 2  # its label stands at the left then
    top, bottom = row * _ROW + 3, _DISTRIBUTION.height - _DISTRIBUTION.bottom
    return Markup(
        '<g class="handle {name}{never}" data-threshold="{name}" data-words="{words}"'
        ' transform="translate({x} 0)">'
        '<line x1="0" x2="0" y1="{top}" y2="{bottom}"/>'
        '<rect class="grip" x="-{grip}" y="{top}" width="{width}" height="{height}"/>'
        '<path class="knob" d="M-7 {top}L7 {top}L7 {shoulder}L0 {tip}L-7 {shoulder}Z"/>'
        '<text x="{text_x}" y="{text_y}" text-anchor="{anchor}">{label}</text></g>'
    ).format(
        name=name,
        words=words,
        never="" if threshold < math.inf else " never",
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
        label=name,
    )


# The detection error trade-off: spam missed over ham lost, on log scales; the lower left corner is the best.
#
# Rules: as in the plot of ``tune``. A log scale has no zero: 0 of n messages is drawn on the edge, as if it were
# half a message. The band is the 95 % interval, each point for itself.

_DET = Frame(width=400, height=320, left=52, right=16, top=28, bottom=44, narrow_font=13)
_DECADES = range(-6, 3)  # of percent
_MARK = 5  # half the width of a mark
_DET_TITLE = "Ham lost and spam missed, by threshold"
_DET_DESCRIPTION = (
    "A curve from few ham lost and much spam missed to the reverse, with the 95 % interval as a band. Circle: "
    "in force. Diamond: tried. Crosses: budgets that can be promised. The lower left corner is the best."
)
_LOST_AXIS, _MISSED_AXIS = "ham called spam (%)", "spam missed (%)"
_PRESENT, _CHOSEN = "in force", "tried"


@dataclass(frozen=True, slots=True)
class DetScales:
    """Where errors are drawn, for a sample with this many ham and spam, at least one of each."""

    ham: int
    spam: int

    @property
    def x(self) -> Scale:
        """The scale of the decadic logarithm of ham lost, in percent."""
        return _DET.x_scale(math.log10(50 / self.ham), 2)

    @property
    def y(self) -> Scale:
        """The scale of the decadic logarithm of spam missed, in percent."""
        return _DET.y_scale(math.log10(50 / self.spam), 2)

    def position(self, lost: float, missed: float) -> tuple[float, float]:
        """Return where these shares of ham and spam are drawn."""
        return self.x.position(_log_percent(lost)), self.y.position(_log_percent(missed))


def det_point(errors: ErrorCounts) -> tuple[float, float] | None:
    """Return where the errors of one threshold are drawn; None where there is no ham or no spam."""
    if not (errors.ham and errors.spam):
        return None
    lost, missed = float(errors.ham_called_spam[0]) / errors.ham, float(errors.spam_missed[0]) / errors.spam
    return DetScales(errors.ham, errors.spam).position(lost, missed)


def draw_det(
    sample: LabelledSample,
    budgets: Sequence[ErrorCounts],
    present: ErrorCounts,
    chosen: ErrorCounts,
) -> Markup | None:
    """Return the chart as SVG; None where there is no ham or no spam.

    It has a cross for each of ``budgets``, a circle for ``present`` and a diamond for ``chosen``, which a script
    moves.
    """
    present_point, chosen_point = det_point(present), det_point(chosen)
    if present_point is None or chosen_point is None:
        return None
    scales = DetScales(len(sample.hams), len(sample.spams))
    crosses = (
        Markup('<path class="budget" d="{}"/>').format(_cross(*point))
        for errors in budgets
        if (point := det_point(errors)) is not None
    )
    content = (
        _DET.labelled_y_axis(scales.y, _percent_ticks(scales.y)),
        _DET.x_axis(scales.x, _percent_ticks(scales.x)),
        *_curve(sample, scales),
        *crosses,
        Markup('<circle class="present" cx="{}" cy="{}" r="{}"><title>{}</title></circle>').format(
            coordinate(present_point[0]), coordinate(present_point[1]), _MARK, _PRESENT
        ),
        Markup('<g class="chosen" transform="translate({} {})"><path d="{}"/><title>{}</title></g>').format(
            coordinate(chosen_point[0]), coordinate(chosen_point[1]), _DIAMOND, _CHOSEN
        ),
        _DET.x_axis_name(_LOST_AXIS),
        _DET.y_axis_name(_MISSED_AXIS),
    )
    return _DET.drawing("det", _DET_TITLE, _DET_DESCRIPTION, content)


_DIAMOND = f"M0 -{_MARK + 2}L{_MARK + 2} 0L0 {_MARK + 2}L-{_MARK + 2} 0Z"


def _curve(sample: LabelledSample, scales: DetScales) -> tuple[Markup, Markup]:
    """Return the band of the intervals, from the lower ends of both rates to the upper ends, and the curve."""
    errors = count_errors(sample, candidate_thresholds(sample.hams))
    lost, missed = errors.ham_called_spam_rate(), errors.spam_missed_rate()
    around = zip(
        np.concatenate([lost.lower, lost.upper[::-1]]).tolist(),
        np.concatenate([missed.lower, missed.upper[::-1]]).tolist(),
        strict=True,
    )
    points = [scales.position(*rates) for rates in zip(lost.value.tolist(), missed.value.tolist(), strict=True)]
    return (
        Markup('<path class="band" d="{}Z"/>').format(_path(scales.position(*rates) for rates in around)),
        Markup('<path class="curve" d="{}"/>').format(_path(_steps(points))),
    )


def _steps(points: Sequence[tuple[float, float]]) -> Iterable[tuple[float, float]]:
    """Yield the points of a line that keeps each value up to the next point, and steps there."""
    last_y = None
    for x, y in points:
        if last_y is not None:
            yield x, last_y
        yield x, y
        last_y = y


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points)


def _cross(x: float, y: float) -> str:
    return "".join(
        f"M{coordinate(x - _MARK)} {coordinate(y + dy)}L{coordinate(x + _MARK)} {coordinate(y - dy)}"
        for dy in (_MARK, -_MARK)
    )


def _percent_ticks(scale: Scale) -> list[tuple[float, str]]:
    return [(float(power), f"{10.0**power:g}") for power in _DECADES if scale.low <= power <= scale.high]


def _log_percent(share: float) -> float:
    """Return log10 of a share in percent; of 0, a number below all scales."""
    return math.log10(100 * share) if share > 0 else -math.inf


# How a budget was used over time: ham that was lost, and ham that the budget allowed to be lost.

_BUDGET = Frame(width=400, height=220, left=48, top=28, right=64, narrow_font=13)
_LINE_HEIGHT = 15.0


def draw_budget_use(rate: float, uses: Sequence[BudgetUse], title: str) -> Markup:
    """Return the chart as SVG, of at least one moment; the lines begin at zero."""
    now = uses[-1]
    description = (
        f"{now.called_spam:,} ham lost and {rate * now.messages:.1f} allowed, of {now.messages:,} ham that came."
    )
    lost = [float(use.called_spam) for use in uses]
    allowed = [rate * use.messages for use in uses]
    ticks = round_ticks(max(*lost, *allowed))
    x_scale, y_scale = _BUDGET.x_scale(uses[0].at, now.at), _BUDGET.y_scale(0, ticks[-1])
    xs = [coordinate(x_scale.position(use.at)) for use in uses]
    drawn = []
    for name, values in (("allowed", allowed), ("lost", lost)):
        points = (f"{x} {coordinate(y_scale.position(value))}" for x, value in zip(xs, values, strict=True))
        start = f"{coordinate(x_scale.start)} {coordinate(y_scale.start)}"
        drawn.append(Markup('<path class="line {}" d="M{}L{}"/>').format(name, start, "L".join(points)))
    ends = {"lost": y_scale.position(lost[-1]), "allowed": y_scale.position(allowed[-1])}
    content = (
        _BUDGET.y_axis(y_scale, ticks),
        _BUDGET.x_axis(x_scale, [(use.at, _day(use.at)) for use in (uses[0], now)] if len(uses) > 1 else ()),
        *drawn,
        *_names(ends),
        _BUDGET.y_axis_name("ham"),
    )
    return _BUDGET.drawing("budget", title, description, content)


def _names(ends: dict[str, float]) -> list[Markup]:
    """Return the names of both lines beside their ends, one below the other where the ends are near."""
    upper, lower = sorted(ends, key=lambda name: ends[name])
    y_upper = min(ends[upper], _BUDGET.height - _BUDGET.bottom - _LINE_HEIGHT)
    y_lower = max(ends[lower], y_upper + _LINE_HEIGHT)
    return [
        Markup('<text class="name {}" x="{}" y="{}" dy="0.32em">{}</text>').format(
            name, _BUDGET.width - _BUDGET.right + 6, coordinate(y), name
        )
        for name, y in ((upper, y_upper), (lower, y_lower))
    ]


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
