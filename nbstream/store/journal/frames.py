"""Frames of byte strings in files that grow at their end: bytes in, bytes out.

Rules: a frame is the length and the CRC-32 of its content, four bytes each, big-endian, then the content: the
length of each byte string and the string. The last frame of a writer that was killed may be cut. A whole frame
with another checksum is damaged.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

_HEADER = struct.Struct(">II")
_LENGTH = struct.Struct(">I")

HEADER_BYTES = _HEADER.size


def pack_frame(strings: Sequence[bytes]) -> bytes:
    """Return the frame of these byte strings."""
    content = b"".join(part for string in strings for part in (_LENGTH.pack(len(string)), string))
    return _HEADER.pack(len(content), zlib.crc32(content)) + content


def frame_bytes(header: bytes) -> int:
    """Return how many bytes the frame has whose first ``HEADER_BYTES`` are ``header``; 0 where none begins."""
    length, _ = _HEADER.unpack(header)
    return _HEADER.size + length if length else 0  # 0: a crash of the machine left zeros in a file


def unpack_frame(frame: bytes) -> list[bytes] | None:
    """Return the byte strings of a whole frame; None for what is not one."""
    content = frame[_HEADER.size :]
    if not content or frame[: _HEADER.size] != _HEADER.pack(len(content), zlib.crc32(content)):
        return None
    try:
        return list(_unpack_strings(content))
    except struct.error:
        return None


def _unpack_strings(content: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(content):
        (length,) = _LENGTH.unpack_from(content, start)
        start += _LENGTH.size + length
        yield content[start - length : start]
