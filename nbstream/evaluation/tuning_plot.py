"""The picture of ``tune``: what any threshold would have done, as a DET curve, as costs, and by threshold.

Rules: as in ``plot``: no pyplot, and what there is not is left out. Bands are 95 % at each place for itself. A log
scale has no zero: what none of n messages are is drawn on the edge, as if half of one were. The same scores give
the same SVG, byte for byte, and a small one: text is text, and there are no small ticks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from nbstream.evaluation import tuning
from nbstream.evaluation.plot_style import (
    HAM_COLOR,
    LINE_WIDTH,
    MARK_COLOR,
    SCORE_COLOR,
    SPAM_COLOR,
    THIN_LINE_WIDTH,
    finish_axes,
)

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from nbstream.evaluation.measures import FloatArray
    from nbstream.evaluation.threshold_choices import ThresholdChoice, TuningResult
    from nbstream.evaluation.tuning import IntervalEstimate

_SIZE_INCHES = (9.6, 3.3)
_DOTS_PER_INCH = 200
_CURVE_POINTS = 60  # of each curve
_MAX_COST_RATIO = 10_000.0
_TICKS = (0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
_FAR_TICKS = (0.01, 0.5, 0.99, 0.9999, 0.999999)
_BAND_ALPHA = 0.2


def write_tuning_plot(path: Path, found: TuningResult) -> None:
    """Write the picture in the format that the file's name ends in. Raises ``OSError``."""
    dates = {".svg": {"Date": None, "Creator": None}, ".pdf": {"CreationDate": None}}
    svg = {"svg.hashsalt": "nbstream", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
    with mpl.rc_context(svg):  # type: ignore[arg-type]  # its keys are typed one by one
        tuning_figure(found).savefig(path, metadata=dates.get(path.suffix.lower()))


def tuning_figure(found: TuningResult) -> Figure:
    """The picture, with the thresholds of the present policy, of the one it is compared with, and of budgets."""
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    det, cost, by_threshold = figure.subplots(1, 3)
    _draw_det(det, found)
    _draw_cost(cost, found)
    _draw_thresholds(by_threshold, found)
    for axes in figure.axes:
        axes.minorticks_off()
    return figure


def _draw_det(axes: Axes, found: TuningResult) -> None:
    """Ham called spam against spam missed, on log scales: the nearer to the lower left corner the better."""
    known = found.present.error_counts
    if known.ham and known.spam:
        left, low = 50.0 / known.ham, 50.0 / known.spam
        rates = tuning.count_errors(found.sample, _candidate_thresholds(found.sample.hams))
        lost, missed = (
            _clipped_percents(rates.ham_called_spam_rate(), left),
            _clipped_percents(rates.spam_missed_rate(), low),
        )
        # From the lower ends of both rates to the upper ends of both, and back.
        band = [np.concatenate([each[1], each[2][::-1]]) for each in (lost, missed)]
        axes.fill(*band, color=SCORE_COLOR, alpha=_BAND_ALPHA, linewidth=0)
        axes.step(lost[0], missed[0], where="post", color=SCORE_COLOR, linewidth=LINE_WIDTH, label="any threshold")
        promised = [choice for choice in found.budgets if math.isfinite(choice.spam_threshold)]
        places = [_choice_point(choice, left, low) for choice in promised]
        if places:
            axes.plot(*zip(*places, strict=True), "x", color=MARK_COLOR, clip_on=False, zorder=3, label="budgets")
        for choice, sign, color in _marked_policies(found):
            place = _choice_point(choice, left, low)
            axes.plot(*place, sign, color=color, clip_on=False, zorder=4, label=_choice_label(choice))
        axes.set(xscale="log", yscale="log", xlim=(left, 100), ylim=(low, 100))
    finish_axes(axes, "ham called spam (%)", "spam missed (%)", narrow=True)


def _draw_cost(axes: Axes, found: TuningResult) -> None:
    """What the errors cost, against no filter, over what a ham lost costs: the lower the better."""
    known = found.present.error_counts
    if known.ham and known.spam:
        ratios = np.geomspace(1, _MAX_COST_RATIO, _CURVE_POINTS)
        every = tuning.count_errors(found.sample, _candidate_thresholds(found.sample.hams))
        best = np.array([every.relative_cost(float(ratio))[0].min() for ratio in ratios])
        right = tuning.count_errors(found.sample, ratios / (1 + ratios)).relative_cost(ratios)[0]
        low = 50.0 / known.spam
        for choice, _, color in _marked_policies(found):
            value, least, most = _clipped_percents(choice.error_counts.relative_cost(ratios), low)
            axes.fill_between(ratios, least, most, color=color, alpha=_BAND_ALPHA, linewidth=0)
            axes.plot(ratios, value, color=color, linewidth=LINE_WIDTH, label=_choice_label(choice))
        for name, values, color, style in (
            ("P = c / (1 + c)", right, HAM_COLOR, "--"),
            ("best", best, MARK_COLOR, ":"),
        ):
            axes.plot(ratios, np.maximum(100 * values, low), style, color=color, linewidth=LINE_WIDTH, label=name)
        axes.set(xscale="log", yscale="log", xlim=(1, _MAX_COST_RATIO))
    finish_axes(axes, "cost c of a ham called spam (spam passed)", "cost, no filter = 100 (%)", narrow=True)


def _draw_thresholds(axes: Axes, found: TuningResult) -> None:
    """Both errors over the threshold, on a logit scale."""
    known = found.present.error_counts
    lowest, highest = _threshold_range(found)
    logits = np.linspace(_logit(lowest), _logit(highest), _CURVE_POINTS)
    thresholds = 1 / (1 + np.exp(-logits))
    rates = tuning.count_errors(found.sample, thresholds)
    for label, color, style, n, estimate in (
        ("ham called spam", HAM_COLOR, "-", known.ham, rates.ham_called_spam_rate()),
        ("spam missed", SPAM_COLOR, "--", known.spam, rates.spam_missed_rate()),
    ):
        if n:
            value, least, most = _clipped_percents(estimate, 50.0 / n)
            axes.fill_between(thresholds, least, most, color=color, alpha=_BAND_ALPHA, linewidth=0)
            axes.plot(thresholds, value, style, color=color, linewidth=LINE_WIDTH, label=label)
    for (choice, _, _), style in zip(_marked_policies(found), ("--", ":"), strict=False):
        if lowest <= choice.spam_threshold <= highest:
            axes.axvline(
                choice.spam_threshold,
                color=MARK_COLOR,
                linestyle=style,
                linewidth=THIN_LINE_WIDTH,
                label=_choice_label(choice),
            )
    axes.set(xscale="logit", yscale="log" if known.ham or known.spam else "linear", xlim=(lowest, highest))
    finish_axes(axes, "spam from P(spam)", "of the ham, of the spam (%)", narrow=True)
    ticks = _TICKS if highest < _FAR_TICKS[3] else _FAR_TICKS
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if lowest <= tick <= highest]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _marked_policies(found: TuningResult) -> list[tuple[ThresholdChoice, str, str]]:
    """The policies that are compared, and how they are marked."""
    return [(found.present, "o", SPAM_COLOR), *([(found.other, "s", "#CC79A7")] if found.other else [])]


