"""The files of a journal: records that the processes of one host append, and that one of them reads in order.

Rules:

- A journal is a folder of segments. The name of a segment is its number: the second (Unix time) in which it was
  begun, or the one after the last number. Its first line names the format; a frame (``frames``) for each record
  follows.
- All processes append to the last segment, under one lock. A segment that has a later one never grows again.
- What a killed or failed writer has left is no record: nobody writes where the bytes before are not whole frames,
  but begins a new segment instead. A frame that is not what was written is passed over as a whole.
- The position says what is done with: it survives the end of every process. After a power cut it may be an older
  one, and a position that cannot be read means the beginning, so a reader must stand to read a record again. Only
  whole segments are removed, and no number is used twice.
- A segment of another format is read by nobody. The folder and the files are for the daemon's user.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.durable_files import sync_folder
from nbstream.store.embedded.locks import FileLock
from nbstream.store.journal.frames import HEADER_BYTES, frame_bytes, unpack_frame

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST_LINE = b"nbstream spool 1\n"
"""With it each segment begins."""

_SEGMENT_NAME = re.compile(r"(\d{12})\.messages")
_POSITION_BYTES = 128


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """The frame at ``offset`` of segment number ``segment`` is the next one.

    ``tries`` counts the attempts at it that have not come to an end: by a fault, or with the end of their process.
    """

    segment: int
    offset: int
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a frame is, from ``start`` to ``end`` of the same segment."""

    start: Position
    end: Position

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.end.offset - self.start.offset


class Journal:
    """The journal in ``folder``, which need not be there. All methods raise ``OSError``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of those who append, for milliseconds. Raises ``TimeoutError`` where others keep it."""
        with FileLock(self.folder / "append.lock") as lock:
            lock.wait_for_lock(fcntl.LOCK_EX)
            yield

    def segments(self) -> list[int]:
        """Return the numbers of the segments that are there, in order; none where there is no folder."""
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 - each append asks; iterdir takes twice the time
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for match in map(_SEGMENT_NAME.fullmatch, names) if match)

    def path(self, segment: int) -> Path:
        """Return the path of a segment."""
        return self.folder / f"{segment:012d}.messages"

    def first_position(self, segment: int = 0) -> Position:
        """Return the position of the first frame of a segment."""
        return Position(segment, len(FIRST_LINE))

    def starts(self, position: Position) -> list[Position]:
        """Return where reading begins in each segment, so that all frames from ``position`` on are read.

        What is read of a segment after that is all that it will ever have, but for the last one.
        """
        later = [self.first_position(number) for number in self.segments() if number >= position.segment]
        return [max(position, first) if first.segment == position.segment else first for first in later]

    def places(self, start: Position) -> Iterator[Place]:
        """Yield where the frames of a segment are, from ``start`` on, as their headers say.

        What is no frame is one place that reaches to the end of the segment.
        """
        number, offset = start.segment, start.offset
        with self._opened(number) as descriptor:
            while len(header := os.pread(descriptor, HEADER_BYTES, offset)) == HEADER_BYTES:
                rest = os.fstat(descriptor).st_size - offset
                size = frame_bytes(header) or rest
                if size > rest:
                    return
                yield Place(Position(number, offset), Position(number, offset + size))
                offset += size

    def read(self, place: Place) -> list[bytes] | None:
        """Return the record at that place; None where it is damaged, or was removed by its failed writer."""
        record = unpack_frame(self.read_bytes(place))
        if record is None:
            with self.locked():  # a writer may just remove what it wrote in part
                record = unpack_frame(self.read_bytes(place))
        return record

    def read_bytes(self, place: Place) -> bytes:
        """Return the bytes at that place, whatever they are."""
        with self._opened(place.start.segment) as descriptor:
            return os.pread(descriptor, place.size, place.start.offset)

    @contextmanager
    def _opened(self, segment: int) -> Iterator[int]:
        path = self.path(segment)
        # What is no file, as a pipe, would be waited for, for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, f"{path} is no file")
            first_line = os.pread(descriptor, len(FIRST_LINE), 0)
            if not FIRST_LINE.startswith(first_line):  # the end of a killed process may have cut it
                raise OSError(errno.EINVAL, f"{path} is of another version of nbstream")
            yield descriptor
        finally:
            os.close(descriptor)

    def read_position(self) -> Position:
        """Return the position."""
        try:
            line = (self.folder / "position").read_bytes()[:_POSITION_BYTES]
        except FileNotFoundError:
            return self.first_position()
        text, _, checksum = line.rstrip().rpartition(b" ")
        if checksum != b"%08x" % zlib.crc32(text):
            return self.first_position()
        return Position(*map(int, text.split()))

    def write_position(self, position: Position, *, sync: bool = False) -> None:
        """Write the position, in place; with ``sync`` it survives a power cut, too."""
        text = b"%d %d %d" % (position.segment, position.offset, position.tries)
        line = b"%b %08x" % (text, zlib.crc32(text))
        descriptor = os.open(self.folder / "position", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, line.ljust(_POSITION_BYTES - 1) + b"\n", 0)
            if sync:
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def remove_before(self, position: Position) -> None:
        """Write the position, and remove the segments before it."""
        self.write_position(position, sync=True)
        for number in self.segments():
            if number < position.segment:
                self.path(number).unlink(missing_ok=True)
        sync_folder(self.folder)
