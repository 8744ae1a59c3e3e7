"""How an acknowledged lesson is written in a file: bytes in, bytes out.

Rules: a frame is the length and the CRC-32 of its content, four bytes each, big-endian, then the content: the
length of each byte string and the string. The first one is the version of this format; the others come in the
order of ``AcknowledgedLesson``, with the number of note fields before them. A frame of another version is regarded
as damaged. The last frame of a writer that was killed may be cut, so what is no whole frame at the end of a file
is no error.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbstream.store.model.acknowledgement import AcknowledgedLesson

_HEADER = struct.Struct(">II")
_LENGTH = struct.Struct(">I")
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
    content = b"".join([_LENGTH.pack(len(string)) + string for string in strings])
    return _HEADER.pack(len(content), zlib.crc32(content)) + content


def unpack_frames(data: bytes) -> LessonFrames:
    """The lessons of all whole frames at the beginning of ``data``."""
    lessons: list[tuple[int, AcknowledgedLesson]] = []
    start = 0
    while start + _HEADER.size <= len(data):
        length, checksum = _HEADER.unpack_from(data, start)
        content = data[start + _HEADER.size : start + _HEADER.size + length]
        if not 0 < length <= _MAX_CONTENT_BYTES:  # 0: a file that a crash of the machine left full of zeros
            return LessonFrames(tuple(lessons), start, is_damaged=True)
        if len(content) < length:
            break
        try:
            lesson = _unpack_lesson(list(_unpack_strings(content))) if zlib.crc32(content) == checksum else None
        except (ValueError, struct.error):
            lesson = None
        if lesson is None:
            return LessonFrames(tuple(lessons), start, is_damaged=True)
        lessons.append((start, lesson))
        start += _HEADER.size + length
    return LessonFrames(tuple(lessons), start, is_damaged=False)


def _unpack_strings(content: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(content):
        (length,) = _LENGTH.unpack_from(content, start)
        start += _LENGTH.size + length
        yield content[start - length : start]


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
