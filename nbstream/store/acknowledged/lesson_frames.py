"""How an acknowledged lesson is written in a file: bytes in, bytes out.

Rules: the first byte string of a frame (``store.frames``) is the version of this format; the others come in the
order of ``AcknowledgedLesson``, with the number of note fields before them. A frame of another version is regarded
as damaged. What is no whole frame at the end of a file is no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from nbstream.store import frames
from nbstream.store.frames import NoFrame
from nbstream.store.model.acknowledgement import AcknowledgedLesson

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