def _candidate_thresholds(hams: FloatArray) -> FloatArray:
    """Thresholds just above a ham, from that which loses none to that which loses all; of many ham some."""
    ranks = np.unique(np.geomspace(1, len(hams), _CURVE_POINTS).round().astype(int))
    above = np.nextafter(hams[len(hams) - ranks], math.inf)
    return np.append(above, 0.0)


def _choice_point(choice: ThresholdChoice, left: float, low: float) -> tuple[float, float]:
    lost, missed = (
        _clipped_percents(choice.error_counts.ham_called_spam_rate(), left),
        _clipped_percents(choice.error_counts.spam_missed_rate(), low),
    )
    return float(lost[0][0]), float(missed[0][0])


def _choice_label(choice: ThresholdChoice) -> str:
    """Its name; a dollar sign in the name of a file begins no formula."""
    return choice.name.replace("$", r"\$")


def _clipped_percents(estimate: IntervalEstimate, edge: float) -> IntervalEstimate:
    """An estimate and its ends in percent, none of them below the edge of the panel."""
    value, low, high = estimate
    return np.maximum(100 * value, edge), np.maximum(100 * low, edge), np.maximum(100 * high, edge)


def _threshold_range(found: TuningResult) -> tuple[float, float]:
    """The thresholds that matter: from 0.01 to where no ham is, and no policy's threshold, any more."""
    marked = [choice.spam_threshold for choice, _, _ in _marked_policies(found) if choice.spam_threshold < 1]
    last = max([0.999, *found.sample.hams[-1:].tolist(), *marked])
    return 0.01, 1 / (1 + math.exp(-min(_logit(last) + 0.5, 34.0)))


def _logit(p: float) -> float:
    return math.log(p / (1 - p))
