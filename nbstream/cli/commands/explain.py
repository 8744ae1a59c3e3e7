"""``nbstream explain``: why a message got its verdict, or would get it now.

Rules: for an id it prints the explanation of the last check, where that is remembered; for a message the
explanation of a check now, and whether it was checked before. Nothing is written.
"""

from __future__ import annotations

import argparse
import math
import time
import unicodedata
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.cli import message_files
from nbstream.daemon import config
from nbstream.daemon.assembly.parts import open_one_shot_filter
from nbstream.daemon.assembly.policy import make_message_reader
from nbstream.filter.filter import MessageRecord, find_message_record
from nbstream.filter.lesson_text import describe_kind
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME
from nbstream.policy.verdict import format_threshold
from nbstream.server import api_json
from nbstream.store.model.ledger import entry_of_people
from nbstream.terminal import (
    is_styled,
    local_time,
    printable,
    terminal_columns,
)
from nbstream.tokens.origins import token_origin
from nbstream.tokens.private_tokens import are_private

if TYPE_CHECKING:
    from nbstream.bayes.kinds import KindScores
    from nbstream.daemon.config import Settings
    from nbstream.errors import NbstreamError
    from nbstream.filter import Filter
    from nbstream.policy.check import CountedClue, Explanation
    from nbstream.store.model.model import Model
    from nbstream.terminal import Output

WHY_NO_WORDS = "this model stores keyed hashes in place of words (model.private_tokens)"
"""Why a command shows hashes."""

LOG_RATIO_HEAD = "+spam -ham"
"""The head of a column of log-ratios: it says for which class a sign speaks."""
_SPAM_COLOUR, _HAM_COLOUR, _NO_COLOUR = "\x1b[31m", "\x1b[32m", "\x1b[0m"
_MIN_COLUMNS = 8  # columns of words, however narrow the terminal is
_GAP = "  "
_KIND_CLUES = 5  # of each kind


async def run(options: argparse.Namespace, output: Output) -> None:
    """Print the explanations; 66 for unreadable paths and unknown ids, 75 when Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    separator = ""
    async with open_one_shot_filter(settings, user=options.user, reads_messages=True) as (spam_filter, model):
        async for path, record in _subjects(options.subjects, settings, spam_filter, model, output.errors):
            text = separator + _describe(path, record, options)
            members = {"path": path, **api_json.message_record_to_json(record)}
            output.show(text, members, styled=True)
            separator = "\n"


async def _subjects(
    names: list[str], settings: Settings, spam_filter: Filter, model: Model, errors: list[NbstreamError]
) -> AsyncGenerator[tuple[str | None, MessageRecord], None]:
    """Yield what the names stand for, in order; what is unknown or cannot be read is added to ``errors``.

    The path is None for a message that is named by its id.
    """
    memory = spam_filter.parts.checked_messages
    assert memory is not None
    for name in names:
        if _is_message_id(name):
            scorer = spam_filter.parts.make_scorer(spam_filter.policy)
            record = await find_message_record(name, memory, model, scorer)
            if record:
                yield None, record
            else:
                errors.append(message_files.unknown_id_error(name))
            continue
        for source in message_files.read_messages([name], errors):
            check = await spam_filter.check(make_message_reader(settings).read_incoming(source.raw))
            # Without waiting for what is still being written: on a folder the waits would take most of the time.
            remembered, then = await memory.recall_with_explanation(check.id, wait=False) or (None, None)
            entry = entry_of_people(await model.entry(check.id))
            explained = check.explain(time.time())
            yield source.name, MessageRecord(check.id, explained, then, remembered, entry, kind=check.kind)


def _is_message_id(name: str) -> bool:
    """Return whether ``name`` is an id; where a file of that name exists it is a path."""
    return api_json.is_message_id(name) and not Path(name).exists()


def _describe(path: str | None, record: MessageRecord, options: argparse.Namespace) -> str:
    then = record.explanation_at_check if path is None and not options.now else None
    lines = [f"message  {printable(path)}"] if path is not None else []
    lines += [f"id       {record.id}", f"checked  {_describe_check(record)}"]
    if record.entry:
        entry = record.entry
        who = printable(f"{entry.source} {entry.actor}".rstrip())
        lines.append(f"learned  {local_time(entry.learned_at)}  as {entry.column}  by {who}")
    aside = "  sender lists are left out" if record.checked and record.checked.is_listed else ""
    lines.append(f"now      {render_summary(record.explanation_now)}{aside}")
    if record.kind:
        lines += [f"kind     {describe_kind(record.kind)}", *_kind_lines(record.kind)]
    if path is None and record.checked is None:
        lines.append("by the tokens that it was learned with; its attributes and numbers are not kept")
    explanation = then or record.explanation_now
    if are_private(clue.token for clue in explanation.clues if clue.ham is not None):
        lines.append(f"{WHY_NO_WORDS}; explain the message itself, as a file, to see its words")
    lines.append("" if then else "\nas it is now:")
    table = render_table(explanation, options.clues, terminal_columns(), colour=is_styled())
    return "\n".join([*lines, *table])


def _kind_lines(scores: KindScores) -> Iterator[str]:
    """Yield the strongest clues for each kind that has some."""
    for name, clues in scores.clues.items():
        shown = [clue for clue in clues if round(clue.log_ratio, 1) > 0][:_KIND_CLUES]
        words = (f"{printable(clue.token.decode('utf-8', 'replace'))} {clue.log_ratio:+.1f}" for clue in shown)
        if shown:
            yield f"  {name}: {'  '.join(words)}"


def _describe_check(record: MessageRecord) -> str:
    """Return the verdict of the last check, and the rule for recipients that it went by, if by one."""
    remembered = record.checked
    if not remembered:
        return "never, or so long ago that it is forgotten"
    by = "" if remembered.policy == DEFAULT_RULE_NAME else f"  by {printable(remembered.policy)}"
    if record.explanation_at_check:
        return f"{local_time(record.explanation_at_check.at)}  {render_summary(record.explanation_at_check)}{by}"
    return f"{remembered.verdict} {remembered.probability:.6f}  (why is not remembered){by}"


# An explanation as a table. The numbers stand before the words, so that they are aligned whatever script a token
# is in, and where the terminal is narrow the words are cut, never a number.


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the table; the first of its numbers is ``log_ratio``, in nats."""

    log_ratio: float
    numbers: tuple[str, str, str, str]  # log-ratio, sum, ham, spam
    origin: str
    token: str


