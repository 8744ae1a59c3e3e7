"""``nbstream explain``: why a message got its verdict, or would get it now.

Rules: for an id it prints the explanation of the last check, where that is remembered; for a message the
explanation of a check now, and whether it was checked before. Nothing is written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream import config
from nbstream.assembly.filter import open_one_shot_filter
from nbstream.assembly.policy import make_message_reader
from nbstream.assembly.store import make_recent_messages
from nbstream.cli import interrupts, message_files
from nbstream.cli.clue_table import TableStyle, render_summary, render_table
from nbstream.cli.exit_codes import exit_code
from nbstream.cli.terminal import local_time, print_error, printable
from nbstream.errors import InputError
from nbstream.filter.filter import MessageRecord, find_message_record
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.wire import api_json

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.filter import Filter
    from nbstream.store.model.model import Model

_MESSAGE_ID = re.compile(r"[a-z2-7]{24}")


@dataclass(frozen=True, slots=True)
class _Subject:
    """A message and its record; ``path`` is None where the message was named by its id."""

    path: str | None
    record: MessageRecord


def run(options: argparse.Namespace) -> int:
    """Print the explanations; 66 for unreadable paths and unknown ids, 75 when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    errors: list[InputError] = []
    style = _table_style(options.clues)
    printed = 0
    async with open_one_shot_filter(settings) as (spam_filter, model):
        async for subject in _subjects(options.subjects, settings, spam_filter, model, errors):
            if printed and not options.json:
                print()
            print(_render_json(subject) if options.json else _render_text(subject, style, now=options.now))
            printed += 1
    for error in errors:
        print_error(error)
    return exit_code(errors[0]) if errors else 0


async def _subjects(
    names: list[str], settings: Settings, spam_filter: Filter, model: Model, errors: list[InputError]
) -> AsyncGenerator[_Subject, None]:
    """Yield what the names stand for, in order; what is unknown or cannot be read is added to ``errors``."""
    for name in names:
        if _is_message_id(name):
            record = await find_message_record(
                name,
                make_recent_messages(settings, model),
                model,
                spam_filter.parts.make_scorer(spam_filter.policy),
            )
            if record:
                yield _Subject(None, record)
            else:
                errors.append(message_files.unknown_id_error(name))
            continue
        for source in message_files.read_messages([name], errors):
            stop_if_cancelled()
            check = await spam_filter.check(make_message_reader(settings).read_incoming(source.raw))
            memory = make_recent_messages(settings, model)
            # Without waiting for what is still being written: on a folder the waits would take most of the time.
            remembered, then = await memory.recall_with_explanation(check.id, wait=False) or (None, None)
            entry = await model.entry(check.id)
            yield _Subject(
                source.name, MessageRecord(check.id, check.explain(time.time()), then, remembered, entry)
            )


def _is_message_id(name: str) -> bool:
    """Return whether ``name`` is an id; where a file of that name exists it is a path."""
    return _MESSAGE_ID.fullmatch(name) is not None and not Path(name).exists()


def _table_style(clues: int | None) -> TableStyle:
    """Return a style as wide as the terminal, and in colour where that is wanted (no-color.org)."""
    if not sys.stdout.isatty():
        return TableStyle(clues)
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return TableStyle(clues, shutil.get_terminal_size().columns, colour=colour)


def _render_text(subject: _Subject, style: TableStyle, *, now: bool) -> str:
    record = subject.record
    then = record.explanation_at_check if subject.path is None and not now else None
    lines = [f"message  {printable(subject.path)}"] if subject.path is not None else []
    lines += [f"id       {record.id}", f"checked  {_describe_check(record)}"]
    if record.entry:
        entry = record.entry
        who = printable(f"{entry.source} {entry.actor}".rstrip())
        lines.append(f"learned  {local_time(entry.learned_at)}  as {entry.label}  by {who}")
    lines.append(f"now      {render_summary(record.explanation_now)}")
    if subject.path is None and record.checked is None:
        lines.append("by the tokens that it was learned with; its attributes and numbers are not kept")
    lines.append("" if then else "\nas it is now:")
    return "\n".join([*lines, *render_table(then or record.explanation_now, style)])


def _describe_check(record: MessageRecord) -> str:
    """Return the verdict of the last check, and the rule for recipients that it went by, if by one."""
    remembered = record.checked
    if not remembered:
        return "never, or so long ago that it is forgotten"
    by = "" if remembered.policy == DEFAULT_RULE_NAME else f"  by {printable(remembered.policy)}"
    if record.explanation_at_check:
        return f"{local_time(record.explanation_at_check.at)}  {render_summary(record.explanation_at_check)}{by}"
    return f"{remembered.verdict} {remembered.probability:.6f}  (why is not remembered){by}"


def _render_json(subject: _Subject) -> str:
    return json.dumps({"path": subject.path, **api_json.message_record_to_json(subject.record)})
