"""The journal of one process: the lessons that Redis acknowledged to it, before it acknowledges them to others.

Rules: a journal that cannot be written refuses no lesson: it says so once, counts, and goes on. The file is
written by a thread of its own, since a disk may be slow. A lesson waits for that at most ``_WRITE_SECONDS``; while
a write takes longer than that, the lessons after it do not wait.

The files are in one folder, to which several processes append, each to files of its own:

- Nobody writes to a file for longer than ``SEGMENT_SECONDS``; then the writer begins another one. Therefore a file
  that was not changed for ``KEPT_SECONDS`` is never written again, and no lock is needed to remove it. It does not
  matter whether its writer still lives.
- Such a file is removed when its lessons were compared with Redis, which may have been away for hours, while all
  replicas followed. Where that does not happen, as without a daemon, a writer removes it after
  ``ABANDONED_SECONDS``.
- One writer keeps at most ``MAX_BYTES``, about 8,000 lessons of 450 tokens; of more it keeps the newest.
- The files say what was in people's mail, as the ledger does: mode 0600, in a folder of mode 0700.
- The system writes them to the disk when it likes. They survive the end of every process, but not the end of the
  machine.

A frame has one lesson: the first byte string of a frame (``store.frames``) is the version of this format; the
others come in the order of ``AcknowledgedLesson``, with the number of note fields before them. A frame of another
version is regarded as damaged. What is no whole frame at the end of a file is no error.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import secrets
import stat
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from nbstream.errors import StoreIncompatible
from nbstream.store import frames
from nbstream.store.acknowledged.missing_lessons import RecordedLesson
from nbstream.store.frames import NoFrame
from nbstream.store.model.commit import KEPT_SECONDS, AcknowledgedLesson

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_log = logging.getLogger(__name__)

# The files of acknowledged lessons: one folder, to which several processes append, each to files of its own.
#
# Rules:
#
# - Nobody writes to a file for longer than ``SEGMENT_SECONDS``; then the writer begins another one. Therefore a
# file   that was not changed for ``KEPT_SECONDS`` is never written again, and no lock is needed to remove it. It
# does not   matter whether its writer still lives. - Such a file is removed when its lessons were compared with
# Redis, which may have been away for hours, while all   replicas followed. Where that does not happen, as
# without a daemon, a writer removes it after   ``ABANDONED_SECONDS``. - One writer keeps at most ``MAX_BYTES``,
# about 8,000 lessons of 450 tokens; of more it keeps the newest. - The files say what was in people's mail, as
# the ledger does: mode 0600, in a folder of mode 0700. - The system writes them to the disk when it likes. They
# survive the end of every process, but not the end of the   machine.
#
# A frame has one lesson: the first byte string of a frame (``store.frames``) is the version of this format; the
# others come in the order of ``AcknowledgedLesson``, with the number of note fields before them. A frame of
# another version is regarded as damaged. What is no whole frame at the end of a file is no error.

FOLDER = "acknowledged"
"""The name of the folder in ``state_dir``."""

ABANDONED_SECONDS = 86_400.0
"""How long a lesson is kept at most where no daemon finds it in Redis and its replicas, and somebody writes to the
folder.
"""

SEGMENT_SECONDS = 180.0
MAX_BYTES = 16 << 20
_SEGMENT_BYTES = 2 << 20
_NAME = re.compile(r"\d{20}-[0-9a-f]{16}\.lessons")


class LessonFileWriter:
    """Appends to files in ``folder``; not to be called by several threads at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        self._opened_at = 0.0
        self._segments: deque[_Segment] = deque()

    def append(self, data: bytes) -> None:
        """Append whole frames. Raises ``OSError``; the next call begins another file then."""
        if self._descriptor is None or self._is_full(len(data)) or self._is_removed():
            self.close()
            self._open_segment()
        assert self._descriptor is not None
        segment = self._segments[-1]
        try:
            rest = memoryview(data)
            while rest:
                written = os.write(self._descriptor, rest)
                segment.size += written
                rest = rest[written:]
        except OSError:
            self.close()
            if not segment.size:  # a full disk must not leave an empty file for each lesson
                self._segments.pop().path.unlink(missing_ok=True)
            raise

    def close(self) -> None:
        """Close the present file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_full(self, added: int) -> bool:
        age = time.monotonic() - self._opened_at
        return age > SEGMENT_SECONDS or self._segments[-1].size + added > _SEGMENT_BYTES

    def _is_removed(self) -> bool:
        """Whether somebody has removed the present file, as when the clock of the machine has jumped."""
        return self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0

    def _open_segment(self) -> None:
        self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        remove_expired(self._folder, time.time(), ABANDONED_SECONDS)
        while sum(segment.size for segment in self._segments) > MAX_BYTES - _SEGMENT_BYTES:
            self._segments.popleft().path.unlink(missing_ok=True)
        path = self._folder / f"{time.time_ns():020d}-{secrets.token_hex(8)}.lessons"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        self._opened_at = time.monotonic()
        self._segments.append(_Segment(path))


class _Segment:
    """One file of a writer, and how many bytes it has."""

    __slots__ = ("path", "size")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0


def lesson_files(folder: Path) -> Iterator[Path]:
    """The files in the folder, oldest first; none where there is no folder. Raises ``OSError``."""
    with suppress(FileNotFoundError):
        yield from sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


def remove_expired(folder: Path, now: float, seconds: float = KEPT_SECONDS) -> None:
    """Remove the files that were not changed for so many seconds; ``now`` is in seconds since the epoch."""
    for path in lesson_files(folder):
        with suppress(OSError):  # somebody else has removed it, or it belongs to another user
            if path.stat().st_mtime < now - seconds:
                path.unlink()


_MAX_CONTENT_BYTES = 16 << 20  # an entry has at most some thousand tokens; its text takes a few times 10 kB
_FORMAT_VERSION = b"1"
_NAMED_STRINGS = 7  # before the fields: format, model, identity, change, message key, former version, note fields


@dataclass(frozen=True, slots=True)
class LessonFrames:
    """The lessons at the beginning of some bytes, each with the position of its frame.

    ``end`` is where the first byte behind them is. ``is_damaged`` says that a whole frame begins there which is
    not what was written; without it the bytes end there, or a frame that is cut.
    """

    lessons: tuple[tuple[int, AcknowledgedLesson], ...]
    end: int
    is_damaged: bool


def pack_frame(lesson: AcknowledgedLesson) -> bytes:
    """The frame of a lesson."""
    strings = (
        _FORMAT_VERSION,
        lesson.model.encode(),
        lesson.identity.encode(),
        lesson.change,
        lesson.message_key.encode(),
        lesson.former_version.encode(),
        b"%d" % len(lesson.note_fields),
        *lesson.note_fields,
        *lesson.entry_fields,
    )
    return frames.pack_frame(strings)


def unpack_frames(data: bytes) -> LessonFrames:
    """The lessons of all whole frames at the beginning of ``data``."""
    lessons: list[tuple[int, AcknowledgedLesson]] = []
    start = 0
    while True:
        size = frames.frame_bytes(data[start : start + frames.HEADER_BYTES])
        if size is NoFrame.CUT:
            return LessonFrames(tuple(lessons), start, is_damaged=False)
        if size is NoFrame.DAMAGED or size > frames.HEADER_BYTES + _MAX_CONTENT_BYTES:
            return LessonFrames(tuple(lessons), start, is_damaged=True)
        strings = frames.unpack_frame(data[start : start + size])
        lesson = None
        if isinstance(strings, list):
            with suppress(ValueError):
                lesson = _unpack_lesson(strings)
        if lesson is None:
            return LessonFrames(tuple(lessons), start, is_damaged=strings is not NoFrame.CUT)
        lessons.append((start, lesson))
        start += size


def _unpack_lesson(strings: Sequence[bytes]) -> AcknowledgedLesson:
    version, model, identity, change, message_key, former_version, note_length = strings[:_NAMED_STRINGS]
    if version != _FORMAT_VERSION:
        raise ValueError(version)
    fields = tuple(strings[_NAMED_STRINGS:])
    return AcknowledgedLesson(
        model.decode(),
        identity.decode(),
        change,
        message_key.decode(),
        former_version.decode(),
        fields[: int(note_length)],
        fields[int(note_length) :],
    )


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


_WRITE_SECONDS = 1.0
_MAX_WAITING_BYTES = 4 << 20  # about 3,000 lessons that wait for the disk


class LessonJournal:
    """The journal of this process in ``folder``; a ``LessonRecorder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identity = ""
        self._writer = LessonFileWriter(folder)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._waiting_bytes = 0
        self._is_slow = False
        self._is_failing = False
        self._report_unrecorded: Callable[[int], object] = lambda _: None

    def report_unrecorded_to(self, report: Callable[[int], object]) -> None:
        """From now on call ``report`` with the number of lessons that could not be recorded."""
        self._report_unrecorded = report

    async def record(self, lessons: Sequence[AcknowledgedLesson]) -> None:
        """Record the lessons; returns when they are in the file, or when that takes too long. Never raises."""
        data = b"".join(map(pack_frame, lessons))
        if self._waiting_bytes + len(data) > _MAX_WAITING_BYTES:
            self._note_failure(len(lessons), "the disk is too slow")
            return
        self._waiting_bytes += len(data)
        writing = asyncio.get_running_loop().run_in_executor(self._executor, self._writer.append, data)
        writing.add_done_callback(lambda _: self._note_end(len(data), len(lessons), writing))
        if not self._is_slow:
            done, _ = await asyncio.wait([writing], timeout=_WRITE_SECONDS)
            self._is_slow = self._is_slow or not done

    async def close(self) -> None:
        """Write what waits, and close the file."""
        closing = asyncio.get_running_loop().run_in_executor(self._executor, self._writer.close)
        await asyncio.wait([closing], timeout=_WRITE_SECONDS)
        self._executor.shutdown(wait=False)

    def _note_end(self, size: int, lessons: int, writing: asyncio.Future[None]) -> None:
        self._waiting_bytes -= size
        self._is_slow = False
        error = None if writing.cancelled() else writing.exception()
        if error:
            self._note_failure(lessons, str(error))
        elif self._is_failing:
            self._is_failing = False
            _log.info("acknowledged lessons are recorded again")

    def _note_failure(self, lessons: int, problem: str) -> None:
        """Count lessons that are not recorded, and log the first failure of several."""
        self._report_unrecorded(lessons)
        if not self._is_failing:
            _log.error(
                "acknowledged lessons are not recorded: what a failover of Redis loses cannot be taught again: %s",
                problem,
            )
        self._is_failing = True
