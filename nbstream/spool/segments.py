"""The files of the spool: segments, which are numbered and hold the messages in the order of their answers.

Rules:

- All processes append to the last segment, under one lock (``open_append_lock``). A segment that has a later one
  never grows again. Nobody writes where the bytes before are not whole frames: a new segment is begun instead.
- The first line of a segment names its format. A segment of another format is read by nobody, and stays.
- The folder and the files are for the daemon's user alone.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nbstream.relay.maildir_files import sync_folder
from nbstream.spool.spooled_message import unpack_message
from nbstream.store import frames
from nbstream.store.embedded.locks import FileLock
from nbstream.store.frames import NoFrame

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nbstream.spool.spooled_message import SpooledMessage

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
