"""The files of acknowledged lessons: one folder, to which several processes append, each to files of its own.

Rules:

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
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from nbstream.store.model.acknowledgement import KEPT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
