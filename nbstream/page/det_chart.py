"""The detection error trade-off: spam missed over ham lost, on log scales; the lower left corner is the best.

Rules: as in the plot of ``tune``. A log scale has no zero: 0 of n messages is drawn on the edge, as if it were
half a message. The band is the 95 % interval, each point for itself. Points differ in shape, not only in colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from nbstream.evaluation.tuning import candidate_thresholds, count_errors
from nbstream.page.axes import Frame, Scale, coordinate

if TYPE_CHECKING:
    from nbstream.evaluation.tuning import ErrorCounts, LabelledSample

FRAME = Frame(width=400, height=320, left=52, right=16, top=28, bottom=44, narrow_font=13)
_DECADES = range(-6, 3)  # of percent
_MARK = 5  # half the width of a mark
_TITLE = "Ham lost and spam missed, by threshold"
_DESCRIPTION = (
    "A curve from few ham lost and much spam missed to the reverse, with the 95 % interval as a band. Circle: "
    "in force. Diamond: tried. Crosses: budgets that can be promised. The lower left corner is the best."
)
_X_AXIS, _Y_AXIS = "ham called spam (%)", "spam missed (%)"
_PRESENT, _CHOSEN = "in force", "tried"


@dataclass(frozen=True, slots=True)
class DetScales:
    """Where errors are drawn, for a sample with this many ham and spam, at least one of each."""

    ham: int
    spam: int

    @property
    def x(self) -> Scale:
        """The scale of the decadic logarithm of ham lost, in percent."""
        return FRAME.x_scale(math.log10(50 / self.ham), 2)

    @property
    def y(self) -> Scale:
        """The scale of the decadic logarithm of spam missed, in percent."""
        return FRAME.y_scale(math.log10(50 / self.spam), 2)

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
        FRAME.labelled_y_axis(scales.y, _percent_ticks(scales.y)),
        FRAME.x_axis(scales.x, _percent_ticks(scales.x)),
        *_curve(sample, scales),
        *crosses,
        Markup('<circle class="present" cx="{}" cy="{}" r="{}"><title>{}</title></circle>').format(
            coordinate(present_point[0]), coordinate(present_point[1]), _MARK, _PRESENT
        ),
        Markup('<g class="chosen" transform="translate({} {})"><path d="{}"/><title>{}</title></g>').format(
            coordinate(chosen_point[0]), coordinate(chosen_point[1]), _DIAMOND, _CHOSEN
        ),
        FRAME.x_axis_name(_X_AXIS),
        FRAME.y_axis_name(_Y_AXIS),
    )
    return FRAME.drawing("det", _TITLE, _DESCRIPTION, content)


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
