"""The files of the spool: segments, which are numbered and hold the messages in the order of their answers.

Rules:

- All processes append to the last segment, under one lock (``open_append_lock``). A segment that has a later one
  never grows again. Nobody writes where the bytes before are not whole frames: a new segment is begun instead.
- The first line of a segment names its format. A segment of another format is read by nobody, and stays.
- The folder and the files are for the daemon's user alone.

How far the spool was learned stands in a file that is written in place: one short line. What a process has written
survives its end, however it ends. After a power cut it may be an older one: then some messages are learned again,
which changes nothing. A line that cannot be read means the beginning.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbstream.delivery.maildir import sync_folder
from nbstream.store import frames
from nbstream.store.embedded.locks import FileLock
from nbstream.store.frames import NoFrame

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


FOLDER = "spool"
"""The name of the folder in ``state_dir``."""

FIRST_LINE = b"nbstream spool 1\n"
_NAME = re.compile(r"(\d{12})\.messages")


def create_folder(folder: Path) -> None:
    """Make the folder if it is missing, durably. Raises ``OSError``."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(folder.parent)


def segment_path(folder: Path, number: int) -> Path:
    """Return the path of a segment."""
    return folder / f"{number:012d}.messages"


def segment_numbers(folder: Path) -> list[int]:
    """Return the numbers of the segments that are there, in order; none where there is no folder.

    Raises ``OSError``.
    """
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)


def segment_size(folder: Path, number: int) -> int:
    """Return how many bytes a segment has, 0 where it was learned and just removed. Raises ``OSError``."""
    try:
        return segment_path(folder, number).stat().st_size
    except FileNotFoundError:
        return 0


def open_append_lock(folder: Path) -> FileLock:
    """Return the lock of those who append, not taken yet. Raises ``OSError``."""
    return FileLock(folder / "append.lock")


def open_learner_lock(folder: Path) -> FileLock:
    """Return the lock of the process that learns from the spool, not taken yet. Raises ``OSError``."""
    return FileLock(folder / "learner.lock")


@contextmanager
def open_segment(path: Path) -> Iterator[int]:
    """Yield the descriptor of a segment that is read. Raises ``OSError``, also for a segment of another format."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        first_line = os.pread(descriptor, len(FIRST_LINE), 0)
        if not FIRST_LINE.startswith(first_line):  # the end of a killed process may have cut it
            raise OSError(f"{path} is of another version of nbstream")
        yield descriptor
    finally:
        os.close(descriptor)


def frame_size(descriptor: int, offset: int) -> int | NoFrame:
    """Return how many bytes the whole frame at ``offset`` has; its content is not looked at."""
    size = frames.frame_bytes(os.pread(descriptor, frames.HEADER_BYTES, offset))
    if isinstance(size, int) and offset + size > os.fstat(descriptor).st_size:
        return NoFrame.CUT
    return size


def read_message(descriptor: int, offset: int) -> tuple[SpooledMessage, int] | NoFrame:
    """Return the message at ``offset``, and the offset behind it."""
    size = frame_size(descriptor, offset)
    if isinstance(size, NoFrame):
        return size
    strings = frames.unpack_frame(os.pread(descriptor, size, offset))
    if isinstance(strings, NoFrame):
        return strings
    try:
        return unpack_message(strings), offset + size
    except ValueError:
        return NoFrame.DAMAGED


@dataclass(frozen=True, slots=True)
class SpooledMessage:
    """A message that waits to be learned as ``label``, "spam" or "ham".

    ``actor`` is who gave the label, as in ``LessonSource``; ``received_at`` is in whole seconds since the epoch;
    ``content`` is the message as it came, with line ends of any kind.
    """

    label: str
    actor: str
    received_at: int
    content: bytes = field(repr=False)


def pack_message(message: SpooledMessage) -> bytes:
    """Return the frame of the message."""
    strings = [message.label.encode(), message.actor.encode(), b"%d" % message.received_at, message.content]
    return frames.pack_frame(strings)


def unpack_message(strings: Sequence[bytes]) -> SpooledMessage:
    """Return the message of a frame. Raises ``ValueError`` for the strings of another frame."""
    label, actor, received_at, content = strings
    return SpooledMessage(label.decode(), actor.decode(), int(received_at), content)


_MAX_BYTES = 128


@dataclass(frozen=True, slots=True, order=True)
class SpoolPosition:
    """The message at ``offset`` of segment number ``segment`` is the next one.

    ``tries`` counts the attempts at it that have not come to an end: by a fault, or with the end of their process.
    """

    segment: int = 0
    offset: int = len(FIRST_LINE)
    tries: int = 0


def read_position(folder: Path) -> SpoolPosition:
    """Return the position in the folder. Raises ``OSError``."""
    try:
        line = (folder / "position").read_bytes()[:_MAX_BYTES]
    except FileNotFoundError:
        return SpoolPosition()
    text, _, checksum = line.rstrip().rpartition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return SpoolPosition()
    segment, offset, tries = map(int, text.split())
    return SpoolPosition(segment, offset, tries)


def write_position(folder: Path, position: SpoolPosition, *, sync: bool = False) -> None:
    """Write the position; with ``sync`` it survives a power cut, too. Raises ``OSError``."""
    text = b"%d %d %d" % (position.segment, position.offset, position.tries)
    line = b"%b %08x" % (text, zlib.crc32(text))
    descriptor = os.open(folder / "position", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, line.ljust(_MAX_BYTES - 1) + b"\n", 0)
        if sync:
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
