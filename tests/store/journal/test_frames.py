"""What is written is read again, and a changed byte is never read as a record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.store.journal.frames import pack_frame, unpack_frame

FRAME = pack_frame([b"spam", b"user ann", b"", b"Subject: x\r\n\r\nprize\r\n"])


@given(st.lists(st.binary(), min_size=1))
def test_a_record_is_read_as_it_was_written(record: list[bytes]) -> None:
    assert unpack_frame(pack_frame(record)) == record


def test_a_frame_that_is_cut_is_none() -> None:
    assert not any(unpack_frame(FRAME[:size]) for size in range(len(FRAME)))


@pytest.mark.parametrize("damage", [b"\0" * 8, b"\0" * 4096, b"\xff" * 4096], ids=["header", "zeros", "ones"])
def test_what_is_no_frame_is_none(damage: bytes) -> None:
    assert unpack_frame(damage) is None


@given(st.integers(0, len(FRAME) - 9), st.integers(1, 255))
def test_a_changed_byte_is_never_read_as_a_record(position: int, change: int) -> None:
    frame = bytearray(FRAME)
    frame[8 + position] ^= change

    assert unpack_frame(bytes(frame)) is None


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read(data: bytes) -> None:
    unpack_frame(data)
