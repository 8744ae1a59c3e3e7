"""The view thresholds: how much ham each threshold would have lost of the mail that was labelled last.

Rules: what is said is what ``nbstream tune`` prints, by the same functions over the same prequential scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from nbstream.evaluation.threshold_report import sample_warnings, threshold_columns
from nbstream.evaluation.tuning import compare_thresholds, policies_of_rules, score_classes
from nbstream.policy.verdict import format_threshold
from nbstream.web.admin.charts import Frame, Scale, coordinate, log_odds, tick_label
from nbstream.web.requests import Page, PageRefused, PageRequest, PageRoute, View

if TYPE_CHECKING:
    from nbstream.evaluation.tuning import ScoreClass
    from nbstream.policy.recipient_rules import RecipientRules
    from nbstream.policy.thresholds import PrequentialScores
    from nbstream.policy.verdict import ModelState, Thresholds

_ROW = 26  # height of the name of one threshold, above the data
_FRAME = Frame(height=320, left=12, top=3 * _ROW + 6)
_COLUMNS = ("threshold", "from P", "ham called spam", "% of ham", "spam missed", "% of spam")
_TITLE = "P(spam) of ham and spam before their labels"
_DESCRIPTION = "Ham above the middle line, spam below it, on a logarithmic scale; P(spam) from left to right."


class ThresholdsView(View):
    """The thresholds, and what others would have done.

    ``state`` is None before the counts are loaded. ``rules`` are those in force.
    """

    navigation = ("/ui/thresholds", "Thresholds")

    def __init__(
        self,
        model: str,
        prequential_scores: Callable[[], PrequentialScores],
        state: Callable[[], ModelState | None],
        rules: Callable[[], RecipientRules],
    ) -> None:
        self._model = model
        self._prequential_scores = prequential_scores
        self._state = state
        self._rules_in_force = rules

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the view."""
        return (PageRoute("GET", "/ui/thresholds", self._show),)

    async def _show(self, request: PageRequest) -> Page:
        state, prequential_scores, rules = self._state(), self._prequential_scores(), self._rules_in_force()
        if state is None:
            raise PageRefused(503, "The counts are not loaded yet. Reload the page in a moment.")
        tuning = compare_thresholds(
            prequential_scores,
            rules.default.policy,
            policies_of_rules(rules),
            prequential_scores.learned_at(state),
        )
        counts = tuning.present.error_counts
        return Page(
            "admin/thresholds.html",
            {
                "model": self._model,
                "counts": counts,
                "left_out": tuning.sample.left_out,
                "warnings": sample_warnings(tuning, self._model) if counts.ham or counts.spam else (),
                "learning": state if state.is_learning else None,
                "histogram": draw_histogram(score_classes(tuning.sample), tuning.present.thresholds),
                "columns": [column for column in threshold_columns(tuning) if column.title in _COLUMNS],
                "present_row": tuning.by_threshold().index(tuning.present),
            },
        )


def draw_histogram(classes: Sequence[ScoreClass], thresholds: Thresholds) -> Markup:
    """Return the histogram as SVG, with the thresholds.

    Ham stands above the middle line and spam hangs below it, so that nobody needs their colours. The counts are on
    a log scale, since it is the few messages on the wrong side that matter.
    """
    highest = max(1, *(max(each.ham, each.spam) for each in classes))
    x_scale, y_scale = _FRAME.x_scale(0, len(classes)), _FRAME.y_scale(-1.25, 1.25)
    bars = [
        bar
        for number, each in enumerate(classes)
        for label, count, sign in (("ham", each.ham, 1), ("spam", each.spam, -1))
        if count
        for bar in _bar(label, count, x_scale, y_scale, number, sign * math.log1p(count) / math.log1p(highest))
    ]
    ticks = [(float(number), f"{each.low:g}") for number, each in enumerate(classes)]
    axis = _FRAME.x_axis(x_scale, [*ticks, (float(len(classes)), "1")])
    return _FRAME.drawing("histogram", _TITLE, _DESCRIPTION, [*bars, axis, *_marks(classes, thresholds, x_scale)])


def _bar(label: str, count: int, x_scale: Scale, y_scale: Scale, number: int, height: float) -> Iterator[Markup]:
    """Yield a bar from the middle line, and its number of messages beyond its end."""
    left, right = x_scale.position(number + 0.1), x_scale.position(number + 0.9)
    middle, end = y_scale.position(0), y_scale.position(height)
    yield Markup('<path class="area {}" d="M{x1} {y0}L{x1} {y}L{x2} {y}L{x2} {y0}Z"/>').format(
        label, x1=coordinate(left), x2=coordinate(right), y0=coordinate(middle), y=coordinate(end)
    )
    yield Markup('<text class="tick" x="{}" y="{}" dy="0.32em" text-anchor="middle">{}</text>').format(
        coordinate((left + right) / 2), coordinate(end + math.copysign(10, end - middle)), tick_label(count)
    )


def _marks(classes: Sequence[ScoreClass], thresholds: Thresholds, x_scale: Scale) -> Iterator[Markup]:
    """Yield a line for each threshold that can be reached, and its name, each in a row of its own."""
    named: Mapping[str, float | None] = {
        "unsure": thresholds.unsure,
        "spam": thresholds.spam,
        "reject": thresholds.reject,
    }
    for row, (name, p) in enumerate(named.items()):
        if p is None or p > 1:
            continue
        number, each = next((n, each) for n, each in enumerate(classes) if p < each.high or each.high == 1)
        low, high = log_odds(each.low), log_odds(each.high)
        position = x_scale.position(number + (log_odds(p) - low) / (high - low))
        x, y = coordinate(position), row * _ROW + 14
        yield Markup('<line class="threshold" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            x, x, y - 8, _FRAME.height - _FRAME.bottom
        )
        is_right = position > _FRAME.width / 2
        yield Markup('<text class="name" x="{}" y="{}" text-anchor="{}">{}</text>').format(
            coordinate(position + (-5 if is_right else 5)),
            y,
            "end" if is_right else "start",
            f"{name} from {format_threshold(p)}",
        )
