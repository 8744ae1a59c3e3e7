"""What charts have: scales, axes and a frame.

Rules of the charts: they are pure functions from data to SVG. A chart has no colours, fonts or widths of its
own, only classes, which the style sheet gives their look in light and dark. It has a title and a description for
those who do not see it. All texts are escaped there. No number that comes in makes a coordinate that is not
finite, or is outside of the view box.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress

from markupsafe import Markup

_LABEL_CHARACTERS = 8  # the frame has room for so many
_CHARACTER_WIDTH = 0.62  # of a digit, in sizes of its font
_LABEL_GAP = 6.0
_FONT, _NARROW_FONT = 11.0, 21.0  # where there is room, and on a narrow screen, as the style sheet has them


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale from the numbers ``low`` … ``high`` to the positions ``start`` … ``end`` in the drawing."""

    low: float
    high: float
    start: float
    end: float

    def position(self, value: float) -> float:
        """Return where ``value`` is drawn: what is beyond the scale is drawn at its end, and NaN at its start."""
        width = self.high - self.low
        if math.isnan(value) or not 0 < width < math.inf:
            return self.start
        share = (min(max(value, self.low), self.high) - self.low) / width
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Frame:
    """A drawing of this size, and the rectangle in it where the data are drawn; the rest is for axes.

    Labels that have no room on a narrow screen are of the class ``dense``, and are not shown there.
    """

    width: int = 720
    height: int = 240
    left: int = 60
    right: int = 12
    top: int = 12
    bottom: int = 28

    def x_scale(self, low: float, high: float) -> Scale:
        """Return the scale from the left edge to the right one."""
        return Scale(low, high, self.left, self.width - self.right)

    def y_scale(self, low: float, high: float) -> Scale:
        """Return the scale from the lower edge to the upper one."""
        return Scale(low, high, self.height - self.bottom, self.top)

    def drawing(self, chart_class: str, title: str, description: str, content: Iterable[Markup]) -> Markup:
        """Return the drawing; screen readers say ``title`` and ``description`` and nothing of the content."""
        return Markup(
            '<svg class="chart {}" viewBox="0 0 {} {}" role="img" aria-label="{}">\n<desc>{}</desc>\n{}\n</svg>'
        ).format(chart_class, self.width, self.height, f"{title}. {description}", description, lines(content))

    def x_axis(self, scale: Scale, ticks: Iterable[tuple[float, str]]) -> Markup:
        """Return the axis below the data, with a mark and a label for each of the ticks (value, label).

        Of two ticks whose labels would touch each other, the later one is left out.
        """
        y = self.height - self.bottom
        axis = Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            self.left, self.width - self.right, y, y
        )
        placed = [(scale.position(value), label) for value, label in ticks]
        placed = list(compress(placed, _are_free(self._extent(each, _FONT) for each in placed)))
        extents = (self._extent(each, _NARROW_FONT) for each in placed)
        marks = (
            Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
                (x := coordinate(position)), x, y, y + 4
            )
            + Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
                tick_class, x, y + 18, self._anchor(position, label), label
            )
            for (position, label), tick_class in zip(placed, _tick_classes(extents), strict=True)
        )
        return lines((axis, *marks))

    def _extent(self, placed: tuple[float, str], font: float) -> tuple[float, float]:
        """Return from where to where a label below the data goes in a font of this size, with a gap."""
        x, label = placed
        length = len(label) * font * _CHARACTER_WIDTH + _LABEL_GAP
        start = x - length * {"start": 0.0, "middle": 0.5, "end": 1.0}[self._anchor(x, label)]
        return start, start + length

    def _anchor(self, x: float, label: str) -> str:
        """Return how ``label`` is put at ``x`` so that it stays below the data, also where its font is large."""
        half = len(label) * _NARROW_FONT * _CHARACTER_WIDTH / 2
        if x - half < self.left:
            return "start"
        return "end" if x + half > self.width - self.right else "middle"


def _tick_classes(extents: Iterable[tuple[float, float]]) -> Iterator[str]:
    """Yield the class of each label, of which the extent on a narrow screen is given.

    Of two that would touch each other there, the later one is ``dense``.
    """
    return ("tick" if is_free else "tick dense" for is_free in _are_free(extents))


def _are_free(extents: Iterable[tuple[float, float]]) -> Iterator[bool]:
    """Yield for each label whether it touches none of those before it that are free."""
    taken: list[tuple[float, float]] = []
    for start, end in extents:
        is_free = all(end <= other_start or other_end <= start for other_start, other_end in taken)
        if is_free:
            taken.append((start, end))
        yield is_free


def lines(parts: Iterable[Markup]) -> Markup:
    """Return the parts, each on a line of its own."""
    return Markup("\n").join(parts)


def coordinate(position: float) -> str:
    """Return a coordinate in as few characters as a tenth of a unit needs."""
    return f"{position:.1f}".removesuffix(".0")


def round_step(width: float, count: int) -> float:
    """Return 1, 2 or 5 times a power of ten, the least that fits into ``width`` at most ``count`` times."""
    rough = max(width / count, 1e-9)
    power = 10.0 ** math.floor(math.log10(rough))
    return next((power * factor for factor in (1, 2, 5) if power * factor >= rough * (1 - 1e-9)), power * 10)


def tick_label(value: float) -> str:
    """Return a number in a few characters, such as ``0.05``, ``250``, ``12k`` or ``1.5M``."""
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= limit:
            label = f"{value / divisor:.4g}{unit}"
            break
    else:
        label = f"{value:.4g}"
    return label if len(label) <= _LABEL_CHARACTERS else f"{value:.0e}"


# Log-odds as an axis for probabilities: 0.9, 0.99 and 0.999 are about equally far from each other.

_MAX_LOG_ODDS = 36.0  # those of the largest number below 1


def log_odds(p: float) -> float:
    """Return ln(p / (1 - p)), at most 36 and at least -36; that is also what 1, infinity and 0 give."""
    if 0 < p < 1:
        return max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, math.log(p) - math.log1p(-p)))
    return _MAX_LOG_ODDS if p >= 1 else -_MAX_LOG_ODDS


def probability(odds: float) -> float:
    """Return the probability with these log-odds."""
    return 1 / (1 + math.exp(-odds))
