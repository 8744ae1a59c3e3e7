"""Line ends: all become CRLF, in pieces of any size."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nbstream.mail.lines import PIECE_BYTES, normalize_line_ends, replace_leading_dots, split_at_line_ends


def test_lone_line_ends_become_crlf_and_crlf_stays() -> None:
    assert normalize_line_ends(b"a\nb\rc\r\nd\n\r\n") == b"a\r\nb\r\nc\r\nd\r\n\r\n"


@given(st.binary(max_size=200))
def test_canonical_form_is_stable_and_loses_only_line_ends(raw: bytes) -> None:
    once = normalize_line_ends(raw)

    assert normalize_line_ends(once) == once
    assert once.replace(b"\r\n", b"").count(b"\n") == once.replace(b"\r\n", b"").count(b"\r") == 0
    assert once.translate(None, b"\r\n") == raw.translate(None, b"\r\n")


@pytest.mark.parametrize("before", range(-3, 3))
@pytest.mark.parametrize("ends", [b"\r\n", b"\n", b"\r", b"\r\n\n", b"\n\r\r\n"])
def test_large_content_is_the_same_wherever_a_piece_ends(before: int, ends: bytes) -> None:
    raw = b"x" * (PIECE_BYTES + before) + ends + b"x" * PIECE_BYTES + ends

    assert normalize_line_ends(raw) == re.sub(rb"\r\n|\r|\n", b"\r\n", raw)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1 << 18, 1 << 19])
@pytest.mark.parametrize("ends", [b"\r\n", b"\n", b"\r", b"\r\r\n\n", b"x\n\r\n"])
def test_every_line_end_becomes_crlf_wherever_it_stands(size: int, ends: bytes) -> None:
    for moved in range(5):
        raw = b"a" * (size - moved) + ends * 3

        assert normalize_line_ends(raw) == re.sub(rb"\r\n|\r|\n", b"\r\n", raw)


@given(st.lists(st.sampled_from([b"\r\n.", b"\n.", b"\r\n", b".", b"x"])), st.sampled_from([0, 4090, 9000]))
def test_a_dot_that_a_line_begins_with_is_replaced_and_no_other(pieces: list[bytes], before: int) -> None:
    content = b"a" * before + b"".join(pieces)

    assert replace_leading_dots(content, b"") == content.replace(b"\r\n.", b"\r\n")
    assert replace_leading_dots(content, b"..") == content.replace(b"\r\n.", b"\r\n..")


@given(st.lists(st.integers(0, 2 * PIECE_BYTES + 2), max_size=5), st.binary(max_size=3))
@example([PIECE_BYTES - 1], b"")
@settings(max_examples=20)
def test_pieces_are_whole_lines_as_far_as_lines_are_no_longer(lengths: list[int], rest: bytes) -> None:
    content = b"".join(b"x" * length + b"\r\n" for length in lengths) + rest

    parts = list(split_at_line_ends(content))

    assert b"".join(parts) == content
    assert all(len(part) <= PIECE_BYTES + 1 for part in parts)
    assert all(part.endswith(b"\n") or len(part) == PIECE_BYTES for part in parts[:-1])
    assert not any(part.endswith(b"\r") for part in parts[:-1])
