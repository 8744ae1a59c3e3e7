"""``nbstream explain``: why a message was called what it was called, or would be now.

Rules: of an id it tells what was thought when the message was checked, where that is remembered; of a message what
is thought now, and whether it was checked before. Nothing is written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbstream import assembly, config
from nbstream.commands import inputs
from nbstream.commands.clue_table import Look, as_json, summary, table
from nbstream.commands.history import iso_time, local_time
from nbstream.commands.terminal import complain, printable
from nbstream.errors import InputError
from nbstream.mail import headers
from nbstream.mail.message import Message
from nbstream.policy.header import VERDICT_FIELDS
from nbstream.tokens.tokenizer import Tokens

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.filter import Filter
    from nbstream.policy.explanation import Explanation
    from nbstream.store.checked import Checked
    from nbstream.store.ledger import Entry
    from nbstream.store.model import Model

_ID = re.compile(r"[a-z2-7]{24}")


@dataclass(frozen=True, slots=True)
class _Subject:
    """A message: ``path`` is None where it was named by its id; the rest is what is known of it.

    ``then`` is what was thought when it was checked, ``now`` what is thought now; ``remembered`` and ``entry`` are
    what is kept of it as checked and as learned.
    """

    id: str
    path: str | None
    now: Explanation
    then: Explanation | None
    remembered: Checked | None
    entry: Entry | None


def run(options: argparse.Namespace) -> int:
    """Print what there is to say; 66 for unreadable paths and unknown ids, 75 when Redis is away."""
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load(config.find_config(options.config))
    errors: list[InputError] = []
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a token may be in any script
    look = _look(options.clues)
    told = 0
    async with assembly.one_shot(settings) as (spam_filter, model):
        async for subject in _subjects(options.subjects, settings, spam_filter, model, errors):
            if told and not options.json:
                print()
            print(_json(subject) if options.json else _text(subject, look, now=options.now))
            told += 1
    sys.stdout.flush()  # here, where a reader that went away is no error
    for error in errors:
        complain(error)
    return errors[0].exit_code if errors else 0


async def _subjects(
    names: list[str], settings: Settings, spam_filter: Filter, model: Model, errors: list[InputError]
) -> AsyncGenerator[_Subject, None]:
    """What the names stand for, in order; what cannot be found or read is added to ``errors``."""
    for name in names:
        if _is_id(name):
            subject = await _by_id(name, settings, model)
            if subject:
                yield subject
            else:
                errors.append(InputError(f"{name}: unknown id, not remembered any more; give the message itself"))
            continue
        for source in inputs.read([name], errors):
            raw = headers.strip(headers.canonical(source.raw), VERDICT_FIELDS)
            check = await spam_filter.check(Message(raw, assembly.limits(settings)))
            remembered, then = await assembly.memory(settings, model).explained(check.id) or (None, None)
            entry = await model.entry(check.id)
            yield _Subject(check.id, source.name, check.explain(time.time()), then, remembered, entry)


async def _by_id(message_key: str, settings: Settings, model: Model) -> _Subject | None:
    remembered, then = await assembly.memory(settings, model).explained(message_key) or (None, None)
    entry = await model.entry(message_key)
    if remembered:
        tokens = remembered.tokens
    elif entry:
        tokens = Tokens.grouped(entry.tokens)
    else:
        return None
    scorer = assembly.scorer(settings, model)
    check = scorer.check(message_key, tokens, await scorer.read(tokens))
    return _Subject(message_key, None, check.explain(time.time()), then, remembered, entry)


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
    then = subject.then if subject.path is None and not now else None
    lines = [f"message  {printable(subject.path)}"] if subject.path is not None else []
    lines += [f"id       {subject.id}", f"checked  {_checked(subject)}"]
    if subject.entry:
        entry = subject.entry
        who = printable(f"{entry.source} {entry.actor}".rstrip())
        lines.append(f"learned  {local_time(entry.learned_at)}  as {entry.label}  by {who}")
    lines.append(f"now      {summary(subject.now)}")
    if subject.path is None and subject.remembered is None:
        lines.append("by the tokens that it was learned with; its attributes and numbers are not kept")
    lines.append("" if then else "\nas it is now:")
    return "\n".join([*lines, *table(then or subject.now, look)])


def _checked(subject: _Subject) -> str:
    """What was thought of it before."""
    if subject.then:
        return f"{local_time(subject.then.at)}  {summary(subject.then)}"
    if subject.remembered:
        return f"{subject.remembered.verdict} {subject.remembered.probability:.6f}  (why is not remembered)"
    return "never, or so long ago that it is forgotten"


def _json(subject: _Subject) -> str:
    remembered, entry = subject.remembered, subject.entry
    told: dict[str, Any] = {"path": subject.path, "id": subject.id, "remembered": None, "learned": None}
    if remembered:
        told["remembered"] = {"verdict": remembered.verdict, "probability": remembered.probability}
    if entry:
        told["learned"] = {
            "label": entry.label,
            "time": iso_time(entry.learned_at),
            "source": entry.source,
            "actor": entry.actor,
        }
    told["then"] = as_json(subject.then) if subject.then else None
    told["now"] = as_json(subject.now)
    return json.dumps(told)
