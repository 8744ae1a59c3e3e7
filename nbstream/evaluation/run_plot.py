"""The plot of a run: ROC curve, learning curve and score histograms, for one column of a paper.

Rules: matplotlib's objects instead of pyplot, so that two plots share no state. If a run has no ham, no spam or no
errors, the plot leaves those out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nbstream.evaluation import measures
from nbstream.evaluation.plot_style import (
    HAM_COLOR,
    LINE_WIDTH,
    MARK_COLOR,
    SCORE_COLOR,
    SPAM_COLOR,
    THIN_LINE_WIDTH,
    finish_axes,
)
from nbstream.policy.verdict import format_threshold

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from nbstream.evaluation.report import RowArrays
    from nbstream.policy.verdict import Thresholds

_SIZE_INCHES = (3.5, 7.4)
_DOTS_PER_INCH = 200
_MARKED_RATES = {0.001: ":", 0.005: "--"}
_LEARNING_CURVE_POINTS = 100
_HISTOGRAM_BINS = 60


def write_run_plot(path: Path, columns: RowArrays, skipped: int, thresholds: Thresholds) -> None:
    """Write the plot as a PNG file; raises ``OSError``."""
    run_figure(columns, skipped, thresholds).savefig(path, format="png")


def run_figure(columns: RowArrays, skipped: int, thresholds: Thresholds) -> Figure:
    """Return the plot of the measured messages, which follow ``skipped`` others in the stream."""
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
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
            color=SCORE_COLOR, linewidth=LINE_WIDTH, label="scores",
        )  # fmt: skip
        axes.plot(
            max(hm, left), max(sm, bottom), "o", color=SPAM_COLOR, clip_on=False, zorder=3,
            label=f"verdicts: {hm:.2f} %, {sm:.2f} %",
        )  # fmt: skip
        for rate, style in _MARKED_RATES.items():
            missed_at_rate = measures.fn_at_fp_percent(is_spam, columns.score, rate)
            label = f"at {100 * rate:g} %: {missed_at_rate:.2f} %"
            axes.axvline(100 * rate, color=MARK_COLOR, linestyle=style, linewidth=THIN_LINE_WIDTH, label=label)
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
        ("1 - AUC", SCORE_COLOR, "-", auc),
        ("spam missed", SPAM_COLOR, "--", missed),
        ("ham called spam", HAM_COLOR, "-.", lost),
    ):
        positive = np.array([value or math.nan for value in values])  # a log scale has no zero
        if not np.isnan(positive).all():
            axes.semilogy(
                skipped + ends, positive, color=color, linestyle=style, linewidth=LINE_WIDTH, label=label
            )
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    finish_axes(axes, "messages seen", "over all so far (%)")


def _draw_scores(axes: Axes, columns: RowArrays, thresholds: Thresholds) -> None:
    """Draw histograms of the scores of ham and spam, and the scores at which the verdicts begin."""
    if len(columns.score):
        edges = np.histogram_bin_edges(columns.score, bins=_HISTOGRAM_BINS).tolist()
        for label, color, members in (("ham", HAM_COLOR, ~columns.is_spam), ("spam", SPAM_COLOR, columns.is_spam)):
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
                axes.axvline(score, color=MARK_COLOR, linestyle=style, linewidth=THIN_LINE_WIDTH, label=label)
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
