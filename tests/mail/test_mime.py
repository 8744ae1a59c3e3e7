"""The walk over MIME parts: it is bounded, never raises, and has one result for one message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail import mime
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits, MimePart

NESTED = normalize_line_ends(b"""\
Subject: nested
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="outer"

preamble
--outer
Content-Type: multipart/alternative; boundary="outer-inner"

--outer-inner
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

caf=E9
--outer-inner
Content-Type: text/html

<b>bold</b>
--outer-inner--
--outer
Content-Type: image/png; name="a.png"
Content-Disposition: attachment
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--outer
Content-Type: message/rfc822

Subject: inner

inner body
--outer--
epilogue
""")


def walk(raw: bytes, **limits: int) -> list[MimePart]:
    return list(mime.parse_parts(normalize_line_ends(raw), MessageLimits(**limits)))


def test_the_tree_comes_in_document_order_with_its_depths() -> None:
    parts = mime.parse_parts(NESTED, MessageLimits())

    assert [(part.content_type, part.depth, part.is_container) for part in parts] == [
        ("multipart/mixed", 0, True),
        ("multipart/alternative", 1, True),
        ("text/plain", 2, False),
        ("text/html", 2, False),
        ("image/png", 1, False),
        ("message/rfc822", 1, True),
        ("text/plain", 2, False),
    ]


def test_payloads_are_transfer_decoded_and_text_is_in_its_charset() -> None:
    parts = mime.parse_parts(NESTED, MessageLimits())

    assert parts[2].text == "café"
    assert parts[4].payload == b"\x89PNG\r\n\x1a\n"
    assert (parts[4].filename, parts[4].disposition) == ("a.png", "attachment")
    assert parts[6].text == "inner body"


def test_a_multipart_whose_boundary_never_occurs_is_text() -> None:
    parts = walk(b"Content-Type: multipart/mixed; boundary=x\n\njust text\n")

    assert [(part.content_type, part.text) for part in parts] == [("text/plain", "just text\r\n")]


def test_a_part_that_is_never_closed_runs_to_the_end() -> None:
    parts = walk(b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\none\n--x\n\ntwo")

    assert [part.text for part in parts[1:]] == ["one", "two"]


def test_a_message_without_header_is_a_body() -> None:
    assert [part.text for part in walk(b"\nWIN a prize")] == ["WIN a prize"]


def test_no_more_than_the_permitted_parts_depth_and_bytes_are_read() -> None:
    many = b"Content-Type: multipart/mixed; boundary=x\n\n" + b"--x\n\npart\n" * 50 + b"--x--\n"
    deep = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(60))

    assert len(walk(many, max_parts=10)) == 10
    assert max(part.depth for part in walk(deep, max_depth=5)) == 5
    assert len(walk(b"A: 1\n\n" + b"x" * 90_000, look_bytes=70_000)[0].payload) < 70_000
    assert len(walk(b"no header" * 90_000, look_bytes=1000)[0].payload) == 0


def test_a_digest_contains_messages() -> None:
    raw = b"Content-Type: multipart/digest; boundary=x\n\n--x\n\nSubject: one\n\nbody\n--x--\n"

    assert [part.content_type for part in walk(raw)] == ["multipart/digest", "message/rfc822", "text/plain"]


@given(st.binary(max_size=400))
def test_any_bytes_are_a_message(raw: bytes) -> None:
    for part in walk(raw):
        assert isinstance(part.text, str)


@given(st.data())
def test_a_mutated_message_never_raises_and_stays_within_its_limits(data: st.DataObject) -> None:
    raw = bytearray(NESTED)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=8))

    parts = walk(bytes(raw), max_parts=7)

    assert 1 <= len(parts) <= 7
    assert all(isinstance(part.text, str) for part in parts)


def test_thousands_of_lines_that_begin_like_a_delimiter_do_not_hide_the_next_one() -> None:
    others = b"\r\n--bb" * 2000, b"\r\n--b-" * 2000
    body = b"\r\n--b\r\n\r\none%b\r\n--b \t\r\n\r\ntwo%b\r\n--b--\r\nend" % others

    parts = mime.split_multipart(body, b"b", 10)

    assert [part[:5] for part in parts] == [b"\r\none", b"\r\ntwo"]
    assert parts[1].endswith(b"\r\n--b-")


def test_a_part_has_the_fields_that_are_about_content() -> None:
    head = b"Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    raw = head + b"--b\r\nX: 1\r\nCONTENT-type: a/b\r\n\r\n"

    parts = Message.parse(raw).parts

    assert [field.name for field in parts[0].fields] == ["subject", "content-type"]
    assert [(field.name, field.value) for field in parts[1].fields] == [("content-type", b"a/b")]
