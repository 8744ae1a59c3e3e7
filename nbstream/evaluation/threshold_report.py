"""What ``tune`` tells: a table that fits the terminal, plain answers, and the same as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbstream.evaluation.threshold_choices import Choice, Tuning
    from nbstream.evaluation.tuning import Estimate

NOTE = "The scores are those that each message got before its label, from the model as it was then."
BIASED = (
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


def text(tuning: Tuning, model: str, *, width: int | None, bold: bool) -> str:
    """Table and answers for a reader; a ``width`` in columns or None, and the present thresholds in ``bold``."""
    present, known = tuning.present, tuning.present.rates
    counted = f"{known.ham + known.spam:,} messages labelled: {known.ham:,} ham, {known.spam:,} spam"
    first = f"model {model}, the last {counted}"
    now = f"present {present.setting} -> {_reached(present)}"
    answers = [answer(choice) for choice in tuning.budgets]
    if tuning.other:
        answers += [f"{tuning.other.name}, {answer(tuning.other)}", *_moved(tuning.other)]
    table = [*_table(tuning, width, bold=bold), ""] if known.ham or known.spam else []
    return "\n".join([first, "", *table, now, *answers, "", NOTE])


def answer(choice: Choice) -> str:
    """What a choice would have changed, in one line."""
    if math.isinf(choice.spam_from):
        return f"{choice.setting} -> {_reached(choice)}"
    return f"{choice.setting} -> {_reached(choice)}: {choice.moves.sentence()}"


def as_json(tuning: Tuning, model: str) -> str:
    """One JSON object on one line; null is unknown, or never reached."""
    known = tuning.present.rates
    return json.dumps(
        {
            "model": model,
            "messages": known.ham + known.spam,
            "ham": known.ham,
            "spam": known.spam,
            "biased": tuning.biased,
            "cost_ratio": tuning.cost_ratio,
            "present": _fields(tuning.present, tuning.cost_ratio),
            "with": _fields(tuning.other, tuning.cost_ratio) if tuning.other else None,
            "budgets": [_fields(choice, tuning.cost_ratio) for choice in tuning.budgets],
            "fixed": [_fields(choice, tuning.cost_ratio) for choice in tuning.fixed],
        },
        allow_nan=False,
    )


def shown(probability: float) -> str:
    """A threshold with three digits of how far it is from 0 or 1, rounded up, so that no ham more reaches it."""
    if probability >= 1:
        return "never"
    digits = math.ceil(-math.log10(min(probability, 1 - probability))) + 2
    rounded = Decimal(repr(probability)).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING)
    return f"{rounded.normalize():f}"


def _reached(choice: Choice) -> str:
    threshold = "" if math.isinf(choice.spam_from) else f"threshold {shown(choice.spam_from)}"
    why = "" if choice.thresholds.promised else choice.thresholds.promise
    return ", ".join(filter(None, (threshold, why))) or "never"


def _moved(choice: Choice) -> Iterator[str]:
    for label in ("ham", "spam"):
        changes = sorted((was, would, n) for (own, was, would), n in choice.moves.counts.items() if own == label)
        if changes:
            yield f"  {label}: {', '.join(f'{n:,} {was} -> {would}' for was, would, n in changes)}"


def _table(tuning: Tuning, width: int | None, *, bold: bool) -> list[str]:
    choices = tuning.by_threshold()
    columns = _columns(choices, tuning.cost_ratio)
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


def _columns(choices: Sequence[Choice], ratio: float) -> list[_Column]:
    lost, missed = ([*map(_percent, each)] for each in zip(*map(_shares, choices), strict=True))
    cost = [_percent(choice.rates.cost(ratio)) for choice in choices]
    return [
        _Column(0, "", [choice.name for choice in choices]),
        _Column(1, "from P", [shown(choice.spam_from) for choice in choices]),
        _Column(4, "ham called spam", [f"{choice.rates.ham_called_spam[0]:,}" for choice in choices]),
        _Column(2, "% of ham", [_number(share[0], 3) for share in lost]),
        _Column(8, "95 %", [_band(share, 3) for share in lost]),
        _Column(5, "spam missed", [f"{choice.rates.spam_missed[0]:,}" for choice in choices]),
        _Column(3, "% of spam", [_number(share[0], 2) for share in missed]),
        _Column(9, "95 %", [_band(share, 2) for share in missed]),
        _Column(6, "unsure", [f"{choice.unsure.ham + choice.unsure.spam:,}" for choice in choices]),
        _Column(7, f"cost at {ratio:.3g}", [_number(share[0], 2) for share in cost]),
    ]


def _fields(choice: Choice, ratio: float) -> dict[str, Any]:
    lost, missed = map(_percent, _shares(choice))
    cost = _percent(choice.rates.cost(ratio))
    thresholds = choice.thresholds
    return {
        "name": choice.name,
        "setting": choice.setting,
        "unsure_from": _finite(thresholds.unsure),
        "spam_from": _finite(thresholds.spam),
        "reject_from": _finite(thresholds.reject or math.inf),
        "promise": thresholds.promise or None,
        "ham_called_spam": int(choice.rates.ham_called_spam[0]),
        "ham_called_spam_percent": lost[0],
        "ham_called_spam_percent_95": lost[1:] if lost[0] is not None else None,
        "spam_missed": int(choice.rates.spam_missed[0]),
        "spam_missed_percent": missed[0],
        "spam_missed_percent_95": missed[1:] if missed[0] is not None else None,
        "ham_unsure": choice.unsure.ham,
        "spam_unsure": choice.unsure.spam,
        "cost_percent": cost[0],
        "cost_percent_95": cost[1:] if cost[0] is not None else None,
        "answer": answer(choice),
        "moves": [
            {"label": label, "was": was, "would": would, "messages": count}
            for (label, was, would), count in sorted(choice.moves.counts.items())
        ],
    }


def _shares(choice: Choice) -> tuple[Estimate, Estimate]:
    return choice.rates.lost(), choice.rates.missed()


def _percent(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    value, low, high = (_finite(100 * float(each[0])) for each in estimate)
    return value, low, high


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _band(percents: tuple[float | None, float | None, float | None], digits: int) -> str:
    value, low, high = percents
    return "-" if value is None else f"{_number(low, digits)} to {_number(high, digits)}"
