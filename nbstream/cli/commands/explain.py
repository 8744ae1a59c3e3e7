"""``nbstream explain``: why a message was called what it was called, or would be now.

Rules: of an id it tells what was thought when the message was checked, where that is remembered; of a message what
is thought now, and whether it was checked before. Nothing is written.
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
from nbstream.assembly.filter import make_scorer, message_limits, open_one_shot_filter
from nbstream.assembly.store import make_recent_messages
from nbstream.cli import interrupts, message_files
from nbstream.cli.clue_table import TableStyle, render_summary, render_table
from nbstream.cli.exit_codes import exit_code
from nbstream.cli.terminal import local_time, print_error, printable
from nbstream.errors import InputError
from nbstream.filter.message_record import MessageRecord, find_message_record
from nbstream.policy.incoming_message import incoming_message
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.wire import explanation_json

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.filter import Filter
    from nbstream.store.model.model import Model

_MESSAGE_ID = re.compile(r"[a-z2-7]{24}")


@dataclass(frozen=True, slots=True)
class _Subject:
    """A message and what is known of it: ``path`` is None where it was named by its id."""

    path: str | None
    record: MessageRecord


def run(options: argparse.Namespace) -> int:
    """Print what there is to say; 66 for unreadable paths and unknown ids, 75 when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    errors: list[InputError] = []
    look = _table_style(options.clues)
    told = 0
    async with open_one_shot_filter(settings) as (spam_filter, model):
        async for subject in _subjects(options.subjects, settings, spam_filter, model, errors):
            if told and not options.json:
                print()
            print(_render_json(subject) if options.json else _render_text(subject, look, now=options.now))
            told += 1
    for error in errors:
        print_error(error)
    return exit_code(errors[0]) if errors else 0


async def _subjects(
    names: list[str], settings: Settings, spam_filter: Filter, model: Model, errors: list[InputError]
) -> AsyncGenerator[_Subject, None]:
    """What the names stand for, in order; what cannot be found or read is added to ``errors``."""
    for name in names:
        if _is_message_id(name):
            found = await find_message_record(
                name, make_recent_messages(settings, model), model, make_scorer(settings, model)
            )
            if found:
                yield _Subject(None, found)
            else:
                errors.append(message_files.unknown_id_error(name))
            continue
        for source in message_files.read_messages([name], errors):
            stop_if_cancelled()
            check = await spam_filter.check(incoming_message(source.raw, message_limits(settings)))
            memory = make_recent_messages(
                settings, model
            )  # a wait for each would be ten times the work on a folder
            remembered, then = await memory.recall_with_explanation(check.id, wait=False) or (None, None)
            entry = await model.entry(check.id)
            yield _Subject(
                source.name, MessageRecord(check.id, check.explain(time.time()), then, remembered, entry)
            )


def _is_message_id(name: str) -> bool:
    """Whether a message is named by its id; a file of that name is a file."""
    return _MESSAGE_ID.fullmatch(name) is not None and not Path(name).exists()


def _table_style(clues: int | None) -> TableStyle:
    """As wide as the terminal, and in colour where that is wanted (no-color.org)."""
    if not sys.stdout.isatty():
        return TableStyle(clues)
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return TableStyle(clues, shutil.get_terminal_size().columns, colour=colour)


def _render_text(subject: _Subject, look: TableStyle, *, now: bool) -> str:
    found = subject.record
    then = found.explanation_at_check if subject.path is None and not now else None
    lines = [f"message  {printable(subject.path)}"] if subject.path is not None else []
    lines += [f"id       {found.id}", f"checked  {_describe_check(found)}"]
    if found.entry:
        entry = found.entry
        who = printable(f"{entry.source} {entry.actor}".rstrip())
        lines.append(f"learned  {local_time(entry.learned_at)}  as {entry.label}  by {who}")
    lines.append(f"now      {render_summary(found.explanation_now)}")
    if subject.path is None and found.checked is None:
        lines.append("by the tokens that it was learned with; its attributes and numbers are not kept")
    lines.append("" if then else "\nas it is now:")
    return "\n".join([*lines, *render_table(then or found.explanation_now, look)])


def _describe_check(found: MessageRecord) -> str:
    """What was thought of it before, and by which rule for recipients, if by one."""
    remembered = found.checked
    if not remembered:
        return "never, or so long ago that it is forgotten"
    by = "" if remembered.policy == DEFAULT_RULE_NAME else f"  by {printable(remembered.policy)}"
    if found.explanation_at_check:
        return f"{local_time(found.explanation_at_check.at)}  {render_summary(found.explanation_at_check)}{by}"
    return f"{remembered.verdict} {remembered.probability:.6f}  (why is not remembered){by}"


def _render_json(subject: _Subject) -> str:
    return json.dumps({"path": subject.path, **explanation_json.message_record_to_json(subject.record)})
