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
from nbstream.assembly import assembly
from nbstream.cli import interrupts, message_files
from nbstream.cli.clue_table import Look, summary, table
from nbstream.cli.commands.history import local_time
from nbstream.cli.terminal import complain, printable
from nbstream.errors import InputError
from nbstream.filter.message_record import Known, known
from nbstream.mail import header_fields
from nbstream.mail.message import Message
from nbstream.policy.recipient_rules import DEFAULT
from nbstream.policy.verdict_fields import VERDICT_FIELDS
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.wire import explanation_json

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.filter import Filter
    from nbstream.store.model.model import Model

_ID = re.compile(r"[a-z2-7]{24}")


@dataclass(frozen=True, slots=True)
class _Subject:
    """A message and what is known of it: ``path`` is None where it was named by its id."""

    path: str | None
    known: Known


def run(options: argparse.Namespace) -> int:
    """Print what there is to say; 66 for unreadable paths and unknown ids, 75 when Redis is away."""
    return interrupts.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load(config.find_config(options.config))
    errors: list[InputError] = []
    look = _look(options.clues)
    told = 0
    async with assembly.one_shot(settings) as (spam_filter, model):
        async for subject in _subjects(options.subjects, settings, spam_filter, model, errors):
            if told and not options.json:
                print()
            print(_json(subject) if options.json else _text(subject, look, now=options.now))
            told += 1
    for error in errors:
        complain(error)
    return errors[0].exit_code if errors else 0


async def _subjects(
    names: list[str], settings: Settings, spam_filter: Filter, model: Model, errors: list[InputError]
) -> AsyncGenerator[_Subject, None]:
    """What the names stand for, in order; what cannot be found or read is added to ``errors``."""
    for name in names:
        if _is_id(name):
            found = await known(name, assembly.memory(settings, model), model, assembly.scorer(settings, model))
            if found:
                yield _Subject(None, found)
            else:
                errors.append(message_files.unknown(name))
            continue
        for source in message_files.read([name], errors):
            stop_if_cancelled()
            raw = header_fields.strip(header_fields.canonical(source.raw), VERDICT_FIELDS)
            check = await spam_filter.check(Message(raw, assembly.limits(settings)))
            memory = assembly.memory(settings, model)  # a wait for each would be ten times the work on a folder
            remembered, then = await memory.explained(check.id, wait=False) or (None, None)
            entry = await model.entry(check.id)
            yield _Subject(source.name, Known(check.id, check.explain(time.time()), then, remembered, entry))


def _is_id(name: str) -> bool:
    """Whether a message is named by its id; a file of that name is a file."""
    return _ID.fullmatch(name) is not None and not Path(name).exists()


def _look(clues: int | None) -> Look:
    """As wide as the terminal, and in colour where that is wanted (no-color.org)."""
    if not sys.stdout.isatty():
        return Look(clues)
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Look(clues, shutil.get_terminal_size().columns, colour=colour)


def _text(subject: _Subject, look: Look, *, now: bool) -> str:
    found = subject.known
    then = found.then if subject.path is None and not now else None
    lines = [f"message  {printable(subject.path)}"] if subject.path is not None else []
    lines += [f"id       {found.id}", f"checked  {_checked(found)}"]
    if found.entry:
        entry = found.entry
        who = printable(f"{entry.source} {entry.actor}".rstrip())
        lines.append(f"learned  {local_time(entry.learned_at)}  as {entry.label}  by {who}")
    lines.append(f"now      {summary(found.now)}")
    if subject.path is None and found.remembered is None:
        lines.append("by the tokens that it was learned with; its attributes and numbers are not kept")
    lines.append("" if then else "\nas it is now:")
    return "\n".join([*lines, *table(then or found.now, look)])


def _checked(found: Known) -> str:
    """What was thought of it before, and by which rule for recipients, if by one."""
    remembered = found.remembered
    if not remembered:
        return "never, or so long ago that it is forgotten"
    by = "" if remembered.policy == DEFAULT else f"  by {printable(remembered.policy)}"
    if found.then:
        return f"{local_time(found.then.at)}  {summary(found.then)}{by}"
    return f"{remembered.verdict} {remembered.probability:.6f}  (why is not remembered){by}"


def _json(subject: _Subject) -> str:
    return json.dumps({"path": subject.path, **explanation_json.known(subject.known)})
