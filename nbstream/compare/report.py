"""The report of a comparison: tables, what of it may be believed, where the two differ, and one sentence."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream.compare.comparison import CLASSES, Comparison, JudgedMessage, PairedErrors, count_errors
from nbstream.compare.fields import FilterVerdict
from nbstream.evaluation.measures import wilson_interval
from nbstream.wire.visible_text import visible_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

OURS = "nbstream"
_VERDICTS = (FilterVerdict.HAM, FilterVerdict.UNSURE, FilterVerdict.SPAM)
_ERROR_NAMES = {"ham": "ham called spam", "spam": "spam passed"}
_MAX_SUBJECT_LENGTH = 60
_MAX_TOKEN_LENGTH = 40
_SMALLEST_SHOWN = 0.001  # p-values
_LEFT_OUT = {
    "without_verdict": "without a verdict of {other}",
    "unclear": "whose fields of {other} contradict each other",
    "learning": f"checked while {OURS} was still learning",
    "checked_after_label": "checked only after people had labelled them",
}


@dataclass(frozen=True, slots=True)
class DifferingMessage:
    """A message on which the two differ, and our strongest clues: tokens with their log-ratios, most of all 0."""

    message: JudgedMessage
    clues: Sequence[tuple[str, float]] = ()


def day_of(at: float) -> str:
    """Return the local day of a moment, as ``2026-11-28``."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


