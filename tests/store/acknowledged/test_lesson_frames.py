"""What is written of a lesson is read again, and a file may end anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.store.acknowledged.lesson_journal import pack_frame, unpack_frames
from nbstream.store.model.commit import AcknowledgedLesson
from nbstream.store.model.history import history_fields
from tests.store.lessons import TOKENS, entry
from tests.store.notes import NOTE


def acknowledged(number: int = 0) -> AcknowledgedLesson:
    new = entry("spam", TOKENS, sums=[(b"=x", 5)])
    fields = [
        value if isinstance(value, bytes) else value.encode() for item in new.pack().items() for value in item
    ]
    note = tuple(value.encode() for value in history_fields(new, NOTE, ""))
    return AcknowledgedLesson("test", "0123", b"17-%d" % number, f"m{number}", "", note, tuple(fields))


texts = st.text(st.characters(exclude_categories=["Cs"]))
lessons = st.builds(
    AcknowledgedLesson,
    texts,
    texts,
    st.binary(),
    texts,
    texts,
    st.lists(st.binary()).map(tuple),
    st.lists(st.binary()).map(tuple),
)


@given(st.lists(lessons, max_size=4))
def test_lessons_are_read_as_they_were_written(written: list[AcknowledgedLesson]) -> None:
    data = b"".join(map(pack_frame, written))

    frames = unpack_frames(data)

    assert [lesson for _, lesson in frames.lessons] == written
    assert (frames.end, frames.is_damaged) == (len(data), False)
    for position, lesson in frames.lessons:
        assert unpack_frames(data[position:]).lessons[0] == (0, lesson)


def test_a_file_that_ends_within_a_frame_has_the_lessons_before_it() -> None:
    first, second = pack_frame(acknowledged(1)), pack_frame(acknowledged(2))
    for size in range(len(second)):
        frames = unpack_frames(first + second[:size])

        assert [lesson.message_key for _, lesson in frames.lessons] == ["m1"]
        assert (frames.end, frames.is_damaged) == (len(first), False)


@pytest.mark.parametrize("damage", [b"\0" * 4096, b"\xff" * 4096], ids=["zeros", "ones"])
def test_what_is_no_frame_is_damage(damage: bytes) -> None:
    frames = unpack_frames(pack_frame(acknowledged()) + damage)

    assert (len(frames.lessons), frames.is_damaged) == (1, True)


@given(st.integers(min_value=8), st.integers(1, 255))
def test_a_changed_byte_is_never_read_as_a_lesson(position: int, change: int) -> None:
    frame = bytearray(pack_frame(acknowledged()))
    frame[8 + position % (len(frame) - 8)] ^= change

    assert unpack_frames(bytes(frame)).lessons == ()


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(data: bytes) -> None:
    assert unpack_frames(data).end <= len(data)


def test_the_entry_and_the_note_are_the_ones_that_were_taught() -> None:
    lesson = acknowledged()

    assert lesson.note == NOTE
    assert lesson.entry is not None
    assert (lesson.entry.tokens, lesson.entry.sums, lesson.entry.change) == (
        tuple(TOKENS),
        ((b"=x", 5),),
        lesson.change,
    )
