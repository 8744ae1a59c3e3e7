"""The common style of all plots: colours, sizes, axes and legends.

Rules: colour-blind readers can distinguish the colours (Okabe and Ito, "Color universal design", 2008), and lines
differ in style as well. A legend stands above its panel, where it hides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, NullFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HAM_COLOR, SPAM_COLOR, SCORE_COLOR, MARK_COLOR = "#0072B2", "#D55E00", "#009E73", "#555555"
LINE_WIDTH, THIN_LINE_WIDTH = 1.2, 0.9
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