def render_text(comparison: Comparison, shown: Sequence[DifferingMessage]) -> str:
    """Return the whole report; ``shown`` are some of ``comparison.differing``."""
    if not comparison.messages:
        sections = [
            [f"There is no message that {OURS} and {comparison.other} have both judged."],
            [*_left_out(comparison)],
        ]
    else:
        sections = [
            [_heading(comparison), *_left_out(comparison)],
            [*_table(comparison)],
            [*_errors(comparison)],
            ["What may be believed:", *(f"- {note}" for note in trust_notes(comparison))],
            [*_differing(comparison, shown)],
            [closing_sentence(comparison)],
        ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def render_json(comparison: Comparison, shown: Sequence[DifferingMessage]) -> str:
    """Return the report as one JSON object on one line."""
    table = comparison.count_pairs()
    members = {
        "other": comparison.other,
        "acting": OURS if comparison.we_act else comparison.other,
        "messages": len(comparison.messages),
        "cut": comparison.is_cut,
        "left_out": {name: getattr(comparison.left_out, name) for name in _LEFT_OUT},
        "table": {ours: {theirs: table[ours, theirs] for theirs in _VERDICTS} for ours in _VERDICTS},
        "labelled": _errors_to_json(count_errors(comparison.labelled)),
        "corrections": comparison.corrections,
        "fair_sample": {
            "drawn": len(comparison.drawn),
            "answered": sum(message.label is not None for message in comparison.drawn),
            "labelled": _errors_to_json(count_errors(comparison.fair_labels)),
        },
        "days": {day: _errors_to_json(errors) for day, errors in comparison.by_day(day_of).items()},
        "notes": list(trust_notes(comparison)),
        "differing": len(comparison.differing),
        "shown": [_differing_to_json(differing) for differing in shown],
        "summary": closing_sentence(comparison),
    }
    return json.dumps(members, allow_nan=False)


def closing_sentence(comparison: Comparison) -> str:
    """Return in one sentence what each of the two has lost and passed, and in another that of the fair sample."""
    if not comparison.labelled:
        return "Nobody has labelled a message that both have judged: nobody knows who is right."
    sentence = _sentence(comparison, "labelled {}", comparison.labelled)
    fair = comparison.fair_labels
    return f"{sentence}\n{_sentence(comparison, '{} of the fair sample', fair)}" if fair else sentence


def _sentence(comparison: Comparison, kind: str, messages: Sequence[JudgedMessage]) -> str:
    errors = count_errors(messages)
    ham, spam = errors["ham"], errors["spam"]
    on = f"On {len(messages):,} {kind.format(_plural(len(messages), 'message'))} {OURS}"
    if comparison.we_act:
        other = f"where {comparison.other} would have"
        return (
            f"{on} has lost {ham.ours:,} ham {other} lost {ham.other:,}, and has passed {spam.ours:,} spam "
            f"{other} passed {spam.other:,}."
        )
    return (
        f"{on} would have lost {ham.ours:,} ham instead of {ham.other:,} and passed {spam.ours:,} spam instead of "
        f"{spam.other:,}."
    )


def trust_notes(comparison: Comparison) -> Iterator[str]:
    """Yield which of the figures may be believed, and whom the others favour."""
    acting, quiet = (OURS, comparison.other) if comparison.we_act else (comparison.other, OURS)
    drawn = len(comparison.drawn)
    answered = sum(message.label is not None for message in comparison.drawn)
    share = f"{answered:,} of {drawn:,} drawn messages have a label"
    if comparison.fair_labels:
        yield f"The fair sample was drawn by chance and favours neither: believe it first. {share}."
    elif drawn:
        yield (
            f"The fair sample has too few answers ({share}): until most have one, those that people corrected by "
            "themselves outweigh the others. Answer nbstream ask; then it favours neither."
        )
    else:
        yield "There is no fair sample. It alone favours neither: set ask: {share: 0.02} and answer nbstream ask."
    others, corrections = len(comparison.labelled) - answered, comparison.corrections
    if others:
        yield (
            f"Of {others:,} other {_plural(others, 'label')} {corrections:,} {_verb(corrections, 'correct')} "
            f"{acting}, and {others - corrections:,} {_verb(others - corrections, 'agree')} with it."
        )
    if corrections * 2 > others:
        yield (
            f"Who labels only errors of {acting} sees no error of {quiet} elsewhere: that {acting} made these "
            f"errors is true, its rates are too high, and {quiet} looks better than it is. This favours {quiet}."
        )
    elif others:
        yield (
            f"A label that agrees is worth something where a person looked at the message. Where a folder was "
            f"learned as {acting} had filed it, its errors there count as right, and {quiet} as wrong. This "
            f"favours {acting}."
        )
    unlabelled = len(comparison.messages) - len(comparison.labelled)
    yield f"{unlabelled:,} of {len(comparison.messages):,} messages have no label: of them only the table tells."


def _heading(comparison: Comparison) -> str:
    first, last = comparison.messages[0], comparison.messages[-1]
    acting = f"{OURS} acts" if comparison.we_act else f"{comparison.other} acts, {OURS} observes"
    cut = ", the newest that are looked at" if comparison.is_cut else ""
    n = len(comparison.messages)
    return (
        f"{n:,} {_plural(n, 'message')} that {OURS} and {comparison.other} have judged, "
        f"{day_of(first.checked_at)} to {day_of(last.checked_at)}{cut} ({acting})"
    )


def _left_out(comparison: Comparison) -> Iterator[str]:
    counts = ((getattr(comparison.left_out, name), text) for name, text in _LEFT_OUT.items())
    parts = [f"{count:,} {text.format(other=comparison.other)}" for count, text in counts if count]
    if parts:
        yield f"left out: {', '.join(parts)}"


def _table(comparison: Comparison) -> Iterator[str]:
    table = comparison.count_pairs()
    rows = [["", *(f"{comparison.other} {verdict}" for verdict in _VERDICTS)]]
    rows += [[f"  {OURS} {ours}", *(f"{table[ours, theirs]:,}" for theirs in _VERDICTS)] for ours in _VERDICTS]
    return _aligned(rows)


def _errors(comparison: Comparison) -> Iterator[str]:
    """Yield the errors of both on all labelled messages, and again on those of the fair sample."""
    rows = [["", comparison.other, OURS, f"only {comparison.other}", f"only {OURS}", "p"]]
    for name, messages in (("labelled", comparison.labelled), ("fair sample", comparison.fair_labels)):
        errors = count_errors(messages)
        sizes = [f"{errors[label].messages:,} {label}" for label in CLASSES if errors[label].messages]
        if not sizes:
            continue
        rows.append([f"{name}: {', '.join(sizes)}"])
        rows += [_error_row(label, errors[label]) for label in CLASSES if errors[label].messages]
    return _aligned(rows) if len(rows) > 1 else iter(())


def _error_row(label: str, errors: PairedErrors) -> list[str]:
    shares = [_share(count, errors.messages) for count in (errors.other, errors.ours)]
    alone = [f"{errors.only_other:,}", f"{errors.only_ours:,}"]
    p_value = f"{errors.p_value:.2g}" if errors.p_value >= _SMALLEST_SHOWN else f"< {_SMALLEST_SHOWN}"
    return [f"  {_ERROR_NAMES[label]}", *shares, *alone, p_value]


def _share(count: int, n: int) -> str:
    lower, upper = _interval(count, n)
    return f"{count:,} = {100 * count / n:.2f} % ({lower:.2f} to {upper:.2f})"


def _interval(count: int, n: int) -> tuple[float, float]:
    """Return the ends of the interval of a share, in percent."""
    lower, upper = wilson_interval(np.array([float(count)]), n)
    return 100 * float(lower[0]), 100 * float(upper[0])


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows of cells under each other; a row of one cell is a heading, which no column is as wide as."""
    columns = max(map(len, rows))
    widths = [max(len(row[i]) for row in rows if len(row) == columns) for i in range(columns)]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=False)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def _differing(comparison: Comparison, shown: Sequence[DifferingMessage]) -> Iterator[str]:
    if not shown:
        return
    yield (
        f"Where they differ: {len(comparison.differing):,} messages, {len(shown):,} of them here; "
        "nbstream explain ID says more of each"
    )
    for differing in shown:
        message = differing.message
        label = f"is {message.label}" if message.label else "no label"
        score = "" if message.other.score is None else f" {message.other.score:g}"
        subject = visible_text(message.subject or "", _MAX_SUBJECT_LENGTH)
        yield (
            f"{message.id}  {label:8}  {OURS} {message.ours} {message.probability:.4f}  "
            f"{comparison.other} {message.other.verdict}{score}  {subject}".rstrip()
        )
        if differing.clues:
            clues = (f"{visible_text(token, _MAX_TOKEN_LENGTH)} {ratio:+.1f}" for token, ratio in differing.clues)
            yield f"    {'  '.join(clues)}"


def _errors_to_json(errors: Mapping[str, PairedErrors]) -> dict[str, Any]:
    return {
        label: {
            "messages": of.messages,
            "ours": of.ours,
            "other": of.other,
            "only_ours": of.only_ours,
            "only_other": of.only_other,
            "ours_percent": _interval(of.ours, of.messages),
            "other_percent": _interval(of.other, of.messages),
            "p": of.p_value,
        }
        for label, of in errors.items()
    }


def _differing_to_json(differing: DifferingMessage) -> dict[str, Any]:
    message = differing.message
    return {
        "id": message.id,
        "label": message.label,
        "ours": message.ours,
        "probability": message.probability,
        "other": message.other.verdict,
        "score": message.other.score,
        "fair_sample": message.is_drawn,
        "subject": message.subject,
        "clues": [{"token": token, "log_ratio": ratio} for token, ratio in differing.clues],
    }


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _verb(count: int, word: str) -> str:
    return f"{word}s" if count == 1 else word
