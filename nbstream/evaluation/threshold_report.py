"""What ``tune`` tells: a table that fits the terminal, plain answers, and the same as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbstream.evaluation.threshold_choices import ThresholdChoice, TuningResult
    from nbstream.evaluation.tuning import IntervalEstimate

SCORES_NOTE = "Each message counts by the probability that it had before its label, from the model as it was then."
BIASED_SAMPLE_TEXT = (
    "of the ham that was labelled much was not called ham: where only errors are labelled, "
    "all rates of ham called spam are too high, and no budget can be promised"
)
_BOLD, _PLAIN = "\033[1m", "\033[0m"
_GAP = 2


@dataclass(frozen=True, slots=True)
class _Column:
    """Cells under a title; where the terminal is narrow, the highest ``rank`` is left out first."""

    rank: int
    title: str
    cells: Sequence[str]

    @property
    def width(self) -> int:
        return max(map(len, (self.title, *self.cells)))


def render_text(tuning: TuningResult, model: str, *, width: int | None, bold: bool) -> str:
    """Table and answers for a reader; a ``width`` in columns or None, and the present thresholds in ``bold``."""
    present, known = tuning.present, tuning.present.error_counts
    counted = f"{known.ham + known.spam:,} messages labelled: {known.ham:,} ham, {known.spam:,} spam"
    first = f"model {model}, the last {counted}"
    now = f"present {present.setting} -> {_describe_threshold(present)}"
    answers = [describe_choice(choice) for choice in tuning.budgets]
    if tuning.other:
        answers += [
            f"{tuning.other.name}, {describe_choice(tuning.other)}",
            *_describe_verdict_changes(tuning.other),
        ]
    table = [*_render_table(tuning, width, bold=bold), ""] if known.ham or known.spam else []
    return "\n".join([first, "", *table, now, *answers, "", SCORES_NOTE])


def describe_choice(choice: ThresholdChoice) -> str:
    """What a choice would have changed, in one line."""
    if math.isinf(choice.spam_threshold):
        return f"{choice.setting} -> {_describe_threshold(choice)}"
    return f"{choice.setting} -> {_describe_threshold(choice)}: {choice.verdict_changes.to_sentence()}"


def render_json(tuning: TuningResult, model: str) -> str:
    """One JSON object on one line; null is unknown, or never reached."""
    known = tuning.present.error_counts
    return json.dumps(
        {
            "model": model,
            "messages": known.ham + known.spam,
            "ham": known.ham,
            "spam": known.spam,
            "biased": tuning.is_biased,
            "cost_ratio": tuning.cost_ratio,
            "present": _choice_members(tuning.present, tuning.cost_ratio),
            "with": _choice_members(tuning.other, tuning.cost_ratio) if tuning.other else None,
            "budgets": [_choice_members(choice, tuning.cost_ratio) for choice in tuning.budgets],
            "fixed": [_choice_members(choice, tuning.cost_ratio) for choice in tuning.fixed],
        },
        allow_nan=False,
    )


def format_threshold_rounded_up(probability: float) -> str:
    """A threshold with three digits of how far it is from 0 or 1, rounded up, so that no ham more reaches it."""
    if probability >= 1:
        return "never"
    digits = math.ceil(-math.log10(min(probability, 1 - probability))) + 2
    rounded = Decimal(repr(probability)).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING)
    return f"{rounded.normalize():f}"


def _describe_threshold(choice: ThresholdChoice) -> str:
    threshold = (
        ""
        if math.isinf(choice.spam_threshold)
        else f"threshold {format_threshold_rounded_up(choice.spam_threshold)}"
    )
    why = "" if choice.thresholds.promised else choice.thresholds.promise
    return ", ".join(filter(None, (threshold, why))) or "never"


def _describe_verdict_changes(choice: ThresholdChoice) -> Iterator[str]:
    for label in ("ham", "spam"):
        changes = sorted(
            (was, would, n) for (own, was, would), n in choice.verdict_changes.counts.items() if own == label
        )
        if changes:
            yield f"  {label}: {', '.join(f'{n:,} {was} -> {would}' for was, would, n in changes)}"


def _render_table(tuning: TuningResult, width: int | None, *, bold: bool) -> list[str]:
    choices = tuning.by_threshold()
    columns = _table_columns(choices, tuning.cost_ratio)
    while width and sum(column.width + _GAP for column in columns) - _GAP > width and len(columns) > 1:
        columns.remove(max(columns, key=lambda column: column.rank))
    first, *others = columns
    lines = []
    for row in zip(*((column.title, *column.cells) for column in columns), strict=True):
        numbers = (f"{cell:>{column.width + _GAP}}" for cell, column in zip(row[1:], others, strict=True))
        lines.append(f"{row[0]:{first.width}}{''.join(numbers)}"[:width])
    own = next(i for i, choice in enumerate(choices, start=1) if choice is tuning.present)
    if bold:
        lines[own] = f"{_BOLD}{lines[own]}{_PLAIN}"
    return lines


def _table_columns(choices: Sequence[ThresholdChoice], ratio: float) -> list[_Column]:
    lost, missed = ([*map(_percent, each)] for each in zip(*map(_error_rates, choices), strict=True))
    cost = [_percent(choice.error_counts.relative_cost(ratio)) for choice in choices]
    return [
        _Column(0, "", [choice.name for choice in choices]),
        _Column(1, "from P", [format_threshold_rounded_up(choice.spam_threshold) for choice in choices]),
        _Column(4, "ham called spam", [f"{choice.error_counts.ham_called_spam[0]:,}" for choice in choices]),
        _Column(2, "% of ham", [_format_number(share[0], 3) for share in lost]),
        _Column(8, "95 %", [_format_interval(share, 3) for share in lost]),
        _Column(5, "spam missed", [f"{choice.error_counts.spam_missed[0]:,}" for choice in choices]),
        _Column(3, "% of spam", [_format_number(share[0], 2) for share in missed]),
        _Column(9, "95 %", [_format_interval(share, 2) for share in missed]),
        _Column(6, "unsure", [f"{choice.unsure_counts.ham + choice.unsure_counts.spam:,}" for choice in choices]),
        _Column(7, f"cost at {ratio:.3g}", [_format_number(share[0], 2) for share in cost]),
    ]


def _choice_members(choice: ThresholdChoice, ratio: float) -> dict[str, Any]:
    lost, missed = map(_percent, _error_rates(choice))
    cost = _percent(choice.error_counts.relative_cost(ratio))
    thresholds = choice.thresholds
    return {
        "name": choice.name,
        "setting": choice.setting,
        "unsure_from": _finite_or_none(thresholds.unsure),
        "spam_from": _finite_or_none(thresholds.spam),
        "reject_from": _finite_or_none(thresholds.reject or math.inf),
        "promise": thresholds.promise or None,
        "ham_called_spam": int(choice.error_counts.ham_called_spam[0]),
        "ham_called_spam_percent": lost[0],
        "ham_called_spam_percent_95": lost[1:] if lost[0] is not None else None,
        "spam_missed": int(choice.error_counts.spam_missed[0]),
        "spam_missed_percent": missed[0],
        "spam_missed_percent_95": missed[1:] if missed[0] is not None else None,
        "ham_unsure": choice.unsure_counts.ham,
        "spam_unsure": choice.unsure_counts.spam,
        "cost_percent": cost[0],
        "cost_percent_95": cost[1:] if cost[0] is not None else None,
        "answer": describe_choice(choice),
        "moves": [
            {"label": label, "was": was, "would": would, "messages": count}
            for (label, was, would), count in sorted(choice.verdict_changes.counts.items())
        ],
    }


def _error_rates(choice: ThresholdChoice) -> tuple[IntervalEstimate, IntervalEstimate]:
    return choice.error_counts.ham_called_spam_rate(), choice.error_counts.spam_missed_rate()


def _percent(estimate: IntervalEstimate) -> tuple[float | None, float | None, float | None]:
    value, low, high = (_finite_or_none(100 * float(each[0])) for each in estimate)
    return value, low, high


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _format_number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _format_interval(percents: tuple[float | None, float | None, float | None], digits: int) -> str:
    value, low, high = percents
    return "-" if value is None else f"{_format_number(low, digits)} to {_format_number(high, digits)}"
