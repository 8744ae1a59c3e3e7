"""Bytes that come in pieces: the same bytes come out, once, and no list of small pieces is held."""

from __future__ import annotations

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
