"""What is written of a lesson is read again, and a changed byte is never read as one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.store.journal.frames import pack_frame, unpack_frame
from nbstream.store.model.lesson_journal import AcknowledgedLesson
from tests.store.acknowledged_lessons import acknowledged
from tests.store.lessons import TOKENS
from tests.store.notes import NOTE

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


@given(lessons)
def test_a_lesson_is_read_as_it_was_written(written: AcknowledgedLesson) -> None:
    record = unpack_frame(pack_frame(written.pack()))

    assert record is not None
    assert AcknowledgedLesson.unpack(record) == written


def test_a_frame_that_is_cut_is_none() -> None:
    frame = pack_frame(acknowledged().pack())

    assert not any(unpack_frame(frame[:size]) for size in range(len(frame)))


@pytest.mark.parametrize("damage", [b"\0" * 8, b"\0" * 4096, b"\xff" * 4096], ids=["header", "zeros", "ones"])
def test_what_is_no_frame_is_none(damage: bytes) -> None:
    assert unpack_frame(damage) is None


@given(st.integers(min_value=8), st.integers(1, 255))
def test_a_changed_byte_is_never_read_as_a_lesson(position: int, change: int) -> None:
    frame = bytearray(pack_frame(acknowledged().pack()))
    frame[8 + position % (len(frame) - 8)] ^= change

    assert unpack_frame(bytes(frame)) is None


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(data: bytes) -> None:
    unpack_frame(data)


def test_the_entry_and_the_note_are_the_ones_that_were_taught() -> None:
    lesson = acknowledged()

    assert lesson.note == NOTE
    assert lesson.entry is not None
    assert (lesson.entry.tokens, lesson.entry.sums, lesson.entry.change) == (
        tuple(TOKENS),
        ((b"=x", 5),),
        lesson.change,
    )
