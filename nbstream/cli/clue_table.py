"""An explanation as a table.

Rules: the numbers stand before the words, so that they are aligned whatever script a token is in, and where the
terminal is narrow the words are cut, never a number. Nothing in a message can move the cursor.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.cli.terminal import printable
from nbstream.policy.verdict import format_threshold
from nbstream.tokens.origins import token_origin

if TYPE_CHECKING:
    from nbstream.policy.explanation import CountedClue, Explanation

_SPAM_COLOUR, _HAM_COLOUR, _NO_COLOUR = "\x1b[31m", "\x1b[32m", "\x1b[0m"
LOG_RATIO_HEAD = "+spam -ham"
"""The head of a column of log-ratios: it says for which class a sign speaks."""
_MIN_COLUMNS = 8  # columns of words, however narrow the terminal is
_GAP = "  "


@dataclass(frozen=True, slots=True)
class TableStyle:
    """How many clues are shown (None: all), in how many columns (None: without a limit), and whether in colour."""

    clues: int | None = None
    columns: int | None = None
    colour: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the table; the first of its numbers is ``log_ratio``, in nats."""

    log_ratio: float
    numbers: tuple[str, str, str, str]  # log-ratio, sum, ham, spam
    origin: str
    token: str


def render_table(explanation: Explanation, style: TableStyle) -> list[str]:
    """Return the lines: the prior, the clues with their running sum, then what the score led to."""
    rows = [
        _Row(0.0, (LOG_RATIO_HEAD, "sum", "ham", "spam"), "from", "token"),
        *_make_rows(explanation, style.clues),
    ]
    widths = [max(map(len, column)) for column in zip(*(row.numbers for row in rows), strict=True)]
    origin, token = max(_display_width(row.origin) for row in rows), max(_display_width(row.token) for row in rows)
    if style.columns is not None:
        left = style.columns - sum(widths) - len(_GAP) * (len(widths) + 1)
        origin = max(_MIN_COLUMNS, min(origin, max(left // 2, left - token)))
        token = max(_MIN_COLUMNS, left - origin)
    lines = [_render_row(row, widths, origin, token, colour=style.colour) for row in rows]
    return [*lines, "", *_conclusion_lines(explanation)]


def render_summary(explanation: Explanation) -> str:
    """Return verdict, P(spam) and reason on one line."""
    return printable(f"{explanation.verdict} {explanation.probability:.6f}  ({explanation.reason})")


def _make_rows(explanation: Explanation, limit: int | None) -> list[_Row]:
    clues, sums = explanation.clues[:limit], explanation.running_scores()[:limit]
    learned, prior = explanation.state.learned, _format_nats(explanation.prior)
    messages = str(learned.get("ham", 0)), str(learned.get("spam", 0))
    rows = [_Row(explanation.prior, (prior, prior, *messages), "messages learned", "(prior)")]
    rows += [_make_row(clue, sum_) for clue, sum_ in zip(clues, sums, strict=True)]
    left = explanation.clues[len(clues) :]
    if left:
        log_ratio = math.fsum(clue.log_ratio for clue in left)
        numbers = (_format_nats(log_ratio), _format_nats(explanation.score), "", "")
        rows.append(_Row(log_ratio, numbers, "", f"({len(left)} more clues)"))
    return rows


def _make_row(clue: CountedClue, sum_: float) -> _Row:
    token = clue.token.decode()
    ham, spam = ("" if count is None else f"{count / WEIGHT_ONE:.3f}" for count in (clue.ham, clue.spam))
    numbers = (_format_nats(clue.log_ratio), _format_nats(sum_), ham, spam)
    return _Row(clue.log_ratio, numbers, printable(token_origin(token)), printable(token))


def _render_row(row: _Row, widths: list[int], origin: int, token: int, *, colour: bool) -> str:
    log_ratio, *others = (number.rjust(width) for number, width in zip(row.numbers, widths, strict=True))
    if colour and row.log_ratio:
        log_ratio = f"{_SPAM_COLOUR if row.log_ratio > 0 else _HAM_COLOUR}{log_ratio}{_NO_COLOUR}"
    words = _truncate(row.origin, origin)
    padding = " " * (origin - _display_width(words))
    return _GAP.join([log_ratio, *others, words + padding, _truncate(row.token, token)]).rstrip()


def _conclusion_lines(explanation: Explanation) -> list[str]:
    state, at = explanation.state, explanation.thresholds
    learned = ", ".join(f"{label} {count}" for label, count in state.learned.items())
    return [
        f"score {_format_nats(explanation.score)} -> probability {explanation.probability:.6f} "
        f"-> {explanation.verdict}",
        printable(f"  because  {explanation.reason}"),
        f"  thresholds  unsure {format_threshold(at.unsure)}, spam {format_threshold(at.spam)}, "
        f"reject {_format_threshold(at.reject)}",
        f"  model  {state}: {learned} known",
    ]


def _format_threshold(probability: float | None) -> str:
    return "never" if probability is None else format_threshold(probability)


def _format_nats(number: float) -> str:
    return f"{number:+.2f}"


def _truncate(text: str, columns: int) -> str:
    """Return ``text`` in at most so many columns of a terminal; what is cut ends with a tilde."""
    if _display_width(text) <= columns:
        return text
    while _display_width(text) > columns - 1:
        text = text[:-1]
    return f"{text}~"


def _display_width(text: str) -> int:
    """Return how many columns a terminal gives to ``text``."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in {"W", "F"} else 1 for c in text
    )
