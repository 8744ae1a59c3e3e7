"""``nbstream learn`` and ``nbstream unlearn``: teach from files or by id, and take it back."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from tqdm import tqdm

from nbstream import assembly, config
from nbstream.commands import inputs
from nbstream.commands.actor import user
from nbstream.commands.terminal import complain
from nbstream.errors import InputError
from nbstream.filter import tell, tell_many
from nbstream.mail import headers
from nbstream.mail.message import Message
from nbstream.policy.header import VERDICT_FIELDS

if TYPE_CHECKING:
    from nbstream.filter import Filter, Lesson, Subject
    from nbstream.mail.mime import Limits

_SOURCE = "cli"


def run(options: argparse.Namespace) -> int:
    """Say what changed; 0 also for what was so, 66 for unreadable paths and unknown ids, 75 when Redis is away."""
    if not options.paths and not options.ids:
        options.wrong_usage("a PATH or --id ID is needed")
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load(config.find_config(options.config))
    errors: list[InputError] = []
    lessons: list[Lesson] = []
    try:
        async with (
            assembly.one_shot(settings, sign=True) as (spam_filter, _),
            aclosing(_subjects(options, spam_filter, assembly.limits(settings), errors)) as subjects,
        ):
            async for subject in subjects:
                if options.label:
                    lessons.append(await spam_filter.learn(subject, options.label, _SOURCE, user()))
                else:
                    lessons.append(await spam_filter.unlearn(subject, _SOURCE, user()))
    finally:
        print(_told(lessons))
        for error in errors:
            complain(error)
        if errors and lessons:
            print(f"nbstream: {len(errors)} could not be read, the rest was", file=sys.stderr)
    return errors[0].exit_code if errors else 0


async def _subjects(
    options: argparse.Namespace, spam_filter: Filter, limits: Limits, errors: list[InputError]
) -> AsyncGenerator[Subject, None]:
    """What the ids and the paths stand for, in order; what cannot be found or read is added to ``errors``."""
    for message_key in options.ids:
        checked = await spam_filter.recall(message_key)
        if checked:
            yield checked
        else:
            errors.append(
                InputError(f"{message_key}: unknown id, not remembered any more; give the message itself")
            )
    with _progress(options.paths, errors) as sources:
        for source in sources:
            yield Message(headers.strip(headers.canonical(source.raw), VERDICT_FIELDS), limits)


def _progress(paths: Sequence[str], errors: list[InputError]) -> tqdm[inputs.Source]:
    """The messages, with a progress bar on a terminal."""
    quiet = not sys.stderr.isatty()
    return tqdm(
        inputs.read(paths, errors), total=None if quiet else inputs.count(paths), unit=" messages", disable=quiet
    )


def _told(lessons: Sequence[Lesson]) -> str:
    if not lessons:
        return "nothing learned"
    return f"1 {tell(lessons[0])}" if len(lessons) == 1 else tell_many(lessons)
