"""The waterfall: how the prior and the clues of a message add up to its score.

Rules: horizontal positions are shares of the width and vertical ones are pixels, so that texts have the same size
in a drawing of any width. The drawing says nothing that a table beside it does not say.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from markupsafe import Markup

from nbstream.mail.visible_text import visible_text
from nbstream.web.admin.charts import round_step

MAX_STEPS = 40
_LABEL_COLUMNS = 34  # of some 8 pixels at most: a narrow screen has 330
_ROW_HEIGHT = 32
_BAR_TOP, _BAR_HEIGHT = 17, 11  # within a row, below its texts
_LINE_TOP = 15  # within a row: a line across all rows is drawn beside the bars, and not through the texts
_HEAD_LINE_HEIGHT = 15
_LEFT, _RIGHT = 2.0, 13.0  # in hundredths of the width, beside the axis: at the right stand the values
_MAX_NARROW_TICKS = 3  # a narrow screen has room for the labels of so many
_MIN_BAR = 0.15  # in hundredths of the width: a smaller bar is not seen


class StepKind(StrEnum):
    """What a step stands for: the prior, a clue, the rest, or the sum.

    The rest is all clues that have no step of their own, or the calibration.
    """

    PRIOR = "prior"
    CLUE = "clue"
    REST = "rest"
    SCORE = "score"


@dataclass(frozen=True, slots=True)
class Step:
    """A bar from ``start`` to ``end``, both in nats; ``label`` may be a text that others wrote."""

    kind: StepKind
    label: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A position on the axis in nats; ``label`` is ours."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis from ``low`` to ``high`` nats, with ticks, whose labels are P(spam), and the thresholds."""

    low: float
    high: float
    ticks: Sequence[Mark] = ()
    thresholds: Sequence[Mark] = ()

    def position(self, nats: float) -> float:
        """Return where on the axis this is, in hundredths of the width; what lies beyond it is at its end."""
        width = self.high - self.low
        share = (min(max(nats, self.low), self.high) - self.low) / width if width > 0 else 0.5
        return _LEFT + (100 - _LEFT - _RIGHT) * (0.5 if math.isnan(share) else share)


def draw_waterfall(steps: Sequence[Step], axis: Axis, title: str) -> Markup:
    """Return the drawing, one bar below the other, of at most 40 steps; ``title`` says what it shows."""
    steps = steps[:MAX_STEPS]
    head_lines = 2 + len(axis.thresholds)
    top = head_lines * _HEAD_LINE_HEIGHT + 6
    height = top + _ROW_HEIGHT * len(steps) + 4
    content = [
        *_draw_ticks(axis, top, len(steps)),
        *_draw_thresholds(axis, top, len(steps)),
        *(bar for row, step in enumerate(steps) for bar in _draw_step(step, axis, top + row * _ROW_HEIGHT)),
    ]
    return Markup(
        '<svg class="waterfall" width="100%" height="{}" role="img" aria-label="{}">\n{}\n</svg>'
    ).format(height, title, Markup("\n").join(content))


def ticks_between(low: float, high: float, count: int = 5) -> Sequence[float]:
    """Return about ``count`` round numbers from ``low`` to ``high``, 0 among them where it lies there."""
    if not 0 < high - low < math.inf:
        return ()
    step = round_step(high - low, count)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _draw_ticks(axis: Axis, top: int, rows: int) -> Iterator[Markup]:
    """Yield a line for each tick, the number of nats above it, and its label below that.

    Of many ticks, every second label is ``dense``: a narrow screen does not show it.
    """
    zero = next((number for number, tick in enumerate(axis.ticks) if tick.at == 0), 0)
    for number, tick in enumerate(axis.ticks):
        x = axis.position(tick.at)
        is_dense = len(axis.ticks) > _MAX_NARROW_TICKS and (number - zero) % 2
        tick_class = "tick dense" if is_dense else "tick"
        yield from _lines("grid zero" if tick.at == 0 else "grid", x, 2 * _HEAD_LINE_HEIGHT, top, rows)
        yield _text(tick_class, x, 11, f"{tick.at:+g}".replace("+0", "0"), _anchor(x))
        yield _text(f"{tick_class} probability", x, 11 + _HEAD_LINE_HEIGHT, tick.label, _anchor(x))


def _draw_thresholds(axis: Axis, top: int, rows: int) -> Iterator[Markup]:
    for number, threshold in enumerate(axis.thresholds):
        x, y = axis.position(threshold.at), (3 + number) * _HEAD_LINE_HEIGHT
        yield from _lines("threshold", x, y - 10, top, rows)
        yield _text("threshold", x, y - 2, threshold.label, "end" if x > 50 else "start")


def _draw_step(step: Step, axis: Axis, top: int) -> Iterator[Markup]:
    """Yield the bar, its texts above it, and the line from its end to the next bar."""
    change = step.end - step.start
    side = "total" if step.kind is StepKind.SCORE else "spam" if change > 0 else "ham"
    left, right = sorted((axis.position(step.start), axis.position(step.end)))
    width = max(right - left, _MIN_BAR)
    yield Markup('<rect class="bar {} {}" x="{}%" y="{}" width="{}%" height="{}"/>').format(
        step.kind.value, side, _percent(left), top + _BAR_TOP, _percent(width), _BAR_HEIGHT
    )
    if step.kind is not StepKind.SCORE:
        yield _line("link", axis.position(step.end), top + _BAR_TOP, top + _ROW_HEIGHT)
    yield _text(f"label {step.kind.value}", 0, top + 12, _shorten(visible_text(step.label, 4 * _LABEL_COLUMNS)))
    yield _text(f"value {side}", 100, top + 12, f"{change:+.2f}", "end")


def _text(css_class: str, x: float, y: int, text: str, anchor: str = "start") -> Markup:
    return Markup('<text class="{}" x="{}%" y="{}" text-anchor="{}">{}</text>').format(
        css_class, _percent(x), y, anchor, text
    )


def _line(css_class: str, x: float, top: int, bottom: int) -> Markup:
    return Markup('<line class="{}" x1="{}%" x2="{}%" y1="{}" y2="{}"/>').format(
        css_class, _percent(x), _percent(x), top, bottom
    )


def _lines(css_class: str, x: float, first: int, top: int, rows: int) -> Iterator[Markup]:
    """Yield a line from ``first`` to the first row, at ``top``, and its pieces beside the bars of all rows."""
    yield _line(css_class, x, first, top)
    for row in range(rows):
        yield _line(css_class, x, top + row * _ROW_HEIGHT + _LINE_TOP, top + (row + 1) * _ROW_HEIGHT)


def _anchor(x: float) -> str:
    """Return how a short text is put at ``x`` so that it does not leave the drawing."""
    return "start" if x < 8 else "end" if x > 92 else "middle"


def _percent(share: float) -> str:
    return f"{share:.2f}"


def _shorten(text: str) -> str:
    """Return ``text`` in the columns that a label may have; letters of East Asia have two."""
    columns = 0
    for number, width in enumerate(_column_widths(text)):
        columns += width
        if columns > _LABEL_COLUMNS:
            return f"{text[:number]}…"
    return text


def _column_widths(text: str) -> Iterable[int]:
    return (2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1 for character in text)
