"""The drawing of an explanation: which bars, which axis, and where on it the thresholds are.

Rules: the axis is the score in nats. The calibration turns a score into P(spam), and thresholds are such
probabilities. So where they are on the axis follows from the calibration, which is that of now in every drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, TypeAlias

from nbstream.listeners.http.page.charts.waterfall import Axis, Mark, Step, StepKind, draw_waterfall, round_ticks
from nbstream.listeners.http.page.rendering import format_probability
from nbstream.listeners.http.page.texts import text
from nbstream.policy.verdict import format_threshold

if TYPE_CHECKING:
    from markupsafe import Markup

    from nbstream.policy.explanation import Explanation
    from nbstream.policy.verdict import Thresholds

ProbabilityCurve: TypeAlias = "Callable[[float], float]"
"""P(spam) as a function of the score in nats; it never falls."""

DRAWN_CLUES = 14
"""How many of the strongest clues have a bar of their own."""

_MAX_SCORE = 1000.0  # nats: 144 clues have no more
_HALVINGS = 50


def score_reaching(probability: float, curve: ProbabilityCurve) -> float | None:
    """Return the smallest score in nats that has at least this P(spam), or None where none has."""
    low, high = -_MAX_SCORE, _MAX_SCORE
    if not curve(high) >= probability:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if curve(middle) >= probability else (middle, high)
    return high


def make_axes(explanations: Sequence[Explanation], curve: ProbabilityCurve) -> Sequence[Axis]:
    """Return the axis of each drawing: equally long, to be compared, and each with the thresholds that decided."""
    marks = [list(_threshold_marks(each.thresholds, curve)) for each in explanations]
    bounds = [0.0, *(mark.at for mark in chain.from_iterable(marks))]
    bounds += chain.from_iterable((step.start, step.end) for each in explanations for step in _steps(each))
    low, high = min(bounds), max(bounds)
    ticks = [Mark(tick, format_probability(curve(tick))) for tick in round_ticks(low, high)]
    return [Axis(low, high, ticks, thresholds) for thresholds in marks]


def draw_explanation(explanation: Explanation, axis: Axis, title: str) -> Markup:
    """Return the waterfall of an explanation."""
    return draw_waterfall(_steps(explanation), axis, title)


def _threshold_marks(thresholds: Thresholds, curve: ProbabilityCurve) -> Iterable[Mark]:
    for name, threshold in (
        ("unsure", thresholds.unsure),
        ("spam", thresholds.spam),
        ("reject", thresholds.reject),
    ):
        at = None if threshold is None else score_reaching(threshold, curve)
        if threshold is not None and at is not None:
            yield Mark(at, f"{name} {format_threshold(threshold)}")


def _steps(explanation: Explanation) -> Sequence[Step]:
    clues = explanation.clues[:DRAWN_CLUES]
    sums = list(accumulate((clue.log_ratio for clue in clues), initial=explanation.prior))
    steps = [Step(StepKind.PRIOR, text("message.prior"), 0.0, explanation.prior)]
    steps += [
        Step(StepKind.CLUE, clue.token.decode("utf-8", "replace"), start, end)
        for clue, (start, end) in zip(clues, pairwise(sums), strict=True)
    ]
    others = len(explanation.clues) - len(clues)
    if others:
        steps.append(Step(StepKind.REST, text("message.more_clues", count=others), sums[-1], explanation.score))
    return [*steps, Step(StepKind.SCORE, text("message.score"), 0.0, explanation.score)]
