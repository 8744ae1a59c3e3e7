"""``nbstream ask``: show the messages whose label would tell most, and learn the answers.

Rules: nothing of a message reaches the terminal but printable characters. Nothing is learned before the last
question is answered or left out, so that Ctrl-C leaves everything as it was.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbstream import config
from nbstream.assembly.filter import open_one_shot_filter
from nbstream.assembly.store import make_row_search
from nbstream.cli import interrupts, message_files
from nbstream.cli.exit_codes import exit_code
from nbstream.cli.terminal import local_time, print_error, print_note, printable
from nbstream.filter import describe_lesson
from nbstream.policy.budget import sample_progress
from nbstream.policy.first_scores import FirstScores
from nbstream.policy.lesson_source import COMMAND_SOURCE
from nbstream.store.recent.questions import find_questions
from nbstream.system_users import current_user

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.errors import NbstreamError
    from nbstream.policy.budget import SampleProgress
    from nbstream.store.recent.message_rows import MessageRow
    from nbstream.store.recent.questions import Questions

_MAX_SUBJECT_LENGTH = 100


def run(options: argparse.Namespace) -> int:
    """Print the questions and learn the answers; 66 if a message was forgotten meanwhile, 75 if Redis is away."""
    settings = config.load_settings(config.find_config_file(options.config))
    questions, progress = interrupts.run_interruptible(_read_questions(settings, options.count))
    for of_budget in progress:
        print(f"A budget of {of_budget}.")
    is_answered = not options.list and sys.stdin.isatty() and sys.stdout.isatty()
    answers: dict[str, str] = {}
    for heading, rows in _sections(questions):
        print(heading)
        if is_answered and not _read_answers(rows, settings.model.kinds[1:], answers):
            break
        if not is_answered:
            for row in rows:
                print(_render_row(row))
    _print_notes(settings, questions)
    return interrupts.run_interruptible(_learn(settings, answers)) if answers else 0


async def _read_questions(settings: Settings, count: int) -> tuple[Questions, Sequence[SampleProgress]]:
    """Return the questions, and how far each budget is from its promise where messages are drawn for it."""
    async with open_one_shot_filter(settings) as (spam_filter, model):
        questions = await find_questions(make_row_search(settings, model), model.labels, count)
        rates = sorted(spam_filter.policy.budget_rates) if settings.ask else []
        first_scores = await model.first_scores() if rates else FirstScores()
        return questions, [sample_progress(first_scores["ham"], rate, time.time()) for rate in rates]


def _sections(questions: Questions) -> Sequence[tuple[str, Sequence[MessageRow]]]:
    """Return the questions of each kind under their heading, without the kinds that have none."""
    drawn = (
        f"Drawn by chance, for the budgets (labelled of those remembered: {questions.answered}; of those called "
        f"spam: {questions.answered_spam}):"
    )
    nearest = "Unsure, and not drawn: their labels teach most, and no budget counts on them:"
    sections = ((drawn, questions.drawn), (nearest, questions.nearest))
    return [(heading, rows) for heading, rows in sections if rows]


def _render_row(row: MessageRow) -> str:
    verdict = f"{row.verdict} {row.probability:.4f}"
    text = f"{local_time(row.checked_at)}  {row.id}  {verdict}"
    if row.envelope:
        first, *others = row.envelope.recipients or ("?",)
        more = f" and {len(others)} more" if others else ""
        sender = "?" if row.envelope.sender is None else row.envelope.sender or "<>"
        text += f"  {sender} -> {first}{more}  {(row.envelope.subject or '')[:_MAX_SUBJECT_LENGTH]}"
    return printable(text)


def _read_answers(rows: Sequence[MessageRow], kinds: Sequence[str], answers: dict[str, str]) -> bool:
    """Ask for the class of each message, and add the answers by id; return False where somebody ends it."""
    numbered = {str(number): kind for number, kind in enumerate(kinds, start=1)}
    labels = {"s": "spam", "h": "ham", **numbered}
    offered = ["[s]pam", "[h]am", *(f"[{number}] {kind}" for number, kind in numbered.items())]
    for row in rows:
        print(_render_row(row))
        print(f"  {', '.join(offered)}, Enter for the next one, [q]uit: ", end="", flush=True)
        line = sys.stdin.readline()
        answer = line.strip().lower()[:1]
        if not line or answer == "q":
            return False
        if answer in labels:
            answers[row.id] = labels[answer]
    return True


def _print_notes(settings: Settings, questions: Questions) -> None:
    if not settings.remembers_rows or not settings.memory.messages:
        print_note(
            "nbstream: nothing is remembered to ask about; it needs memory.messages above 0, and memory.envelope "
            "or listeners.http"
        )
    elif not questions.drawn and not questions.nearest:
        print_note("nbstream: there is nothing to ask about now")
    if settings.ask is None:
        print_note("nbstream: no messages are drawn for budgets; ask: {share: 0.02} draws one in fifty")


async def _learn(settings: Settings, answers: dict[str, str]) -> int:
    """Learn the answers, and print what each one did."""
    errors: list[NbstreamError] = []
    async with open_one_shot_filter(settings, sign=True) as (spam_filter, _):
        for message_key, label in answers.items():
            checked = await spam_filter.recall(message_key)
            if checked is None:
                errors.append(message_files.unknown_id_error(message_key))
                print_error(errors[-1])
                continue
            lesson = await spam_filter.learn(checked, label, COMMAND_SOURCE, current_user())
            print(f"{message_key}  {describe_lesson(lesson)}")
    return exit_code(errors[0]) if errors else 0
