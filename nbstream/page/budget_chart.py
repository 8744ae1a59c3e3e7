"""How a budget was used over time: ham that was lost, and ham that the budget allowed to be lost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from nbstream.page.axes import Frame, coordinate, round_ticks

if TYPE_CHECKING:
    from nbstream.policy.first_scores import BudgetUse

FRAME = Frame(width=400, height=220, left=48, top=28, right=64, narrow_font=13)
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
    x_scale, y_scale = FRAME.x_scale(uses[0].at, now.at), FRAME.y_scale(0, ticks[-1])
    xs = [coordinate(x_scale.position(use.at)) for use in uses]
    drawn = []
    for name, values in (("allowed", allowed), ("lost", lost)):
        points = (f"{x} {coordinate(y_scale.position(value))}" for x, value in zip(xs, values, strict=True))
        start = f"{coordinate(x_scale.start)} {coordinate(y_scale.start)}"
        drawn.append(Markup('<path class="line {}" d="M{}L{}"/>').format(name, start, "L".join(points)))
    ends = {"lost": y_scale.position(lost[-1]), "allowed": y_scale.position(allowed[-1])}
    content = (
        FRAME.y_axis(y_scale, ticks),
        FRAME.x_axis(x_scale, [(use.at, _day(use.at)) for use in (uses[0], now)] if len(uses) > 1 else ()),
        *drawn,
        *_names(ends),
        FRAME.y_axis_name("ham"),
    )
    return FRAME.drawing("budget", title, description, content)


def _names(ends: dict[str, float]) -> list[Markup]:
    """Return the names of both lines beside their ends, one below the other where the ends are near."""
    upper, lower = sorted(ends, key=lambda name: ends[name])
    y_upper = min(ends[upper], FRAME.height - FRAME.bottom - _LINE_HEIGHT)
    y_lower = max(ends[lower], y_upper + _LINE_HEIGHT)
    return [
        Markup('<text class="name {}" x="{}" y="{}" dy="0.32em">{}</text>').format(
            name, FRAME.width - FRAME.right + 6, coordinate(y), name
        )
        for name, y in ((upper, y_upper), (lower, y_lower))
    ]


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
