"""The plot of ``tune``: what any threshold would have done, as a DET curve, as costs, and by threshold.

Rules: as in ``run_plot``, matplotlib's objects instead of pyplot, and curves without data are left out. The bands
are 95 % intervals, each point for itself. A log scale has no zero: 0 of n messages is drawn on the edge, as if it
were half a message. The same scores give the same SVG, byte for byte, and a small one: text stays text, and there
are no minor ticks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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

    from nbstream.evaluation.intervals import IntervalEstimate
    from nbstream.evaluation.measures import FloatArray
    from nbstream.evaluation.threshold_choices import ThresholdChoice, TuningResult

_SIZE_INCHES = (9.6, 3.3)
_DOTS_PER_INCH = 200
_CURVE_POINTS = 60
_MAX_COST_RATIO = 10_000.0
_TICKS = (0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
_FAR_TICKS = (0.01, 0.5, 0.99, 0.9999, 0.999999)
_BAND_ALPHA = 0.2


@dataclass(frozen=True, slots=True)
class _MarkedPolicy:
    """A policy in the plot, with its marker and its color."""

    choice: ThresholdChoice
    marker: str
    color: str


def write_tuning_plot(path: Path, result: TuningResult) -> None:
    """Write the plot in the format of the file's suffix; raises ``OSError``."""
    dates = {".svg": {"Date": None, "Creator": None}, ".pdf": {"CreationDate": None}}
    svg = {"svg.hashsalt": "nbstream", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
    with mpl.rc_context(svg):  # type: ignore[arg-type]  # its keys are typed one by one
        tuning_figure(result).savefig(path, metadata=dates.get(path.suffix.lower()))


def tuning_figure(result: TuningResult) -> Figure:
    """Return the plot; it marks the thresholds of the present policy, of the other policy, and of budgets."""
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    det, cost, by_threshold = figure.subplots(1, 3)
    _draw_det(det, result)
    _draw_cost(cost, result)
    _draw_thresholds(by_threshold, result)
    for axes in figure.axes:
        axes.minorticks_off()
    return figure


def _draw_det(axes: Axes, result: TuningResult) -> None:
    """Draw ham called spam against spam missed, on log scales: the nearer to the lower left corner the better."""
    present = result.present.error_counts
    if present.ham and present.spam:
        left, bottom = 50.0 / present.ham, 50.0 / present.spam
        errors = tuning.count_errors(result.sample, tuning.candidate_thresholds(result.sample.hams))
        lost = errors.ham_called_spam_rate().scaled(100).at_least(left)
        missed = errors.spam_missed_rate().scaled(100).at_least(bottom)
        # From the lower ends of both rates to the upper ends of both, and back.
        band = [np.concatenate([estimate.lower, estimate.upper[::-1]]) for estimate in (lost, missed)]
        axes.fill(*band, color=SCORE_COLOR, alpha=_BAND_ALPHA, linewidth=0)
        axes.step(
            lost.value, missed.value, where="post",
            color=SCORE_COLOR, linewidth=LINE_WIDTH, label="any threshold",
        )  # fmt: skip
        promised = [choice for choice in result.budgets if math.isfinite(choice.spam_threshold)]
        points = [_choice_point(choice, left, bottom) for choice in promised]
        if points:
            axes.plot(*zip(*points, strict=True), "x", color=MARK_COLOR, clip_on=False, zorder=3, label="budgets")
        for policy in _marked_policies(result):
            point = _choice_point(policy.choice, left, bottom)
            label = _choice_label(policy.choice)
            axes.plot(*point, policy.marker, color=policy.color, clip_on=False, zorder=4, label=label)
        axes.set(xscale="log", yscale="log", xlim=(left, 100), ylim=(bottom, 100))
    finish_axes(axes, "ham called spam (%)", "spam missed (%)", narrow=True)


def _draw_cost(axes: Axes, result: TuningResult) -> None:
    """Draw the cost of the errors, as a share of that without a filter, against the cost of a ham called spam."""
    present = result.present.error_counts
    if present.ham and present.spam:
        ratios = np.geomspace(1, _MAX_COST_RATIO, _CURVE_POINTS)
        candidates = tuning.count_errors(result.sample, tuning.candidate_thresholds(result.sample.hams))
        best = np.array([candidates.relative_cost(float(ratio)).value.min() for ratio in ratios])
        matching = tuning.count_errors(result.sample, ratios / (1 + ratios)).relative_cost(ratios).value
        bottom = 50.0 / present.spam
        for policy in _marked_policies(result):
            cost = policy.choice.error_counts.relative_cost(ratios).scaled(100).at_least(bottom)
            _draw_band(axes, ratios, cost, policy.color)
            axes.plot(
                ratios, cost.value,
                color=policy.color, linewidth=LINE_WIDTH, label=_choice_label(policy.choice),
            )  # fmt: skip
        for name, values, color, style in (
            ("P = c / (1 + c)", matching, HAM_COLOR, "--"),
            ("best", best, MARK_COLOR, ":"),
        ):
            percents = np.maximum(100 * values, bottom)
            axes.plot(ratios, percents, style, color=color, linewidth=LINE_WIDTH, label=name)
        axes.set(xscale="log", yscale="log", xlim=(1, _MAX_COST_RATIO))
    finish_axes(axes, "cost c of a ham called spam (spam passed)", "cost, no filter = 100 (%)", narrow=True)


def _draw_thresholds(axes: Axes, result: TuningResult) -> None:
    """Draw both errors against the threshold, on a logit scale."""
    present = result.present.error_counts
    lowest, highest = _threshold_range(result)
    logits = np.linspace(_logit(lowest), _logit(highest), _CURVE_POINTS)
    thresholds = 1 / (1 + np.exp(-logits))
    errors = tuning.count_errors(result.sample, thresholds)
    for label, color, style, n, rate in (
        ("ham called spam", HAM_COLOR, "-", present.ham, errors.ham_called_spam_rate()),
        ("spam missed", SPAM_COLOR, "--", present.spam, errors.spam_missed_rate()),
    ):
        if n:
            percent = rate.scaled(100).at_least(50.0 / n)
            _draw_band(axes, thresholds, percent, color)
            axes.plot(thresholds, percent.value, style, color=color, linewidth=LINE_WIDTH, label=label)
    for policy, style in zip(_marked_policies(result), ("--", ":"), strict=False):
        if lowest <= policy.choice.spam_threshold <= highest:
            axes.axvline(
                policy.choice.spam_threshold,
                color=MARK_COLOR,
                linestyle=style,
                linewidth=THIN_LINE_WIDTH,
                label=_choice_label(policy.choice),
            )
    axes.set(xscale="logit", yscale="log" if present.ham or present.spam else "linear", xlim=(lowest, highest))
    finish_axes(axes, "spam from P(spam)", "of the ham, of the spam (%)", narrow=True)
    ticks = _TICKS if highest < _FAR_TICKS[3] else _FAR_TICKS
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if lowest <= tick <= highest]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_band(axes: Axes, x: FloatArray, estimate: IntervalEstimate, color: str) -> None:
    axes.fill_between(x, estimate.lower, estimate.upper, color=color, alpha=_BAND_ALPHA, linewidth=0)


