"""Header fields on raw bytes: what is read, what is removed, and that nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail import header_fields
from nbstream.mail import lines as lines_of_mail
from nbstream.mail.header_fields import MAX_HEADER_BYTES
from nbstream.mail.lines import PIECE_BYTES, line_spans, normalize_line_ends

OURS = ("X-Spam-Flag", "X-Nbstream")

line_text = st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=30).map(
    lambda text: text.replace("\r", "").replace("\n", "").encode("latin-1")
)
ordinary_line = line_text.map(lambda line: b"A" + line)


def test_the_body_begins_behind_the_first_empty_line() -> None:
    assert header_fields.body_offset(b"A: 1\r\n\r\nbody") == 8
    assert header_fields.body_offset(b"\r\nbody") == 2
    assert header_fields.body_offset(b"A: 1\r\n") == 6


def test_fields_are_read_in_order_with_their_folds() -> None:
    raw = b"Subject: one\r\n two\r\nFROM : a@b\r\nno colon here\r\nX:\r\n\r\nBody: no\r\n"

    fields = header_fields.parse_fields(raw, header_fields.body_offset(raw))

    assert [(field.name, field.value) for field in fields] == [
        ("subject", b"one\r\n two"),
        ("from", b"a@b"),
        ("x", b""),
    ]
    assert fields[0].text == "one two"


@given(st.lists(st.sampled_from([b"A: 1", b"b :2", b" b: 3", b"B", b"B\t:", b"\tx", b"b: \xe9", b"ab: 4", b""])))
def test_a_field_is_found_as_it_is_read(lines: list[bytes]) -> None:
    raw = b"\r\n".join(lines)
    end = header_fields.body_offset(raw)
    read = [field for field in header_fields.parse_fields(raw, end) if field.name == "b"]
    assert header_fields.find_field(raw, end, "b") == (read[0] if read else None)


def test_a_field_has_its_name_as_it_is_written() -> None:
    raw = b"SubJECT : x\r\n" + b"N" * 300 + b": y\r\n\r\n"

    assert [(field.name, field.name_as_written) for field in header_fields.parse_fields(raw, len(raw))] == [
        ("subject", "SubJECT"),
        ("n" * 300, "N" * 300),
    ]


def test_every_forged_copy_is_removed_whatever_its_form() -> None:
    raw = (
        b"x-SPAM-flag: NO\r\nSubject: hi\r\nX-Spam-Flag : YES\r\n folded\r\n\tmore\r\n"
        b"X-Spam-Flagged: stays\r\nX-NBSTREAM:\r\n\r\nX-Spam-Flag: body stays\r\n"
    )

    assert header_fields.strip_fields(raw, OURS) == (
        b"Subject: hi\r\nX-Spam-Flagged: stays\r\n\r\nX-Spam-Flag: body stays\r\n"
    )


def test_a_forged_field_hidden_behind_a_lone_carriage_return_is_found() -> None:
    raw = normalize_line_ends(b"Subject: hi\rX-Spam-Flag: NO\n\nbody")

    assert header_fields.strip_fields(raw, OURS) == b"Subject: hi\r\n\r\nbody"


def test_a_folded_forged_field_at_the_end_keeps_the_empty_line() -> None:
    assert header_fields.strip_fields(b"A: 1\r\nX-Nbstream: x\r\n y\r\n\r\nbody", OURS) == b"A: 1\r\n\r\nbody"


@given(st.lists(ordinary_line, max_size=5), st.binary(max_size=40), st.integers(0, 5), st.booleans())
def test_stripping_restores_exactly_the_message_before_the_forgery(
    lines: list[bytes], body: bytes, position: int, folded: bool
) -> None:
    block = [b"Subject: x", *lines]
    forged = [b"x-nbSTREAM: spam" + (b"\r\n\tfolded" if folded else b"")]
    clean = b"\r\n".join(block) + b"\r\n\r\n" + body
    dirty = b"\r\n".join([*block[: position + 1], *forged, *block[position + 1 :]]) + b"\r\n\r\n" + body

    assert header_fields.strip_fields(dirty, OURS) == clean


@given(st.binary(max_size=200))
def test_prepending_leaves_every_byte_as_it_is(raw: bytes) -> None:
    assert header_fields.prepend_fields(raw, [("X-A", "1"), ("X-B", "2")]) == b"X-A: 1\r\nX-B: 2\r\n" + raw


def test_a_continuation_line_of_no_field_gets_a_field_to_continue() -> None:
    raw = b" id=forged\r\n\tmore\r\nSubject: x\r\n\r\n"

    assert header_fields.guard_first_line(raw, "X-G") == b"X-G:\r\n" + raw
    assert header_fields.guard_first_line(b"Subject: x\r\n", "X-G") == b"Subject: x\r\n"
    assert header_fields.strip_fields(header_fields.guard_first_line(raw, "X-G"), ["X-G"]) == b"Subject: x\r\n\r\n"


@given(st.binary(max_size=120))
def test_reading_never_raises(value: bytes) -> None:
    header_fields.parse_fields(value, len(value))
    header_fields.strip_fields(value, OURS)


def test_large_folded_fields_are_stripped_in_one_pass() -> None:
    folded = b"X-Spam-Flag: x\r\n" + b" \r\n" * 2_000_000

    assert header_fields.strip_fields(folded + b"Subject: x\r\n\r\n", OURS) == b"Subject: x\r\n\r\n"


HUGE = 4 * PIECE_BYTES


@pytest.mark.parametrize(
    "line",
    [
        b"Subject: a" + b"\r\n b" * (HUGE // 4),
        b"From: " + b"a@b.c, " * (HUGE // 7),
        b"X-Nbstream: a" + b"\r\n b" * (HUGE // 4),
        b"X-Nbstream:" + b" x" * (HUGE // 2),
        b"X-Nbstream" + b" " * HUGE + b": x",
    ],
)
def test_no_field_makes_a_piece_of_a_header_large(line: bytes) -> None:
    raw = b"A: 1\r\n" + line + b"\r\nx-nbstream: 2\r\nB: 3\r\n\r\nbody"
    spans = line_spans(raw, header_fields.body_offset(raw))

    assert max(end - start for start, end in spans) <= PIECE_BYTES + 1
    kept = b"" if line.startswith(b"X-Nbstream") else line + b"\r\n"
    assert header_fields.strip_fields(raw, OURS) == b"A: 1\r\n" + kept + b"B: 3\r\n\r\nbody"


# A name before white space alone is left out: its colon may be in the next piece.
ODD_LINES = (
    *(b"X-Nbstream: 1", b"x-spam-flag :", b"X-Spam-Flag \t : " + b"x" * 40, b"X-Nbstream: " + b"x" * 150),
    *(b" folded", b"\t", b" " + b"y" * 90, b"A: 1", b"A: " + b"z" * 70, b"X-Nbstream", b"X-Nbstreams: 1", b"no"),
)


@given(
    st.lists(st.sampled_from(ODD_LINES), max_size=12), st.sampled_from([b"", b"\r\n", b"\r\n\r\nX-Nbstream: body"])
)
def test_fields_are_removed_wherever_a_piece_ends(lines: list[bytes], rest: bytes) -> None:
    raw = b"\r\n".join(lines) + rest
    whole = header_fields.strip_fields(raw, OURS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(header_fields, "PIECE_BYTES", 64)
        patch.setattr(lines_of_mail, "PIECE_BYTES", 64)
        assert header_fields.strip_fields(raw, OURS) == whole


def test_a_field_that_nobody_reads_gets_no_tag() -> None:
    filling = b"A: " + b"x" * (MAX_HEADER_BYTES - 20) + b"\r\n"

    assert header_fields.find_value_span(filling + b"Subject: x\r\n\r\n", "subject")
    assert header_fields.find_value_span(filling + b"Subject: not at its end\r\n\r\n", "subject") is None
    assert header_fields.find_value_span(filling + filling + b"Subject: x\r\n\r\n", "subject") is None
