"""The edits of a header, applied to raw bytes."""

from __future__ import annotations

from nbstream.mail.header_edits import HeaderEdits, edit_message

MAIL = b"Subject: lunch\r\n\r\nAre you coming?\r\n"
EDITS = HeaderEdits((("X-A", "1,\r\n\t2"), ("X-B", "3")), ("X-A", "X-Other"), "X-Guard")


def test_fields_go_on_top_in_their_order_and_named_ones_are_removed() -> None:
    fields, rest = edit_message(b"x-other: a\r\n b\r\nX-A: forged\r\n" + MAIL, EDITS)

    assert (fields, rest) == (b"X-A: 1,\r\n\t2\r\nX-B: 3\r\n", MAIL)


def test_a_first_line_that_continues_no_field_continues_none_of_the_added_ones() -> None:
    assert edit_message(b" text\r\n", EDITS)[1] == b"X-Guard:\r\n text\r\n"
    assert edit_message(b"X-Other: a\r\n\tmore\r\n\r\n text", EDITS)[1] == b"\r\n text"
