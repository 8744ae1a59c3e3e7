"""The picture of a run: ROC curve, learning curve and score histograms, for one column of a paper.

Rules: matplotlib's objects, not pyplot, so that nothing is kept between two pictures; what a run does not have,
ham or spam or errors, is left out of its picture.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nbstream.evaluation import measures
from nbstream.evaluation.plot_style import HAM, LINE, MARK, ORDER, SPAM, THIN, finish
from nbstream.policy.verdict import shown

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from nbstream.evaluation.report import Columns
    from nbstream.policy.verdict import Thresholds

_SIZE_INCHES = (3.5, 7.4)
_DOTS_PER_INCH = 200
_RATES = {0.001: ":", 0.005: "--"}
_STEPS = 100  # of the learning curve
_BINS = 60


def draw(path: Path, columns: Columns, skipped: int, thresholds: Thresholds) -> None:
    """Write the picture as a PNG file. Raises ``OSError``."""
    picture(columns, skipped, thresholds).savefig(path, format="png")


def picture(columns: Columns, skipped: int, thresholds: Thresholds) -> Figure:
    """The picture of the measured messages, before which ``skipped`` came."""
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
    roc, learning, histogram = figure.subplots(3)
    _draw_roc(roc, columns)
    _draw_learning(learning, columns, skipped)
    _draw_scores(histogram, columns, thresholds)
    return figure


def _draw_roc(axes: Axes, columns: Columns) -> None:
    """Ham lost against spam missed, on log scales: the nearer to the lower left corner the better."""
    is_spam, called = columns.is_spam, columns.called_spam
    hm, sm = measures.hm_percent(is_spam, called), measures.sm_percent(is_spam, called)
    if hm is not None and sm is not None:
        # A log scale has no zero: what none of n messages are is drawn on the edge, as if half of one were.
        spams = int(is_spam.sum())
        left, low = 50.0 / (len(is_spam) - spams), 50.0 / spams
        lost, missed = measures.roc_percent(is_spam, columns.score)
        shown = slice(int(np.searchsorted(lost, 0.0, side="right")) - 1, int(np.argmin(missed)) + 1)
        axes.step(
            np.maximum(lost, left)[shown], np.maximum(missed, low)[shown], where="post",
            color=ORDER, linewidth=LINE, label="scores",
        )  # fmt: skip
        axes.plot(
            max(hm, left), max(sm, low), "o", color=SPAM, clip_on=False, zorder=3,
            label=f"verdicts: {hm:.2f} %, {sm:.2f} %",
        )  # fmt: skip
        for rate, style in _RATES.items():
            at_rate = measures.fn_at_fp_percent(is_spam, columns.score, rate)
            label = f"at {100 * rate:g} %: {at_rate:.2f} %"
            axes.axvline(100 * rate, color=MARK, linestyle=style, linewidth=THIN, label=label)
        axes.set(xscale="log", yscale="log", xlim=(left, 100), ylim=(low, 100))
    finish(axes, "ham called spam (%)", "spam missed (%)")


def _draw_learning(axes: Axes, columns: Columns, skipped: int) -> None:
    """How the measures, each over all messages so far, get better with the messages seen."""
    n = len(columns.is_spam)
    ends = np.unique(np.linspace(0, n, _STEPS + 1).astype(int))[1:]
    so_far = [(columns.is_spam[:end], columns.score[:end], columns.called_spam[:end]) for end in ends]
    lines = (
        ("1 - AUC", ORDER, "-", [measures.one_minus_auc_percent(is_spam, score) for is_spam, score, _ in so_far]),
        ("spam missed", SPAM, "--", [measures.sm_percent(is_spam, called) for is_spam, _, called in so_far]),
        ("ham called spam", HAM, "-.", [measures.hm_percent(is_spam, called) for is_spam, _, called in so_far]),
    )
    for label, color, style, values in lines:
        known = np.array([value or math.nan for value in values])  # zero has no place on a log scale
        if not np.isnan(known).all():
            axes.semilogy(skipped + ends, known, color=color, linestyle=style, linewidth=LINE, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    finish(axes, "messages seen", "over all so far (%)")


def _draw_scores(axes: Axes, columns: Columns, thresholds: Thresholds) -> None:
    """How many ham and spam got which score, and where the verdicts begin."""
    if len(columns.score):
        edges = np.histogram_bin_edges(columns.score, bins=_BINS).tolist()
        for label, color, chosen in (("ham", HAM, ~columns.is_spam), ("spam", SPAM, columns.is_spam)):
            if chosen.any():
                axes.hist(
                    columns.score[chosen], edges, histtype="stepfilled", log=True,
                    facecolor=(color, 0.25), edgecolor=color, label=label,
                )  # fmt: skip
        verdicts = {"unsure": thresholds.unsure, "spam": thresholds.spam, "reject": thresholds.reject}
        for (name, threshold), style in zip(verdicts.items(), (":", "--", "-."), strict=True):
            score = _score_at(columns, threshold) if threshold else None
            if threshold and score is not None:
                label = f"{name} from P = {shown(threshold)} on"
                axes.axvline(score, color=MARK, linestyle=style, linewidth=THIN, label=label)
    finish(axes, "score: log-odds of spam (nats)", "messages")


def _score_at(columns: Columns, probability: float) -> float | None:
    """The score at which P(spam) reaches ``probability``, read off the two nearest messages; None beyond all.

    Read off, since the map from scores to probabilities may have moved along the stream.
    """
    below = np.flatnonzero(columns.probability < probability)
    above = np.flatnonzero(columns.probability >= probability)
    if not len(below) or not len(above):
        return None
    nearest = [below[columns.probability[below].argmax()], above[columns.probability[above].argmin()]]
    return float(np.interp(probability, columns.probability[nearest], columns.score[nearest]))
