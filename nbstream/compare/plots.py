"""The plot of a comparison: the errors of both filters over the days, ham lost and spam passed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nbstream.compare.comparison import CLASSES
from nbstream.compare.report import OURS, day_of
from nbstream.evaluation.plots import DOTS_PER_INCH, HAM_COLOR, SPAM_COLOR, finish_axes, save_figure

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.compare.comparison import Comparison

_SIZE_INCHES = (7.2, 3.0)
_TITLES = {"ham": "ham called spam, so far", "spam": "spam passed, so far"}


def write_comparison_plot(path: Path, comparison: Comparison) -> None:
    """Write the plot in the format of the file's suffix; raises ``OSError``."""
    save_figure(path, comparison_figure(comparison))


def comparison_figure(comparison: Comparison) -> Figure:
    """Return the plot: a panel for each class, with the errors of each filter summed up to each day."""
    figure = Figure(figsize=_SIZE_INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    days = comparison.by_day(day_of)
    for axes, label in zip(figure.subplots(1, 2), CLASSES, strict=True):
        errors = [of[label] for of in days.values()]
        for name, counts, color, style in (
            (comparison.other, [of.other for of in errors], SPAM_COLOR, "--"),
            (OURS, [of.ours for of in errors], HAM_COLOR, "-"),
        ):
            if counts:
                axes.plot(list(days), np.cumsum(counts), style, color=color, marker=".", label=name)
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.set_ylim(bottom=0)
        finish_axes(axes, "day of the check", _TITLES[label], narrow=True)
    return figure
