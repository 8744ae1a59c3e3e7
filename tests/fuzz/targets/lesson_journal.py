"""The journal of acknowledged lessons: any bytes have whole lessons at their beginning, and a cut is no damage.

The first byte says whether the rest is a file, or the strings of lessons, with a NUL or 0x01 between the strings
and 0xff between the lessons.
"""

from __future__ import annotations

from nbstream.store.acknowledged.lesson_journal import pack_frame, unpack_frames
from nbstream.store.model.commit import AcknowledgedLesson
from tests.fuzz.target import Choices, FuzzTarget

_NAMED = 5


def _check(data: bytes) -> None:
    choices = Choices(data)
    if choices.number(2):
        _check_file(choices.rest)
        return
    lessons = tuple(map(_lesson, choices.rest.split(b"\xff")))
    frames = [pack_frame(lesson) for lesson in lessons]
    content = b"".join(frames)
    read = unpack_frames(content)
    assert tuple(lesson for _, lesson in read.lessons) == lessons
    assert (read.end, read.is_damaged) == (len(content), False)
    cut = unpack_frames(content[:-1])
    assert [lesson for _, lesson in cut.lessons] == list(lessons[:-1])
    assert (cut.end, cut.is_damaged) == (len(content) - len(frames[-1]), False)
    position = len(data) % len(frames[0])
    changed = content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]
    assert not unpack_frames(changed).lessons


def _check_file(content: bytes) -> None:
    read = unpack_frames(content)
    assert 0 <= read.end <= len(content)
    positions = [position for position, _ in read.lessons]
    assert positions == sorted(set(positions))
    assert b"".join(pack_frame(lesson) for _, lesson in read.lessons) == content[: read.end]


def _lesson(text: bytes) -> AcknowledgedLesson:
    named, *fields = text.split(b"\1")
    strings = [*named.split(b"\0"), *[b""] * _NAMED][:_NAMED]
    model, identity, change, message_key, former_version = strings
    notes = tuple(fields[: len(fields) // 2])
    names = (model, identity, message_key, former_version)
    model_text, identity_text, key_text, version_text = (name.decode("utf-8", "replace") for name in names)
    entry = tuple(fields[len(notes) :])
    return AcknowledgedLesson(model_text, identity_text, change, key_text, version_text, notes, entry)


_TEXT = b"mail\0" + b"id\0" + b"1799999999500-0\0" + b"a" * 24 + b"\0v1\1source\1smtp\1label\1spam\1tokens\1x"

TARGET = FuzzTarget(
    _check,
    (
        b"\0" + _TEXT,
        b"\0" + _TEXT + b"\xff" + _TEXT.replace(b"smtp", b"http"),
        b"\1" + pack_frame(_lesson(_TEXT)) * 2,
        b"\1" + pack_frame(_lesson(_TEXT))[:40],
        b"\1" + b"\0" * 60,
        b"\0",
    ),
    words=(b"\0\0\0\0", b"\0", b"\1", b"\xff", b"\0\0\0\x0a"),
    max_bytes=2000,
    mutations=1500,
)
