"""Reads the files of acknowledged lessons while others write them, each lesson once."""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from nbstream.errors import StoreIncompatible
from nbstream.store.acknowledged.lesson_files import lesson_files, remove_expired
from nbstream.store.acknowledged.lesson_frames import unpack_frames
from nbstream.store.acknowledged.missing_lessons import RecordedLesson

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.store.model.acknowledgement import AcknowledgedLesson

_log = logging.getLogger(__name__)

_MAX_READ_BYTES = 32 << 20  # far more than a writer writes to one file, and more than the largest frame


@dataclass(frozen=True, slots=True)
class RecordedLessons:
    """The lessons of one model that were read.

    ``of_former_models`` counts those of former models with the same name, by identity.
    """

    lessons: list[RecordedLesson] = field(default_factory=list)
    of_former_models: Counter[str] = field(default_factory=Counter)


class LessonFileReader:
    """Reads the files in ``folder``; not to be called by several threads at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._positions: dict[Path, int] = {}
        self._unreadable: set[Path] = set()

    def start_again(self) -> None:
        """Read all lessons once more."""
        self._positions.clear()

    def read_next(self, model: str, identity: str) -> RecordedLessons:
        """Read the lessons that were written since the last call.

        ``model`` and ``identity`` are those of the model. What cannot be read is logged once, and left out.
        """
        recorded = RecordedLessons()
        try:
            paths = list(lesson_files(self._folder))
        except OSError as error:
            self._log_unreadable(self._folder, str(error))
            return recorded
        for path in paths:
            try:
                self._read_file(path, model, identity, recorded)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._log_unreadable(path, str(error))
        self._positions = {path: position for path, position in self._positions.items() if path in paths}
        self._unreadable.intersection_update({self._folder, *paths})
        return recorded

    def remove_expired(self) -> None:
        """Remove the files that are too old, since their lessons were compared with Redis."""
        with suppress(OSError):  # read_next says that the folder cannot be read
            remove_expired(self._folder, time.time())

    def read_again(self, lesson: RecordedLesson) -> None:
        """Have the next ``read_next`` read this lesson, and what follows it in its file, once more."""
        self._positions[lesson.path] = min(lesson.position, self._positions.get(lesson.path, 0))

    def read_lesson(self, lesson: RecordedLesson) -> AcknowledgedLesson | None:
        """The whole of a lesson; None where its file was removed meanwhile."""
        try:
            with _open_file(lesson.path) as file:
                file.seek(lesson.position)
                frames = unpack_frames(file.read(lesson.size))
        except OSError:
            return None
        return frames.lessons[0][1] if frames.lessons else None

    def _read_file(self, path: Path, model: str, identity: str, recorded: RecordedLessons) -> None:
        start = self._positions.get(path, 0)
        with _open_file(path) as file:
            file.seek(start)
            frames = unpack_frames(file.read(_MAX_READ_BYTES))
        self._positions[path] = start + frames.end
        if frames.is_damaged:
            self._log_unreadable(path, f"damaged after {start + frames.end} bytes")
        positions = [*(position for position, _ in frames.lessons), frames.end]
        for (position, lesson), end in zip(frames.lessons, positions[1:], strict=True):
            if lesson.model != model:
                continue
            if lesson.identity != identity:
                recorded.of_former_models[lesson.identity] += 1
                continue
            try:
                place = path, start + position, end - position
                recorded.lessons.append(RecordedLesson.from_lesson(lesson, *place))
            except (StoreIncompatible, ValueError) as error:
                self._log_unreadable(path, str(error))

    def _log_unreadable(self, path: Path, problem: str) -> None:
        """Log a file that cannot be read, once."""
        if path not in self._unreadable:
            _log.warning("acknowledged lessons in %s cannot be read: %s", path, problem)
        self._unreadable.add(path)


def _open_file(path: Path) -> BinaryIO:
    """Open a file of lessons; a pipe in its place would be waited for, for ever. Raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no file")
