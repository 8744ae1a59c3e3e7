"""The journal of acknowledged lessons: any bytes have whole lessons at their beginning, and a cut is no damage.

The first byte says whether the rest is what a segment has, or the strings of lessons, with a NUL or 0x01 between
the strings and 0xff between the lessons.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from nbstream.store.journal.frames import pack_frame
from nbstream.store.journal.journal import Place
from nbstream.store.model.lesson_journal import AcknowledgedLesson, lesson_files
from tests.fuzz.target import Choices, FuzzTarget

_NAMED = 5
_FIRST_LINE = b"nbstream lessons 2\n"


def _check(data: bytes) -> None:
    choices = Choices(data)
    if choices.number(2):
        _check_segment(choices.rest)
        return
    lessons = list(map(_lesson, choices.rest.split(b"\xff")))
    frames = [pack_frame(lesson.pack()) for lesson in lessons]
    content = b"".join(frames)
    assert [AcknowledgedLesson.unpack(record) for _, record in _read(content) if record] == lessons
    cut = _read(content[:-1])
    assert [AcknowledgedLesson.unpack(record) for _, record in cut if record] == lessons[:-1]
    position = len(data) % len(frames[0])
    changed = content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]
    assert not any(list(record) == list(lessons[0].pack()) for place, record in _read(changed)[:1] if record)


def _check_segment(content: bytes) -> None:
    end = len(_FIRST_LINE)
    for place, record in _read(content):
        assert place.start.offset == end < place.end.offset
        end = place.end.offset
        if record is not None:
            start = place.start.offset - len(_FIRST_LINE)
            assert pack_frame(record) == content[start : end - len(_FIRST_LINE)]
    assert end <= len(_FIRST_LINE) + len(content)


def _read(content: bytes) -> list[tuple[Place, list[bytes] | None]]:
    """The places in a segment with that content; None for a damaged one."""
    with TemporaryDirectory() as folder:
        journal = lesson_files(Path(folder))
        journal.path(1).write_bytes(_FIRST_LINE + content)
        return [(place, journal.read(place)) for place in journal.places(journal.first_position(1))]


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
_FRAME = pack_frame(_lesson(_TEXT).pack())

TARGET = FuzzTarget(
    _check,
    (
        b"\0" + _TEXT,
        b"\0" + _TEXT + b"\xff" + _TEXT.replace(b"smtp", b"http"),
        b"\1" + _FRAME * 2,
        b"\1" + _FRAME[:40],
        b"\1" + b"\0" * 60,
        b"\0",
    ),
    words=(b"\0\0\0\0", b"\0", b"\1", b"\xff", b"\0\0\0\x0a"),
    max_bytes=2000,
    mutations=600,
)
