"""The drawings: how the clues of a message add up to P(spam), and where P(spam) was before the labels.

Rules: they are pure functions from data to SVG. Horizontal positions are hundredths of the width and vertical
ones are pixels, so that texts have the same size in a drawing of any width. The style sheet gives the classes
their look in light and dark. A drawing says nothing that a table beside it does not say. All texts are escaped
here, and no number that comes in leaves the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from nbstream.mail.visible_text import visible_text
from nbstream.policy.verdict import format_threshold
from nbstream.web.rendering import format_probability

if TYPE_CHECKING:
    from nbstream.evaluation.tuning import ScoreClass
    from nbstream.policy.check import Explanation
    from nbstream.policy.verdict import Thresholds

DRAWN_CLUES = 14
"""How many of the strongest clues have a bar of their own."""

_MAX_LOG_ODDS = 36.0  # those of the largest number below 1
_LINE_HEIGHT = 15


def log_odds(p: float) -> float:
    """Return ln(p / (1 - p)), at most 36 and at least -36; that is also what 1, infinity and 0 give."""
    if 0 < p < 1:
        return max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, math.log(p) - math.log1p(-p)))
    return _MAX_LOG_ODDS if p >= 1 else -_MAX_LOG_ODDS


def _reachable(thresholds: Thresholds) -> Iterator[tuple[str, float]]:
    """Yield the thresholds that a message can reach, with their names."""
    named = {"unsure": thresholds.unsure, "spam": thresholds.spam, "reject": thresholds.reject}
    return ((f"{name} {format_threshold(p)}", p) for name, p in named.items() if p is not None and p <= 1)


def _svg(height: int, title: str, content: Iterable[Markup]) -> Markup:
    return Markup('<svg class="drawing" width="100%" height="{}" role="img" aria-label="{}">\n{}\n</svg>').format(
        height, title, Markup("\n").join(content)
    )


def _text(css_class: str, x: float, y: int, text: str, anchor: str = "middle") -> Markup:
    return Markup('<text class="{}" x="{:.2f}%" y="{}" text-anchor="{}">{}</text>').format(
        css_class, x, y, anchor, text
    )


def _line(css_class: str, x: float, top: int, bottom: int) -> Markup:
    return Markup('<line class="{}" x1="{:.2f}%" x2="{:.2f}%" y1="{}" y2="{}"/>').format(
        css_class, x, x, top, bottom
    )


def _bar(css_class: str, x: float, width: float, y: int, height: int) -> Markup:
    return Markup('<rect class="bar {}" x="{:.2f}%" y="{}" width="{:.2f}%" height="{}"/>').format(
        css_class, x, y, width, height
    )


# The bars of an explanation.
#
# Rules: the axis is log-odds in nats, with the probability of each below. The prior and the clues add up to the
# score. The calibration is a step from there to the log-odds of P(spam), where the last bar ends.

_ROW_HEIGHT, _BAR_TOP, _BAR_HEIGHT = 32, 17, 11  # of a step: its texts stand above its bar
_LABEL_LENGTH, _WIDE_LABEL_LENGTH = 34, 17  # a narrow screen has 330 pixels; letters of East Asia are wide
_LEFT, _RIGHT = 2.0, 13.0  # beside the axis: at the right stand the values
_MAX_NARROW_TICKS = 3  # a narrow screen has room for the labels of so many
_MIN_BAR = 0.15  # a smaller bar is not seen
_TITLE = "How the clues added up to P(spam). The table of clues says the same in numbers."


class Step(NamedTuple):
    """A bar from ``start`` to ``end``, both in nats; ``label`` may be a text that others wrote.

    ``kind`` is its class: prior, clue, rest (all that has no bar of its own) or score (the sum).
    """

    kind: str
    label: str
    start: float
    end: float


def draw_explanation(explanation: Explanation) -> Markup:
    """Return the drawing of an explanation, with the thresholds that decided."""
    marks = {name: log_odds(p) for name, p in _reachable(explanation.thresholds)}
    return draw_steps(list(_steps(explanation)), marks)


def _steps(explanation: Explanation) -> Iterator[Step]:
    clues = explanation.clues[:DRAWN_CLUES]
    sums = list(accumulate((clue.log_ratio for clue in clues), initial=explanation.prior))
    yield Step("prior", "prior: messages learned", 0.0, explanation.prior)
    for clue, (start, end) in zip(clues, pairwise(sums), strict=True):
        yield Step("clue", clue.token.decode("utf-8", "replace"), start, end)
    others = len(explanation.clues) - len(clues)
    if others:
        label = "1 weaker clue" if others == 1 else f"{others} weaker clues"
        yield Step("rest", label, sums[-1], explanation.score)
    end = log_odds(explanation.probability)
    yield Step("rest", "calibration", explanation.score, end)
    yield Step("score", f"P(spam) {format_probability(explanation.probability)}", 0.0, end)


def draw_steps(steps: Sequence[Step], thresholds: Mapping[str, float]) -> Markup:
    """Return the drawing, one bar below the other; ``thresholds`` are in nats, by their labels, which are ours."""
    bounds = [0.0, *thresholds.values(), *chain.from_iterable((step.start, step.end) for step in steps)]
    low, high = min(bounds), max(bounds)

    def position(nats: float) -> float:
        share = (nats - low) / (high - low) if 0 < high - low < math.inf else 0.5
        return _LEFT + (100 - _LEFT - _RIGHT) * (0.5 if math.isnan(share) else min(max(share, 0.0), 1.0))

    top = (2 + len(thresholds)) * _LINE_HEIGHT + 6
    bottom = top + _ROW_HEIGHT * len(steps)
    ticks = ticks_between(low, high)
    content = []
    for number, tick in enumerate(ticks):
        is_dense = len(ticks) > _MAX_NARROW_TICKS and (number - ticks.index(0.0)) % 2
        x, css_class = position(tick), "tick dense" if is_dense else "tick"  # a narrow screen does not show it
        content += [
            _line("grid zero" if tick == 0 else "grid", x, 2 * _LINE_HEIGHT, bottom),
            _text(css_class, x, 11, f"{tick:+g}".replace("+0", "0"), _anchor(x)),
            _text(css_class, x, 11 + _LINE_HEIGHT, format_probability(_probability(tick)), _anchor(x)),
        ]
    for number, (label, nats) in enumerate(thresholds.items()):
        x, y = position(nats), (3 + number) * _LINE_HEIGHT
        content += [
            _line("threshold", x, y - 10, bottom),
            _text("threshold", x, y - 2, label, "end" if x > 50 else "start"),
        ]
    for row, step in enumerate(steps):
        content += _draw_step(step, position(step.start), position(step.end), top + row * _ROW_HEIGHT)
    return _svg(bottom + 4, _TITLE, content)


def ticks_between(low: float, high: float) -> Sequence[float]:
    """Return about five round numbers from ``low`` to ``high``, between which 0 lies."""
    if not 0 < high - low < math.inf:
        return ()
    rough = max((high - low) / 5, 1e-9)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * factor for factor in (1, 2, 5) if power * factor >= rough), power * 10)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _draw_step(step: Step, start: float, end: float, top: int) -> Iterator[Markup]:
    """Yield the bar, its texts above it, and the line from its end to the next bar."""
    change = step.end - step.start
    side = "total" if step.kind == "score" else "spam" if change > 0 else "ham"
    left, right = sorted((start, end))
    yield _bar(f"{step.kind} {side}", left, max(right - left, _MIN_BAR), top + _BAR_TOP, _BAR_HEIGHT)
    if step.kind != "score":
        yield _line("link", end, top + _BAR_TOP, top + _ROW_HEIGHT)
    length = _LABEL_LENGTH if step.label[:_LABEL_LENGTH].isascii() else _WIDE_LABEL_LENGTH
    shown = visible_text(step.label, length) + ("…" if len(step.label) > length else "")
    yield _text(f"label {step.kind}", 0, top + 12, shown, "start")
    yield _text(f"value {side}", 100, top + 12, f"{change:+.2f}", "end")


def _probability(odds: float) -> float:
    return 1 / (1 + math.exp(-max(-_MAX_LOG_ODDS, odds)))


def _anchor(x: float) -> str:
    """Return how a short text is put at ``x`` so that it does not leave the drawing."""
    return "start" if x < 8 else "end" if x > 92 else "middle"


# The histogram of what was labelled.
#
# Rules: ham stands above the middle line and spam hangs below it, so that nobody needs their colours. The counts
# are on a log scale, since it is the few messages on the wrong side that matter.

_HEAD = 3 * _LINE_HEIGHT + 14  # the names of the thresholds, and the number above the highest bar
_HALF = 80  # the height of the highest bar


def draw_histogram(classes: Sequence[ScoreClass], thresholds: Thresholds) -> Markup:
    """Return how many messages had which P(spam) before their labels, and the thresholds."""
    highest = math.log1p(max(1, *(max(each.ham, each.spam) for each in classes)))
    width, middle, bottom = 100 / len(classes), _HEAD + _HALF, _HEAD + 2 * _HALF + _LINE_HEIGHT
    content = [_bar("axis", 0, 100, middle, 1)]
    for number, each in enumerate(classes):
        x = number * width
        for label, count in (("ham", each.ham), ("spam", each.spam)):
            height = round(_HALF * math.log1p(count) / highest)
            if count:
                top, y = (
                    (middle - height, middle - height - 4) if label == "ham" else (middle, middle + height + 12)
                )
                content.append(_bar(label, x + width / 10, width * 0.8, top, height))
                shown = str(count) if count < 1000 else f"{count / 1000:.3g}k"
                content.append(_text("tick", x + width / 2, y, shown))
        content.append(_text("tick dense" if number % 2 else "tick", x, bottom + 12, f"{each.low:g}", _anchor(x)))
    content.append(_text("tick", 100, bottom + 12, "1", "end"))
    for row, (name, p) in enumerate(_reachable(thresholds)):
        number, each = next((n, each) for n, each in enumerate(classes) if p < each.high or each.high == 1)
        low, high = log_odds(each.low), log_odds(each.high)
        x, y = width * (number + (log_odds(p) - low) / (high - low)), (row + 1) * _LINE_HEIGHT
        content += [
            _line("threshold", x, y - 10, bottom),
            _text("threshold", x, y - 2, name, "end" if x > 50 else "start"),
        ]
    return _svg(bottom + 16, "P(spam) of ham (above the line) and of spam (below it) before their labels", content)
