"""Marking a message with any line ends: its line ends and its body stay, forged fields do not."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nbstream.mail import header_fields
from nbstream.mail.header_edits import HeaderEdits, rewrite_header, split_header_and_body
from nbstream.mail.lines import normalize_line_ends

EDITS = HeaderEdits((("X-Spam-Status", "No,\r\n\tscore=1"),), ("X-Spam-Flag",), "X-Guard")


def mark(raw: bytes) -> bytes:
    header, body = split_header_and_body(raw)
    return rewrite_header(header, EDITS) + body


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_all_else_stays_as_it_was(end: bytes) -> None:
    raw = end.join(
        [b"From: a@b", b"X-spam-flag: YES,", b"\tfolded", b"Subject: x", b"", b"one\rtwo\nthree\r\n.", b""]
    )

    assert mark(raw) == end.join(
        [b"X-Spam-Status: No,", b"\tscore=1", b"From: a@b", b"Subject: x", b"", b"one\rtwo\nthree\r\n.", b""]
    )


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_line_of_an_mbox_stays_the_first(end: bytes) -> None:
    # Below another line it would be escaped, and the mailbox could not be read any more.
    line = b"From ann@example.org Tue Jun  2 08:00:00 2026"
    raw = end.join([line, b"Subject: x", b"", b"body"])

    assert mark(raw) == end.join([line, b"X-Spam-Status: No,", b"\tscore=1", b"Subject: x", b"", b"body"])
    assert mark(b"From : a@b\n\n").startswith(b"X-Spam-Status")  # an obsolete form of a field
    assert mark(b"From a").startswith(b"X-Spam-Status")


@pytest.mark.parametrize(
    ("raw", "header"),
    [
        (b"", b""),
        (b"\n", b"\n"),
        (b"\r\nbody", b"\r\n"),
        (b"\n\r\nbody", b"\n"),
        (b"a: b", b"a: b"),
        (b"a: b\r\n", b"a: b\r\n"),
        (b"a: b\n\nc", b"a: b\n\n"),
        (b"a: b\r\n\r\nc\r\n\r\n", b"a: b\r\n\r\n"),
        (b"a: b\n\r\nc", b"a: b\n\r\n"),
        (b"a: b\r\rc", b"a: b\r\r"),
        (b"a: b\r\n\rc", b"a: b\r\n\r"),
    ],
)
def test_where_the_header_ends(raw: bytes, header: bytes) -> None:
    assert split_header_and_body(raw) == (header, raw[len(header) :])


_PIECES = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"a: b", b"X-Spam-Flag: YES", b"x-spam-flag :", b" ", b"\t", b"text", b"\0"]
)


@given(st.lists(_PIECES, max_size=12).map(b"".join))
@example(b"\r\nX-Spam-Flag: YES")
def test_what_is_read_and_what_is_rewritten_have_the_same_header(raw: bytes) -> None:
    header, body = split_header_and_body(raw)
    canonical = normalize_line_ends(raw)

    assert normalize_line_ends(header) == canonical[: header_fields.body_offset(canonical)]
    assert header + body == raw


@given(st.lists(_PIECES, max_size=12).map(b"".join))
def test_no_forged_field_is_left(raw: bytes) -> None:
    header, _ = split_header_and_body(raw)
    rewritten = normalize_line_ends(rewrite_header(header, EDITS))

    names = [field.name for field in header_fields.parse_fields(rewritten, header_fields.body_offset(rewritten))]
    assert "x-spam-flag" not in names
    assert names[0] == "x-spam-status"


def test_a_continuation_line_of_no_field_continues_none_of_our_fields() -> None:
    assert mark(b" injected\n\nx") == b"X-Spam-Status: No,\n\tscore=1\nX-Guard:\n injected\n\nx"