def render_table(
    explanation: Explanation, clues: int | None = None, columns: int | None = None, *, colour: bool = False
) -> list[str]:
    """Return the lines: the prior, the clues with their running sum, then what the score led to.

    ``clues`` are shown at most, in ``columns`` of a terminal; None is no limit.
    """
    rows = [
        _Row(0.0, (LOG_RATIO_HEAD, "sum", "ham", "spam"), "from", "token"),
        *_make_rows(explanation, clues),
    ]
    widths = [max(map(len, column)) for column in zip(*(row.numbers for row in rows), strict=True)]
    origin, token = max(_display_width(row.origin) for row in rows), max(_display_width(row.token) for row in rows)
    if columns is not None:
        left = columns - sum(widths) - len(_GAP) * (len(widths) + 1)
        origin = max(_MIN_COLUMNS, min(origin, max(left // 2, left - token)))
        token = max(_MIN_COLUMNS, left - origin)
    lines = [_render_row(row, widths, origin, token, colour=colour) for row in rows]
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
        rows.append(_Row(log_ratio, numbers, "", f"({len(left)} more clue{'s' * (len(left) > 1)})"))
    return rows


def _make_row(clue: CountedClue, sum_: float) -> _Row:
    token = clue.token.decode()
    ham, spam = ("" if count is None else f"{count / WEIGHT_ONE:.3f}" for count in (clue.ham, clue.spam))
    numbers = (_format_nats(clue.log_ratio), _format_nats(sum_), ham, spam)
    origin = printable(token_origin(token))
    return _Row(clue.log_ratio, numbers, f"own: {origin}" if clue.own else origin, printable(token))


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
        *_discount_lines(explanation),
        f"  thresholds  unsure {format_threshold(at.unsure)}, spam {format_threshold(at.spam)}, "
        f"reject {_format_threshold(at.reject)}",
        f"  model  {state}: {learned} known",
    ]


def _discount_lines(explanation: Explanation) -> list[str]:
    """Return what is taken back of a message that is unlike learned spam, and what is new in it."""
    discount = explanation.discount
    if discount is None:
        return []
    groups = ", ".join(f"{group} {known} of {tokens}" for group, tokens, known in discount.new_groups())
    return [
        f"  discount  {discount.taken_back:.2f} nats, from probability {explanation.full_probability:.6f}: "
        "it is less like learned spam than most spam is",
        f"  known from spam  {groups}",
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
