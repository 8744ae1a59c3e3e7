"""Header fields on raw bytes: what is read, what is removed, and that nothing else moves."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail import header_fields
from nbstream.mail.lines import PIECE_BYTES

OURS = ("X-Spam-Flag", "X-Nbstream")

line_text = st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=30).map(
    lambda text: text.replace("\r", "").replace("\n", "").encode("latin-1")
)
ordinary_line = line_text.map(lambda line: b"A" + line)


def test_lone_line_ends_become_crlf_and_crlf_stays() -> None:
    assert header_fields.normalize_line_ends(b"a\nb\rc\r\nd\n\r\n") == b"a\r\nb\r\nc\r\nd\r\n\r\n"


@given(st.binary(max_size=200))
def test_canonical_form_is_stable_and_loses_only_line_ends(raw: bytes) -> None:
    once = header_fields.normalize_line_ends(raw)

    assert header_fields.normalize_line_ends(once) == once
    assert once.replace(b"\r\n", b"").count(b"\n") == once.replace(b"\r\n", b"").count(b"\r") == 0
    assert once.translate(None, b"\r\n") == raw.translate(None, b"\r\n")


@pytest.mark.parametrize("before", range(-3, 3))
@pytest.mark.parametrize("ends", [b"\r\n", b"\n", b"\r", b"\r\n\n", b"\n\r\r\n"])
def test_large_content_is_the_same_wherever_a_piece_ends(before: int, ends: bytes) -> None:
    raw = b"x" * (PIECE_BYTES + before) + ends + b"x" * PIECE_BYTES + ends

    assert header_fields.normalize_line_ends(raw) == re.sub(rb"\r\n|\r|\n", b"\r\n", raw)


def test_the_body_begins_behind_the_first_empty_line() -> None:
    assert header_fields.body_offset(b"A: 1\r\n\r\nbody") == 8
    assert header_fields.body_offset(b"\r\nbody") == 2
    assert header_fields.body_offset(b"A: 1\r\n") == 6


def test_fields_are_read_in_order_with_their_folds() -> None:
    raw = b"Subject: one\r\n two\r\nFROM : a@b\r\nno colon here\r\nX:\r\n\r\nBody: no\r\n"

    found = header_fields.parse_fields(raw, header_fields.body_offset(raw))

    assert [(each.name, each.value) for each in found] == [
        ("subject", b"one\r\n two"),
        ("from", b"a@b"),
        ("x", b""),
    ]
    assert found[0].text == "one two"


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1 << 18, 1 << 19])
@pytest.mark.parametrize("ends", [b"\r\n", b"\n", b"\r", b"\r\r\n\n", b"x\n\r\n"])
def test_every_line_end_becomes_crlf_wherever_it_stands(size: int, ends: bytes) -> None:
    for moved in range(5):
        raw = b"a" * (size - moved) + ends * 3

        assert header_fields.normalize_line_ends(raw) == re.sub(rb"\r\n|\r|\n", b"\r\n", raw)


def test_a_large_message_with_crlf_line_ends_is_not_copied() -> None:
    raw = b"a" * 99 + b"\r\n" * 500_000

    assert header_fields.normalize_line_ends(raw) is raw


def test_a_field_tells_its_name_as_it_is_written() -> None:
    raw = b"SubJECT : x\r\n" + b"N" * 300 + b": y\r\n\r\n"

    assert [(each.name, each.name_as_written) for each in header_fields.parse_fields(raw, len(raw))] == [
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
    raw = header_fields.normalize_line_ends(b"Subject: hi\rX-Spam-Flag: NO\n\nbody")

    assert header_fields.strip_fields(raw, OURS) == b"Subject: hi\r\n\r\nbody"


def test_a_folded_forged_field_at_the_end_keeps_the_empty_line() -> None:
    assert header_fields.strip_fields(b"A: 1\r\nX-Nbstream: x\r\n y\r\n\r\nbody", OURS) == b"A: 1\r\n\r\nbody"


@given(st.lists(ordinary_line, max_size=5), st.binary(max_size=40), st.integers(0, 5), st.booleans())
def test_stripping_gives_back_exactly_what_was_there_before_the_forgery(
    lines: list[bytes], body: bytes, place: int, folded: bool
) -> None:
    block = [b"Subject: x", *lines]
    forged = [b"x-nbSTREAM: spam" + (b"\r\n\tfolded" if folded else b"")]
    clean = b"\r\n".join(block) + b"\r\n\r\n" + body
    dirty = b"\r\n".join([*block[: place + 1], *forged, *block[place + 1 :]]) + b"\r\n\r\n" + body

    assert header_fields.strip_fields(dirty, OURS) == clean


@given(st.binary(max_size=200))
def test_prepending_leaves_every_byte_as_it_is(raw: bytes) -> None:
    assert header_fields.prepend_fields(raw, [("X-A", "1"), ("X-B", "2")]) == b"X-A: 1\r\nX-B: 2\r\n" + raw


def test_a_first_line_that_continues_nothing_gets_a_field_to_continue() -> None:
    raw = b" id=forged\r\n\tmore\r\nSubject: x\r\n\r\n"

    assert header_fields.guard_first_line(raw, "X-G") == b"X-G:\r\n" + raw
    assert header_fields.guard_first_line(b"Subject: x\r\n", "X-G") == b"Subject: x\r\n"
    assert header_fields.strip_fields(header_fields.guard_first_line(raw, "X-G"), ["X-G"]) == b"Subject: x\r\n\r\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"plain", "plain"),
        (b"=?utf-8?q?caf=C3=A9?=", "café"),
        (b"=?ISO-8859-1?B?Y2Fm6Q==?= au lait", "café au lait"),
        (b"=?utf-8?q?one_?=\r\n =?utf-8?q?two?=", "one two"),
        (b"=?utf-8*en?q?hi?=", "hi"),
        (b"=?no-such-charset?q?caf=C3=A9?=", "café"),
        (b"=?utf-8?b?broken base64", "=?utf-8?b?broken base64"),
        (b"=?utf-8?b?YWJj?= =?", "abc =?"),
        ("grüß".encode("latin-1"), "grüß"),
    ],
)
def test_encoded_words_are_decoded(value: bytes, text: str) -> None:
    assert header_fields.decode_encoded_words(value) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"text/plain", ("text/plain", {})),
        (b'TEXT/Plain; Charset="UTF-8"; x=y', ("text/plain", {"charset": "UTF-8", "x": "y"})),
        (b'multipart/mixed; boundary="a;b\\"c"', ("multipart/mixed", {"boundary": 'a;b"c'})),
        (b"a/b; filename*=utf-8''caf%C3%A9", ("a/b", {"filename": "café"})),
        (b'a/b; n*0="on"; n*1="e"', ("a/b", {"n": "one"})),
        (b"a/b; filename==?utf-8?q?caf=C3=A9?=", ("a/b", {"filename": "café"})),
        (b'a/b; boundary="open', ("a/b", {"boundary": "open"})),
        (b"", ("", {})),
    ],
)
def test_parameters_are_read(value: bytes, expected: tuple[str, dict[str, str]]) -> None:
    assert header_fields.parse_parameters(value) == expected


@given(st.binary(max_size=120))
def test_reading_never_raises(value: bytes) -> None:
    header_fields.decode_encoded_words(value)
    header_fields.parse_parameters(value)
    header_fields.decode_base64(value)
    header_fields.parse_fields(value, len(value))
    header_fields.strip_fields(value, OURS)


@pytest.mark.parametrize("text", [b"YWJj", b"YW Jj\r\n", b"YWJj=", b"YWJjZ", b"YWJj!!"])
def test_broken_base64_gives_what_can_be_read(text: bytes) -> None:
    assert header_fields.decode_base64(text).startswith(b"abc")


HOSTILE = [b"=?a?q?x", b"=?", b"=?a?q?", b"?=", b"=?utf-8?b?AAAA", b" =?a?q?x?=", b'; a="', b"; a=b", b'"', b"\\"]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_values_are_read_in_one_pass(piece: bytes) -> None:
    # Every one of these took minutes at this size when a pattern could start anew at each piece: the test's own
    # time limit is the assertion.
    header_fields.decode_encoded_words(piece * 30_000)
    header_fields.parse_parameters(b"a/b" + piece * 30_000)


def test_large_folded_fields_are_stripped_in_one_pass() -> None:
    folded = b"X-Spam-Flag: x\r\n" + b" \r\n" * 2_000_000

    assert header_fields.strip_fields(folded + b"Subject: x\r\n\r\n", OURS) == b"Subject: x\r\n\r\n"


@pytest.mark.parametrize("before", range(-14, 4))
def test_a_large_header_loses_the_same_fields_wherever_a_piece_ends(before: int) -> None:
    filling = b"A: " + b"x" * (PIECE_BYTES + before) + b"\r\n"

    raw = filling + b"X-Nbstream: 1\r\n 2\r\nB: 3\r\n 4\r\n" + filling + b"X-Nbstream: 5\r\n\r\nbody"

    assert header_fields.strip_fields(raw, OURS) == filling + b"B: 3\r\n 4\r\n" + filling + b"\r\nbody"
