"""Bytes that come in pieces: the same bytes come out, once, and no list of small pieces is held."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.lines import ContentBuffer


@given(st.lists(st.binary(max_size=20)))
def test_the_pieces_come_out_as_one(pieces: list[bytes]) -> None:
    buffer = ContentBuffer()
    for piece in pieces:
        buffer.append(piece)

    assert len(buffer) == len(b"".join(pieces))
    assert buffer.take() == b"".join(pieces)
    assert (len(buffer), buffer.take()) == (0, b"")


def test_to_take_the_content_copies_nothing_and_single_bytes_take_no_more_than_themselves() -> None:
    size = 1 << 20
    tracemalloc.start()
    try:
        buffer = ContentBuffer()
        for _ in range(size):
            buffer.append(b"x")
        content = buffer.take()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(content) == size
    assert peak < 2.3 * size  # a buffer that grows may be copied to its new place, an eighth larger
