"""``nbstream learn`` and ``nbstream unlearn``: teach from files, and take it back."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from typing import TYPE_CHECKING

from tqdm import tqdm

from nbstream import assembly, config
from nbstream.commands import inputs
from nbstream.commands.actor import user
from nbstream.mail import headers
from nbstream.mail.message import Message
from nbstream.policy.header import VERDICT_FIELDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.errors import InputError
    from nbstream.filter import Lesson

_SOURCE = "cli"


def run(options: argparse.Namespace) -> int:
    """Say what changed; 0 also for what was already so, 66 for unreadable paths, 75 when Redis is away."""
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load(config.find_config(options.config))
    errors: list[InputError] = []
    lessons = _Lessons()
    try:
        async with assembly.one_shot(settings, sign=True) as (spam_filter, _):
            with _progress(options.paths, errors) as sources:
                for source in sources:
                    raw = headers.strip(headers.canonical(source.raw), VERDICT_FIELDS)
                    message = Message(raw, assembly.limits(settings))
                    if options.label:
                        lessons.add(await spam_filter.learn(message, options.label, _SOURCE, user()))
                    else:
                        lessons.add(await spam_filter.unlearn(message, _SOURCE, user()))
    finally:
        print(lessons)
        for error in errors:
            print(f"nbstream: {error}", file=sys.stderr)
        if errors:
            print(f"nbstream: {len(errors)} could not be read, the rest was", file=sys.stderr)
    return errors[0].exit_code if errors else 0


def _progress(paths: Sequence[str], errors: list[InputError]) -> tqdm[inputs.Source]:
    """The messages, with a progress bar on a terminal."""
    quiet = not sys.stderr.isatty()
    return tqdm(
        inputs.read(paths, errors), total=None if quiet else inputs.count(paths), unit=" messages", disable=quiet
    )


class _Lessons:
    """What was done, counted; as text also where the model is now."""

    def __init__(self) -> None:
        self._outcomes: Counter[str] = Counter()
        self._last: Lesson | None = None

    def add(self, lesson: Lesson) -> None:
        self._outcomes[str(lesson.outcome)] += 1
        self._last = lesson

    def __str__(self) -> str:
        last = self._last
        if last is None:
            return "nothing learned"
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self._outcomes.items()))
        if self._outcomes.total() == 1:
            told += f" as {last.label}" if last.label else ""
            told += f": P(spam) {last.before.probability:.4f} -> {last.after.probability:.4f}"
        learned = ", ".join(f"{count} {label}" for label, count in last.after.state.learned.items())
        return f"{told}; the model knows {learned} ({last.after.state})"
