"""The plots of ``evaluate`` and of ``tune``.

Rules: matplotlib's objects instead of pyplot, so that two plots share no state; what a run has not, such as ham,
spam or errors, is left out. Colour-blind readers can distinguish the colours (Okabe and Ito, "Color universal
design", 2008), and lines differ in style as well. A legend stands above its panel, where it hides nothing. A log
scale has no zero: 0 of n messages is drawn on the edge, as if it were half a message. The bands of ``tune`` are
95 % intervals, each point for itself; the same scores give the same SVG, byte for byte, and a small one: text
stays text, and there are no minor ticks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter

from nbstream.evaluation import measures, tuning
from nbstream.policy.verdict import format_threshold

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from nbstream.evaluation.measures import FloatArray, IntervalEstimate
    from nbstream.evaluation.report import RowArrays
    from nbstream.evaluation.threshold_choices import ThresholdChoice, TuningResult
    from nbstream.policy.verdict import Thresholds

DOTS_PER_INCH = 200
HAM_COLOR, SPAM_COLOR, _SCORE_COLOR, _MARK_COLOR = "#0072B2", "#D55E00", "#009E73", "#555555"
_LINE_WIDTH, _THIN_LINE_WIDTH = 1.2, 0.9
_LABEL_POINTS, _SMALL_POINTS = 8, 7


def finish_axes(axes: Axes, x: str, y: str, *, narrow: bool = False) -> None:
    """Label the axes, draw the grid, and put the legend above, in two columns if the panel is ``narrow``."""
    axes.set_xlabel(x, fontsize=_LABEL_POINTS)
    axes.set_ylabel(y, fontsize=_LABEL_POINTS)
    axes.tick_params(labelsize=_SMALL_POINTS)
    axes.grid(visible=True, linewidth=0.3, color="#CCCCCC")
    axes.set_axisbelow(True)
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(
                FuncFormatter(lambda value, _: f"{value:g}")
            )  # 0.01 instead of a power of ten
            axis.set_minor_formatter(NullFormatter())
    entries = len(axes.get_legend_handles_labels()[0])
    columns = 3 if entries == 3 and not narrow else 2
    if entries:
        axes.legend(
            loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, ncols=columns,
            columnspacing=1.2, fontsize=_SMALL_POINTS, frameon=False,
        )  # fmt: skip


def save_figure(path: Path, figure: Figure) -> None:
    """Write a figure in the format of the file's suffix, without a date; raises ``OSError``."""
    dates = {".svg": {"Date": None, "Creator": None}, ".pdf": {"CreationDate": None}}
    svg = {"svg.hashsalt": "nbstream", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
    with mpl.rc_context(svg):  # type: ignore[arg-type]  # its keys are typed one by one
        figure.savefig(path, metadata=dates.get(path.suffix.lower()))


# The plot of a run: ROC curve, learning curve and score histograms, for one column of a paper.

_RUN_SIZE_INCHES = (3.5, 7.4)
_MARKED_RATES = {0.001: ":", 0.005: "--"}
_LEARNING_CURVE_POINTS = 100
_HISTOGRAM_BINS = 60


def write_run_plot(path: Path, columns: RowArrays, skipped: int, thresholds: Thresholds) -> None:
    """Write the plot as a PNG file; raises ``OSError``."""
    run_figure(columns, skipped, thresholds).savefig(path, format="png")


def run_figure(columns: RowArrays, skipped: int, thresholds: Thresholds) -> Figure:
    """Return the plot of the measured messages, which follow ``skipped`` others in the stream."""
    figure = Figure(figsize=_RUN_SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    roc, learning, histogram = figure.subplots(3)
    _draw_roc(roc, columns)
    _draw_learning(learning, columns, skipped)
    _draw_scores(histogram, columns, thresholds)
    return figure


def _draw_roc(axes: Axes, columns: RowArrays) -> None:
    """Draw ham called spam against spam missed, on log scales: the nearer to the lower left corner the better."""
    is_spam, called_spam = columns.is_spam, columns.called_spam
    hm, sm = measures.hm_percent(is_spam, called_spam), measures.sm_percent(is_spam, called_spam)
    if hm is not None and sm is not None:
        # A log scale has no zero: 0 of n messages is drawn on the edge, as if it were half a message.
        spams = int(is_spam.sum())
        left, bottom = 50.0 / (len(is_spam) - spams), 50.0 / spams
        lost, missed = measures.roc_percent(is_spam, columns.score)
        shown = slice(int(np.searchsorted(lost, 0.0, side="right")) - 1, int(np.argmin(missed)) + 1)
        axes.step(
            np.maximum(lost, left)[shown], np.maximum(missed, bottom)[shown], where="post",
            color=_SCORE_COLOR, linewidth=_LINE_WIDTH, label="scores",
        )  # fmt: skip
        axes.plot(
            max(hm, left), max(sm, bottom), "o", color=SPAM_COLOR, clip_on=False, zorder=3,
            label=f"verdicts: {hm:.2f} %, {sm:.2f} %",
        )  # fmt: skip
        for rate, style in _MARKED_RATES.items():
            missed_at_rate = measures.fn_at_fp_percent(is_spam, columns.score, rate)
            label = f"at {100 * rate:g} %: {missed_at_rate:.2f} %"
            axes.axvline(100 * rate, color=_MARK_COLOR, linestyle=style, linewidth=_THIN_LINE_WIDTH, label=label)
        axes.set(xscale="log", yscale="log", xlim=(left, 100), ylim=(bottom, 100))
    finish_axes(axes, "ham called spam (%)", "spam missed (%)")


def _draw_learning(axes: Axes, columns: RowArrays, skipped: int) -> None:
    """Draw the measures, each over all messages so far, against the number of messages."""
    is_spam, score, called_spam = columns.is_spam, columns.score, columns.called_spam
    ends = np.unique(np.linspace(0, len(is_spam), _LEARNING_CURVE_POINTS + 1).astype(int))[1:]
    auc = [measures.one_minus_auc_percent(is_spam[:end], score[:end]) for end in ends]
    missed = [measures.sm_percent(is_spam[:end], called_spam[:end]) for end in ends]
    lost = [measures.hm_percent(is_spam[:end], called_spam[:end]) for end in ends]
    for label, color, style, values in (
        ("1 - AUC", _SCORE_COLOR, "-", auc),
        ("spam missed", SPAM_COLOR, "--", missed),
        ("ham called spam", HAM_COLOR, "-.", lost),
    ):
        positive = np.array([value or math.nan for value in values])  # a log scale has no zero
        if not np.isnan(positive).all():
            axes.semilogy(
                skipped + ends, positive, color=color, linestyle=style, linewidth=_LINE_WIDTH, label=label
            )
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    finish_axes(axes, "messages seen", "over all so far (%)")


def _draw_scores(axes: Axes, columns: RowArrays, thresholds: Thresholds) -> None:
    """Draw histograms of the scores of ham and spam, and the scores at which the verdicts begin."""
    if len(columns.score):
        edges = np.histogram_bin_edges(columns.score, bins=_HISTOGRAM_BINS).tolist()
        for label, color, members in (
            ("ham", HAM_COLOR, ~columns.is_spam),
            ("spam", SPAM_COLOR, columns.is_spam),
        ):
            if members.any():
                axes.hist(
                    columns.score[members], edges, histtype="stepfilled", log=True,
                    facecolor=(color, 0.25), edgecolor=color, label=label,
                )  # fmt: skip
        verdicts = {"unsure": thresholds.unsure, "spam": thresholds.spam, "reject": thresholds.reject}
        for (name, threshold), style in zip(verdicts.items(), (":", "--", "-."), strict=True):
            score = _score_at(columns, threshold) if threshold else None
            if threshold and score is not None:
                label = f"{name} from P = {format_threshold(threshold)} on"
                axes.axvline(score, color=_MARK_COLOR, linestyle=style, linewidth=_THIN_LINE_WIDTH, label=label)
    finish_axes(axes, "score: log-odds of spam (nats)", "messages")


def _score_at(columns: RowArrays, probability: float) -> float | None:
    """Return the score at which P(spam) reaches ``probability``; None if no or every message reaches it.

    It is interpolated between the two nearest messages, because the calibration may have changed along the stream.
    """
    below = np.flatnonzero(columns.probability < probability)
    above = np.flatnonzero(columns.probability >= probability)
    if not len(below) or not len(above):
        return None
    nearest = [below[columns.probability[below].argmax()], above[columns.probability[above].argmin()]]
    return float(np.interp(probability, columns.probability[nearest], columns.score[nearest]))


# What any threshold would have done, as costs, and by threshold.

_TUNING_SIZE_INCHES = (6.4, 3.3)
_CURVE_POINTS = 60
_MAX_COST_RATIO = 10_000.0
_TICKS = (0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
_FAR_TICKS = (0.01, 0.5, 0.99, 0.9999, 0.999999)
_BAND_ALPHA = 0.2
_POLICY_STYLES = ((SPAM_COLOR, "--"), ("#CC79A7", ":"), ("#009E73", "-."))


def write_tuning_plot(path: Path, result: TuningResult) -> None:
    """Write the plot in the format of the file's suffix; raises ``OSError``."""
    save_figure(path, tuning_figure(result))


def tuning_figure(result: TuningResult) -> Figure:
    """Return the plot; it marks the thresholds of the present policy, and of up to two others."""
    figure = Figure(figsize=_TUNING_SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    cost, by_threshold = figure.subplots(1, 2)
    _draw_cost(cost, result)
    _draw_thresholds(by_threshold, result)
    for axes in figure.axes:
        axes.minorticks_off()
    return figure


def _draw_cost(axes: Axes, result: TuningResult) -> None:
    """Draw the cost of the errors, as a share of that without a filter, against the cost of a ham called spam."""
    present = result.present.error_counts
    if present.ham and present.spam:
        ratios = np.geomspace(1, _MAX_COST_RATIO, _CURVE_POINTS)
        candidates = tuning.count_errors(result.sample, tuning.candidate_thresholds(result.sample.hams))
        best = np.array([candidates.relative_cost(float(ratio)).value.min() for ratio in ratios])
        matching = tuning.count_errors(result.sample, ratios / (1 + ratios)).relative_cost(ratios).value
        bottom = 50.0 / present.spam
        for policy, (color, _) in zip(result.policies, _POLICY_STYLES, strict=False):
            cost = policy.error_counts.relative_cost(ratios).scaled(100).at_least(bottom)
            _draw_band(axes, ratios, cost, color)
            axes.plot(ratios, cost.value, color=color, linewidth=_LINE_WIDTH, label=_choice_label(policy))
        for name, values, color, style in (
            ("P = c / (1 + c)", matching, HAM_COLOR, "--"),
            ("best", best, _MARK_COLOR, ":"),
        ):
            percents = np.maximum(100 * values, bottom)
            axes.plot(ratios, percents, style, color=color, linewidth=_LINE_WIDTH, label=name)
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
            axes.plot(thresholds, percent.value, style, color=color, linewidth=_LINE_WIDTH, label=label)
    for policy, (_, style) in zip(result.policies, _POLICY_STYLES, strict=False):
        if lowest <= policy.spam_threshold <= highest:
            axes.axvline(
                policy.spam_threshold,
                color=_MARK_COLOR,
                linestyle=style,
                linewidth=_THIN_LINE_WIDTH,
                label=_choice_label(policy),
            )
    axes.set(xscale="logit", yscale="log" if present.ham or present.spam else "linear", xlim=(lowest, highest))
    finish_axes(axes, "spam from P(spam)", "of the ham, of the spam (%)", narrow=True)
    ticks = _TICKS if highest < _FAR_TICKS[3] else _FAR_TICKS
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if lowest <= tick <= highest]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_band(axes: Axes, x: FloatArray, estimate: IntervalEstimate, color: str) -> None:
    axes.fill_between(x, estimate.lower, estimate.upper, color=color, alpha=_BAND_ALPHA, linewidth=0)


def _choice_label(choice: ThresholdChoice) -> str:
    """Return the name of a choice; a dollar sign in a file name must not begin a formula."""
    return choice.name.replace("$", r"\$")


def _threshold_range(result: TuningResult) -> tuple[float, float]:
    """Return the range of thresholds to show: from 0.01 to above all ham and all thresholds of policies."""
    policies = [policy.spam_threshold for policy in result.policies]
    highest = max(
        [0.999, *result.sample.hams[-1:].tolist(), *(threshold for threshold in policies if threshold < 1)]
    )
    return 0.01, 1 / (1 + math.exp(-min(_logit(highest) + 0.5, 34.0)))


def _logit(p: float) -> float:
    return math.log(p / (1 - p))