def _marked_policies(result: TuningResult) -> list[_MarkedPolicy]:
    """Return the present policy and the other one, if there is one, with their markers."""
    other = [_MarkedPolicy(result.other, "s", "#CC79A7")] if result.other else []
    return [_MarkedPolicy(result.present, "o", SPAM_COLOR), *other]


def _choice_point(choice: ThresholdChoice, left: float, bottom: float) -> tuple[float, float]:
    lost = choice.error_counts.ham_called_spam_rate().value[0]
    missed = choice.error_counts.spam_missed_rate().value[0]
    return max(100 * float(lost), left), max(100 * float(missed), bottom)


def _choice_label(choice: ThresholdChoice) -> str:
    """Return the name of a choice; a dollar sign in a file name must not begin a formula."""
    return choice.name.replace("$", r"\$")


def _threshold_range(result: TuningResult) -> tuple[float, float]:
    """Return the range of thresholds to show: from 0.01 to above all ham and all thresholds of policies."""
    policies = [policy.choice.spam_threshold for policy in _marked_policies(result)]
    highest = max(
        [0.999, *result.sample.hams[-1:].tolist(), *(threshold for threshold in policies if threshold < 1)]
    )
    return 0.01, 1 / (1 + math.exp(-min(_logit(highest) + 0.5, 34.0)))


def _logit(p: float) -> float:
    return math.log(p / (1 - p))
