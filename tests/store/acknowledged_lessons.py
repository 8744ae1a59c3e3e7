"""Acknowledged lessons for tests, and what a folder has of them."""

from __future__ import annotations

from pathlib import Path

from nbstream.store.model.history import history_fields
from nbstream.store.model.lesson_journal import AcknowledgedLesson, lesson_files
from nbstream.store.recovery.recorded_lessons import LessonReader
from tests.store.lessons import TOKENS, entry
from tests.store.notes import NOTE


def acknowledged(number: int = 0) -> AcknowledgedLesson:
    new = entry("spam", TOKENS, sums=[(b"=x", 5)])
    fields = [
        value if isinstance(value, bytes) else value.encode() for item in new.pack().items() for value in item
    ]
    note = tuple(value.encode() for value in history_fields(new, NOTE, ""))
    return AcknowledgedLesson("test", "0123", b"17-%d" % number, f"m{number}", "", note, tuple(fields))


def recorded_keys(folder: Path) -> list[str]:
    return [lesson.message_key for lesson in LessonReader(folder).read_next("test")]


def lesson_segments(folder: Path) -> list[Path]:
    """The files of the recorded lessons, in their order."""
    journal = lesson_files(folder)
    return [journal.path(number) for number in journal.segments()]
