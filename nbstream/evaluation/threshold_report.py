"""What is said of thresholds: a table of them, a histogram, plain answers; for the terminal, and as JSON."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from nbstream.evaluation.measures import finite_or_none
from nbstream.evaluation.tuning import score_classes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbstream.evaluation.measures import IntervalEstimate
    from nbstream.evaluation.tuning import ThresholdChoice, TuningResult

SCORES_NOTE = "Each message counts by the probability that it had before its label, from the model as it was then."
BIASED_SAMPLE_TEXT = (
    "of the ham that was labelled much was not called ham: where only errors are labelled, "
    "all rates of ham called spam are too high, and no budget can be guaranteed"
)
_BOLD, _PLAIN = "\033[1m", "\033[0m"
_GAP = 2


class Column(NamedTuple):
    """Cells under a title; in a narrow terminal the column with the highest ``rank`` is left out first."""

    rank: int
    title: str
    cells: Sequence[str]

    @property
    def width(self) -> int:
        """How many characters the column needs."""
        return max(map(len, (self.title, *self.cells)))


def render_text(tuning: TuningResult, model: str, *, width: int | None, bold: bool) -> str:
    """Return table and answers as text.

    ``width`` is that of the terminal in characters, None for no limit; with ``bold`` the row of the present
    thresholds is bold.
    """
    counts = tuning.present.error_counts
    sample = f"{counts.ham + counts.spam:,} messages labelled: {counts.ham:,} ham, {counts.spam:,} spam"
    heading = "\n".join([f"model {model}, the last {sample}", *left_out_note(tuning)])
    tables = []
    if counts.ham or counts.spam:
        present = tuning.by_threshold().index(tuning.present) if bold else None
        tables = [
            *_render_table(threshold_columns(tuning), width, bold_row=present),
            "",
            *_render_table(histogram_columns(tuning), width),
            "",
        ]
    return "\n".join([heading, "", *tables, *answers(tuning), "", SCORES_NOTE])


def answers(tuning: TuningResult) -> Iterator[str]:
    """Yield what holds now, and in one line each what budgets and other policies would have changed."""
    yield f"present {tuning.present.setting} -> {_describe_threshold(tuning.present)}"
    yield from map(describe_choice, tuning.budgets)
    for choice in tuning.others:
        yield f"{choice.name}, {describe_choice(choice)}"
        yield from _describe_verdict_changes(choice)


def describe_choice(choice: ThresholdChoice) -> str:
    """Return in one line what a choice would have changed."""
    if math.isinf(choice.spam_threshold):
        return f"{choice.setting} -> {_describe_threshold(choice)}"
    return f"{choice.setting} -> {_describe_threshold(choice)}: {choice.verdict_changes.to_sentence()}"


def members(tuning: TuningResult, model: str) -> dict[str, Any]:
    """Return the members of the JSON object of the result; null is unknown, or a threshold out of reach."""
    counts = tuning.present.error_counts
    return {
        "model": model,
        "messages": counts.ham + counts.spam,
        "ham": counts.ham,
        "spam": counts.spam,
        "left_out": tuning.sample.left_out,
        "biased": tuning.is_biased,
        "cost_ratio": tuning.cost_ratio,
        "present": choice_members(tuning.present, tuning.cost_ratio),
        "others": [choice_members(choice, tuning.cost_ratio) for choice in tuning.others],
        "budgets": [choice_members(choice, tuning.cost_ratio) for choice in tuning.budgets],
        "fixed": [choice_members(choice, tuning.cost_ratio) for choice in tuning.fixed],
        "histogram": [each._asdict() for each in score_classes(tuning.sample)],
    }


def left_out_note(tuning: TuningResult) -> Iterator[str]:
    """Yield what is no part of the sample, where there is anything."""
    if count := tuning.sample.left_out:
        yield f"left out: {count:,} that were labelled while the model was learning"


def sample_warnings(tuning: TuningResult, model: str) -> Iterator[str]:
    """Yield what is wrong with the sample: a class is missing, or only errors were labelled."""
    counts = tuning.present.error_counts
    absent = [label for label, count in (("ham", counts.ham), ("spam", counts.spam)) if not count]
    if absent:
        missing = " and no ".join(absent)
        known = (
            "that was labelled after it had learned"
            if tuning.sample.left_out
            else "whose prequential score is known"
        )
        yield f"model {model!r} has no {missing} {known}: label some as it comes in"
    if tuning.is_biased:
        yield BIASED_SAMPLE_TEXT


def format_threshold_rounded_up(probability: float) -> str:
    """Return a threshold with three significant digits of its distance from 0 or 1.

    It is rounded up, so that no more ham reaches it.
    """
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
    guarantee = "" if choice.thresholds.guaranteed else choice.thresholds.guarantee
    return ", ".join(filter(None, (threshold, guarantee))) or "never"


def _describe_verdict_changes(choice: ThresholdChoice) -> Iterator[str]:
    for label in ("ham", "spam"):
        changes = sorted(
            (before, after, count)
            for (changed_label, before, after), count in choice.verdict_changes.counts.items()
            if changed_label == label
        )
        if changes:
            yield f"  {label}: {', '.join(f'{count:,} {before} -> {after}' for before, after, count in changes)}"


def _render_table(columns: Sequence[Column], width: int | None, bold_row: int | None = None) -> list[str]:
    shown = list(columns)
    while width and sum(column.width + _GAP for column in shown) - _GAP > width and len(shown) > 1:
        shown.remove(max(shown, key=lambda column: column.rank))
    first, *others = shown
    lines = []
    for row in zip(*((column.title, *column.cells) for column in shown), strict=True):
        numbers = (f"{cell:>{column.width + _GAP}}" for cell, column in zip(row[1:], others, strict=True))
        lines.append(f"{row[0]:{first.width}}{''.join(numbers)}"[:width])
    if bold_row is not None:
        lines[bold_row + 1] = f"{_BOLD}{lines[bold_row + 1]}{_PLAIN}"
    return lines


def histogram_columns(tuning: TuningResult) -> list[Column]:
    """Return how many ham and spam had which P(spam) before their labels."""
    classes = score_classes(tuning.sample)
    return [
        Column(0, "P(spam)", [f"{each.low:g} to {each.high:g}" for each in classes]),
        Column(2, "ham", [f"{each.ham:,}" for each in classes]),
        Column(1, "spam", [f"{each.spam:,}" for each in classes]),
    ]


def threshold_columns(tuning: TuningResult) -> list[Column]:
    """Return the table of all choices, by their thresholds."""
    choices, cost_ratio = tuning.by_threshold(), tuning.cost_ratio
    lost = [choice.error_counts.ham_called_spam_rate() for choice in choices]
    missed = [choice.error_counts.spam_missed_rate() for choice in choices]
    cost = [choice.error_counts.relative_cost(cost_ratio) for choice in choices]
    return [
        Column(0, "threshold", [choice.name for choice in choices]),
        Column(1, "from P", [format_threshold_rounded_up(choice.spam_threshold) for choice in choices]),
        Column(4, "ham called spam", [f"{choice.error_counts.ham_called_spam:,}" for choice in choices]),
        Column(2, "% of ham", [_format_value(each, 3) for each in lost]),
        Column(8, "95 %", [_format_interval(each, 3) for each in lost]),
        Column(5, "spam missed", [f"{choice.error_counts.spam_missed:,}" for choice in choices]),
        Column(3, "% of spam", [_format_value(each, 2) for each in missed]),
        Column(9, "95 %", [_format_interval(each, 2) for each in missed]),
        Column(
            6,
            "unsure",
            [f"{choice.error_counts.ham_unsure + choice.error_counts.spam_unsure:,}" for choice in choices],
        ),
        Column(7, f"cost at {cost_ratio:.3g}", [_format_value(each, 2) for each in cost]),
    ]


def choice_members(choice: ThresholdChoice, cost_ratio: float) -> dict[str, Any]:
    """Return the members of the JSON object of one choice; null is unknown, or a threshold out of reach."""
    lost = choice.error_counts.ham_called_spam_rate()
    missed = choice.error_counts.spam_missed_rate()
    cost = choice.error_counts.relative_cost(cost_ratio)
    thresholds = choice.thresholds
    return {
        "name": choice.name,
        "setting": choice.setting,
        "unsure_from": finite_or_none(thresholds.unsure),
        "spam_from": finite_or_none(thresholds.spam),
        "reject_from": finite_or_none(thresholds.reject or math.inf),
        "guarantee": thresholds.guarantee or None,
        "ham_called_spam": choice.error_counts.ham_called_spam,
        "ham_called_spam_percent": _percent(lost.value),
        "ham_called_spam_percent_95": _interval(lost),
        "spam_missed": choice.error_counts.spam_missed,
        "spam_missed_percent": _percent(missed.value),
        "spam_missed_percent_95": _interval(missed),
        "ham_unsure": choice.error_counts.ham_unsure,
        "spam_unsure": choice.error_counts.spam_unsure,
        "ham_rejected": choice.error_counts.ham_rejected,
        "spam_rejected": choice.error_counts.spam_rejected,
        "cost_percent": _percent(cost.value),
        "cost_percent_95": _interval(cost),
        "answer": describe_choice(choice),
        "moves": [
            {"label": label, "was": before, "would": after, "messages": count}
            for (label, before, after), count in sorted(choice.verdict_changes.counts.items())
        ],
    }


def _percent(value: float) -> float | None:
    return finite_or_none(100 * value)


def _interval(estimate: IntervalEstimate) -> tuple[float, float] | None:
    """Return the ends of an interval in percent, None where the estimate is unknown."""
    return None if math.isnan(estimate.value) else (100 * estimate.lower, 100 * estimate.upper)


def _format_value(estimate: IntervalEstimate, digits: int) -> str:
    return "-" if math.isnan(estimate.value) else f"{100 * estimate.value:.{digits}f}"


def _format_interval(estimate: IntervalEstimate, digits: int) -> str:
    interval = _interval(estimate)
    return "-" if interval is None else " to ".join(f"{end:.{digits}f}" for end in interval)
