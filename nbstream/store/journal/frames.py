"""Frames of byte strings in files that grow at their end: bytes in, bytes out.

Rules: a frame is the length and the CRC-32 of its content, four bytes each, big-endian, then the content: the
length of each byte string and the string. The last frame of a writer that was killed may be cut. A whole frame
with another checksum is damaged.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from enum import Enum, auto

_HEADER = struct.Struct(">II")
_LENGTH = struct.Struct(">I")

HEADER_BYTES = _HEADER.size


class NoFrame(Enum):
    """Why there is no frame to read."""

    CUT = auto()
    """The bytes end before the frame does, or there are none."""

    DAMAGED = auto()
    """It is not what was written."""


def pack_frame(strings: Sequence[bytes]) -> bytes:
    """Return the frame of these byte strings."""
    content = b"".join(part for string in strings for part in (_LENGTH.pack(len(string)), string))
    return _HEADER.pack(len(content), zlib.crc32(content)) + content


def frame_bytes(header: bytes) -> int | NoFrame:
    """Return how many bytes the frame has whose first ``HEADER_BYTES`` are ``header``."""
    if len(header) < _HEADER.size:
        return NoFrame.CUT
    length, _ = _HEADER.unpack(header)
    return _HEADER.size + length if length else NoFrame.DAMAGED  # 0: a crash of the machine left zeros in a file


def unpack_frame(frame: bytes) -> list[bytes] | NoFrame:
    """Return the byte strings of the frame at the beginning of ``frame``."""
    size = frame_bytes(frame[: _HEADER.size])
    if isinstance(size, NoFrame):
        return size
    if len(frame) < size:
        return NoFrame.CUT
    content = frame[_HEADER.size : size]
    if zlib.crc32(content) != _HEADER.unpack_from(frame)[1]:
        return NoFrame.DAMAGED
    try:
        return list(_unpack_strings(content))
    except struct.error:
        return NoFrame.DAMAGED


def _unpack_strings(content: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(content):
        (length,) = _LENGTH.unpack_from(content, start)
        start += _LENGTH.size + length
        yield content[start - length : start]
