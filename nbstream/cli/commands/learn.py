"""``nbstream learn`` and ``nbstream unlearn``: teach from files or by id, and take it back."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from nbstream import config
from nbstream.assembly import assembly
from nbstream.cli import interrupts, message_files, reader_process
from nbstream.cli.actor import current_user
from nbstream.cli.exit_codes import exit_code
from nbstream.cli.terminal import print_error
from nbstream.errors import NbstreamError, StoreIncompatible
from nbstream.filter import describe_lesson, describe_outcomes
from nbstream.policy.lesson_source import LessonSource
from nbstream.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nbstream.cli.reader_process import MessageChunk
    from nbstream.config import Settings
    from nbstream.filter import Filter, LearnableMessage, Lesson, TokenizedMessage

_SOURCE = "cli"


def run(options: argparse.Namespace) -> int:
    """Say what changed; 0 also for what was so, 66 for unreadable paths and unknown ids, 75 when Redis is away.

    78 for what the ledger holds of a message and this program cannot read; the others are learned.
    """
    if not options.paths and not options.ids:
        options.wrong_usage("a PATH or --id ID is needed")
    settings = config.load_settings(config.find_config_file(options.config))
    tokenizer = Tokenizer(assembly.tokenizer_options(settings))
    with reader_process.in_own_process(
        reader_process.read_chunks(options.paths, tokenizer, assembly.mime_limits(settings))
    ) as chunks:
        return interrupts.run_interruptible(_run(options, settings, chunks))


async def _run(options: argparse.Namespace, settings: Settings, chunks: AsyncGenerator[MessageChunk, None]) -> int:
    errors: list[NbstreamError] = []
    lessons, untold = LessonSummary(errors, options.label), ""
    try:
        async with (
            assembly.open_one_shot_filter(settings, sign=True) as (spam_filter, _),
            aclosing(chunks),
            aclosing(_subjects(options, spam_filter, chunks, errors)) as subjects,
        ):
            untold = "; a few more may be, the same command goes on"  # of those that Redis has not answered for
            with _lesson_progress(options) as moved:

                def told(lesson: Lesson | StoreIncompatible) -> None:
                    lessons.add(lesson)
                    moved(1)

                await spam_filter.learn_many(subjects, options.label, LessonSource(_SOURCE, current_user()), told)
            untold = ""
    finally:
        print(lessons.describe() + untold)
        for error in errors:
            print_error(error)
        if errors and lessons.last:
            print_error(f"{len(errors)} could not be read, the rest was")
    return exit_code(errors[0]) if errors else 0


async def _subjects(
    options: argparse.Namespace,
    spam_filter: Filter,
    chunks: AsyncGenerator[MessageChunk, None],
    errors: list[NbstreamError],
) -> AsyncGenerator[LearnableMessage | TokenizedMessage, None]:
    """What the ids and the paths stand for, in order; what cannot be found or read is added to ``errors``."""
    for message_key in options.ids:
        try:
            checked = await spam_filter.recall(message_key)
        except StoreIncompatible as error:
            errors.append(StoreIncompatible(f"{message_key}: {error}"))
            continue
        if checked:
            yield checked
        else:
            errors.append(message_files.unknown_id_error(message_key))
    async for chunk in chunks:
        errors += chunk.errors
        for taught in chunk.messages:
            yield taught


@contextmanager
def _lesson_progress(options: argparse.Namespace) -> Iterator[Callable[[int], object]]:
    """What is told how many lessons there are more, and shows them where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from tqdm import tqdm  # noqa: PLC0415 - a twentieth of the time to start

    found = message_files.count_messages(options.paths)
    with tqdm(total=None if found is None else found + len(options.ids), unit=" messages") as shown:
        yield shown.update


class LessonSummary:
    """What is told of lessons: of each how it came out, and the last one whole; ``errors`` get why one is none.

    They give ``label``, None takes back.
    """

    def __init__(self, errors: list[NbstreamError], label: str | None) -> None:
        self._errors = errors
        self._verb = "learned" if label else "unlearned"
        self._outcomes = Counter[str]()
        self.last: Lesson | None = None

    def add(self, lesson: Lesson | StoreIncompatible) -> None:
        """One more."""
        if isinstance(lesson, StoreIncompatible):
            self._errors.append(lesson)
            return
        self._outcomes[str(lesson.outcome)] += 1
        self.last = lesson

    def describe(self) -> str:
        """In words, one line."""
        if self.last is None:
            return f"nothing {self._verb}"
        if self._outcomes.total() == 1:
            return f"1 {describe_lesson(self.last)}"
        return describe_outcomes(self._outcomes, self.last.after.state)
