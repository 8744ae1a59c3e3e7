"""The lessons that the processes of this host have recorded, as they are compared with Redis."""

from __future__ import annotations

import itertools
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nbstream.bayes.kinds import kind_of_packed_sums
from nbstream.durable_files import make_folder
from nbstream.errors import StoreIncompatible
from nbstream.store.model.history import id_milliseconds, is_stream_id
from nbstream.store.model.lesson_journal import (
    COMMANDS_FOLDER,
    KEPT_SECONDS,
    AcknowledgedLesson,
    former_files,
    lesson_files,
    take_over,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nbstream.store.journal.journal import Journal, Place, Position

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecordedLesson:
    """A recorded lesson without its tokens, and its place in its journal.

    ``identity`` is that of the model. ``change`` is the stream id of the change that people made, also where the
    lesson was taught again since.
    ``former_version`` and ``version`` are those of the ledger entry before and after it, empty for no entry;
    ``class_name`` is what was learned, empty where the message was unlearned. ``made_at`` is that of the note.
    """

    identity: str
    change: bytes
    message_key: str
    former_version: str
    version: str
    class_name: str
    made_at: float
    journal: Journal
    place: Place

    @classmethod
    def from_lesson(cls, lesson: AcknowledgedLesson, journal: Journal, place: Place) -> RecordedLesson:
        """What is to be known of ``lesson``.

        Raises ``StoreIncompatible`` where its note cannot be read, and ``ValueError`` for a change that is none.
        """
        fields = dict(zip(lesson.entry_fields[0::2], lesson.entry_fields[1::2], strict=True))
        version, label = (fields.get(name, b"").decode() for name in (b"version", b"label"))
        class_name = kind_of_packed_sums(fields.get(b"sums", b"")) or label
        change = lesson.note.repeats or lesson.change
        if not is_stream_id(change):
            raise ValueError(f"{change!r:.60} is the id of no change")
        versions = lesson.former_version, version
        made_at = lesson.note.made_at
        return cls(lesson.identity, change, lesson.message_key, *versions, class_name, made_at, journal, place)

    @property
    def milliseconds(self) -> int:
        """When the lesson was acknowledged, in milliseconds since the epoch by the clock of Redis."""
        return id_milliseconds(self.change)

    @property
    def moment(self) -> tuple[int, float]:
        """When the lesson was taught: its ``milliseconds``, and ``made_at``."""
        return self.milliseconds, self.made_at

    @property
    def order(self) -> tuple[int, float, int]:
        """The place of the lesson among those of its message."""
        return *self.moment, int(self.change.partition(b"-")[2])


class LessonReader:
    """Reads the lessons of the daemon in ``folder``, and those of commands below it.

    Not to be called by several threads at once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._journals = [lesson_files(folder), lesson_files(folder / COMMANDS_FOLDER)]
        self._unreadable: set[Path] = set()
        self.start_again()

    def start_again(self) -> None:
        """Read all lessons once more."""
        self._positions = {journal: journal.first_position() for journal in self._journals}
        self._again: list[RecordedLesson] = []

    def read_again(self, lesson: RecordedLesson) -> None:
        """Have the next ``read_next`` return this lesson once more."""
        self._again.append(lesson)

    def read_next(self, model: str) -> list[RecordedLesson]:
        """Read the lessons of the model of that name that were recorded since the last call.

        What cannot be read is logged once, and left out.
        """
        again, self._again = self._again, []
        lessons = [lesson for lesson in again if lesson.journal.path(lesson.place.start.segment).exists()]
        self._prepare_folders()
        for journal in self._journals:
            try:
                for start in journal.starts(self._positions[journal]):
                    lessons += self._read_segment(journal, start, model)
            except OSError as error:
                self._log_unreadable(journal.folder, error)
        return lessons

    def read_lesson(self, lesson: RecordedLesson) -> AcknowledgedLesson | None:
        """The whole of a lesson; None where its segment was removed meanwhile."""
        try:
            return _lesson_at(lesson.journal, lesson.place)
        except (OSError, ValueError):
            return None

    def remove_compared(self) -> None:
        """Remove the segments that were not changed for ``KEPT_SECONDS``, since their lessons were compared."""
        for journal in self._journals:
            with suppress(OSError), journal.locked():  # read_next says that the folder cannot be used
                old = list(itertools.takewhile(partial(_is_old, journal), journal.segments()))
                if old:
                    journal.remove_before(journal.first_position(old[-1] + 1))

    def _prepare_folders(self) -> None:
        try:
            # The user of the daemon makes both folders: in one of root no other command could record anything.
            make_folder(self._folder / COMMANDS_FOLDER)
            paths = former_files(self._folder)
        except OSError as error:
            self._log_unreadable(self._folder, error)
            return
        for path in paths:
            try:
                take_over(path)
            except OSError as error:
                self._log_unreadable(path, error)

    def _read_segment(self, journal: Journal, start: Position, model: str) -> Iterator[RecordedLesson]:
        path = journal.path(start.segment)
        try:
            for place in journal.places(start):
                self._positions[journal] = place.end
                try:
                    lesson = _lesson_at(journal, place)
                    if lesson.model == model:
                        yield RecordedLesson.from_lesson(lesson, journal, place)
                except (StoreIncompatible, ValueError) as error:
                    self._log_unreadable(path, error)
        except FileNotFoundError:  # a writer needed the room
            return
        except OSError as error:
            self._log_unreadable(path, error)

    def _log_unreadable(self, path: Path, problem: Exception) -> None:
        """Log a file that cannot be read, once."""
        if path not in self._unreadable:
            _log.warning("acknowledged lessons in %s cannot be read: %s", path, problem)
        self._unreadable.add(path)


def _is_old(journal: Journal, segment: int) -> bool:
    return journal.path(segment).stat().st_mtime < time.time() - KEPT_SECONDS


def _lesson_at(journal: Journal, place: Place) -> AcknowledgedLesson:
    """The lesson at that place. Raises ``OSError``, and ``ValueError`` where there is none."""
    record = journal.read(place)
    if record is None:
        raise ValueError(f"damaged after {place.start.offset} bytes")
    return AcknowledgedLesson.unpack(record)
