"""How far the spool was learned, in a file that is written in place.

Rules: the position is one short line, and what a process has written survives its end, however it ends. After a
power cut it may be an older one: then some messages are learned again, which changes nothing. A line that cannot
be read means the beginning.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.spool.segments import FIRST_LINE

if TYPE_CHECKING:
    from pathlib import Path

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
