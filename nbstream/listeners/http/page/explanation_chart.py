"""The drawing of an explanation: which bars, which axis, and where on it the thresholds are.

Rules: the axis is log-odds in nats, with the probability of each below. The prior and the clues add up to the
score. The calibration is a step from there to the log-odds of P(spam), where the last bar ends. The thresholds are
log-odds of probabilities too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING

from nbstream.listeners.http.page.charts.log_odds import log_odds, probability
from nbstream.listeners.http.page.charts.waterfall import Axis, Mark, Step, StepKind, draw_waterfall, round_ticks
from nbstream.listeners.http.page.rendering import format_probability
from nbstream.policy.verdict import format_threshold

if TYPE_CHECKING:
    from markupsafe import Markup

    from nbstream.policy.explanation import Explanation
    from nbstream.policy.verdict import Thresholds

DRAWN_CLUES = 14
"""How many of the strongest clues have a bar of their own."""


def make_axes(explanations: Sequence[Explanation]) -> Sequence[Axis]:
    """Return the axis of each drawing: equally long, to be compared, and each with the thresholds that decided."""
    marks = [list(_threshold_marks(each.thresholds)) for each in explanations]
    bounds = [0.0, *(mark.at for mark in chain.from_iterable(marks))]
    bounds += chain.from_iterable((step.start, step.end) for each in explanations for step in _steps(each))
    low, high = min(bounds), max(bounds)
    ticks = [Mark(tick, format_probability(probability(tick))) for tick in round_ticks(low, high)]
    return [Axis(low, high, ticks, thresholds) for thresholds in marks]


def draw_explanation(explanation: Explanation, axis: Axis, title: str) -> Markup:
    """Return the waterfall of an explanation."""
    return draw_waterfall(_steps(explanation), axis, title)


def _threshold_marks(thresholds: Thresholds) -> Iterable[Mark]:
    for name, threshold in (
        ("unsure", thresholds.unsure),
        ("spam", thresholds.spam),
        ("reject", thresholds.reject),
    ):
        if threshold is not None and threshold <= 1:  # one above it is never reached
            yield Mark(log_odds(threshold), f"{name} {format_threshold(threshold)}")


def _steps(explanation: Explanation) -> Sequence[Step]:
    clues = explanation.clues[:DRAWN_CLUES]
    sums = list(accumulate((clue.log_ratio for clue in clues), initial=explanation.prior))
    steps = [Step(StepKind.PRIOR, "prior: messages learned", 0.0, explanation.prior)]
    steps += [
        Step(StepKind.CLUE, clue.token.decode("utf-8", "replace"), start, end)
        for clue, (start, end) in zip(clues, pairwise(sums), strict=True)
    ]
    others = len(explanation.clues) - len(clues)
    if others:
        steps.append(
            Step(
                StepKind.REST,
                "1 weaker clue" if others == 1 else f"{others} weaker clues",
                sums[-1],
                explanation.score,
            )
        )
    end = log_odds(explanation.probability)
    result = f"P(spam) {format_probability(explanation.probability)}"
    return [
        *steps,
        Step(StepKind.REST, "calibration: how sure such scores were right to be", explanation.score, end),
        Step(StepKind.SCORE, result, 0.0, end),
    ]
