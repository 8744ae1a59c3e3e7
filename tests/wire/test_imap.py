"""IMAP's responses, however they are cut, and the words of commands."""

from __future__ import annotations

import base64
import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.wire import imap
from nbstream.wire.imap import FetchedMessage, ImapProtocolError, ImapResponse, ImapResponseParser


def parse(*pieces: bytes, limit: int = 1000) -> list[ImapResponse]:
    parser = ImapResponseParser()
    parser.max_response_bytes = limit
    return [response for piece in pieces for response in parser.feed(piece)]


LINES = [
    b"* OK hello\r\n",
    b"n1 OK done\r\n",
    b"+ \r\n",
    b"* 3 FETCH (UID 7 BODY[] {5}\r\n\r\nab\n)\r\n",
    b"* 4 FETCH (BODY[] {0}\r\n UID 9)\r\n",
    b"* LIST () {1}\r\n/ {3}\r\nbox\r\n",
    b"\n",
]


@given(st.lists(st.sampled_from(LINES), max_size=6), st.lists(st.integers(0, 200)))
def test_the_responses_do_not_depend_on_how_the_bytes_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    raw = b"".join(lines)
    ends = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})

    assert parse(*(raw[start:end] for start, end in itertools.pairwise(ends))) == parse(raw)
    assert len(parse(raw)) == len(lines)


def test_a_response_has_its_literals_apart() -> None:
    assert parse(*LINES) == [
        ImapResponse((b"* OK hello",)),
        ImapResponse((b"n1 OK done",)),
        ImapResponse((b"+ ",)),
        ImapResponse((b"* 3 FETCH (UID 7 BODY[] {5}", b")"), (b"\r\nab\n",)),
        ImapResponse((b"* 4 FETCH (BODY[] {0}", b" UID 9)"), (b"",)),
        ImapResponse((b"* LIST () {1}", b" {3}", b""), (b"/", b"box")),
        ImapResponse((b"",)),
    ]


@pytest.mark.parametrize(
    "raw",
    [
        b"x" * 101,
        b"x" * 101 + b"\r\n",
        b"* 1 FETCH (BODY[] {9999999999}\r\n",
        b"* 1 FETCH (BODY[] {90}\r\n",
        b"{1}\r\nx" * 17,
        b"{10}\r\n" + b"x" * 10 + b"y" * 90 + b"\r\n",
    ],
)
def test_a_response_has_a_limit_that_holds_for_what_it_announces(raw: bytes) -> None:
    for pieces in ([raw], [raw[at : at + 1] for at in range(len(raw))]):
        with pytest.raises(ImapProtocolError):
            parse(*pieces, limit=100)
    assert parse(b"x" * 100 + b"\n", limit=100)


def test_what_is_left_of_a_response_is_known() -> None:
    parser = ImapResponseParser()
    assert list(parser.feed(b"n1 OK begin\r\n"))
    assert parser.is_between_responses
    for rest in (b"*", b" {1}\r\n", b"x"):
        assert list(parser.feed(rest)) == []
        assert not parser.is_between_responses


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (LINES[3], FetchedMessage(7, None, b"\r\nab\n")),
        (LINES[4], FetchedMessage(9, None, b"")),
        (b"* 3 fetch (uid 7 rfc822.size 123)\r\n", FetchedMessage(7, 123)),
        (b"* 3 FETCH (RFC822.SIZE 123 FLAGS (\\Seen) UID 7)\r\n", FetchedMessage(7, 123)),
        (b"* 3 FETCH (FLAGS (\\Seen) UID 7)\r\n", FetchedMessage(7)),
        (b"* 3 FETCH (UID 7 BODY[HEADER] {1}\r\nx)\r\n", FetchedMessage(7)),
        (b"* 3 FETCH (UID 7 BODY[] NIL)\r\n", FetchedMessage(7)),
        (b"* 3 FETCH (FLAGS (\\Seen))\r\n", None),
        (b"* 3 FETCH (UID 7.5)\r\n", None),
        (b"* 3 EXPUNGE\r\n", None),
        (b"\xff\0\r\n", None),
    ],
)
def test_what_a_fetch_says_of_a_message(raw: bytes, message: FetchedMessage | None) -> None:
    (response,) = parse(raw)
    assert imap.parse_fetch(response) == message


def test_the_answer_to_a_search_has_uids() -> None:
    for raw, uids in (
        (b"* SEARCH 2 84 882\r\n", (2, 84, 882)),
        (b"* SEARCH\r\n", ()),
        (b"* search 0 4294967295 4294967296 \r\n", (4294967295,)),
        (b"* SEARCH x\r\n", ()),
        (b"* 2 EXISTS\r\n", ()),
    ):
        assert imap.parse_search(parse(raw)[0]) == uids


def test_the_answer_to_a_search_takes_memory_for_its_uids_alone() -> None:
    answer = parse(b"* SEARCH" + b" 1" * 200_000 + b"\r\n", limit=1 << 20)[0]

    tracemalloc.start()
    try:
        assert len(imap.parse_search(answer)) == 200_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 40 * answer.size


def test_the_answer_to_examine_has_the_uidvalidity() -> None:
    assert imap.parse_uid_validity(parse(b"* OK [UIDVALIDITY 3857529045] UIDs valid\r\n")[0]) == 3857529045
    assert imap.parse_uid_validity(parse(b"* OK [UIDNEXT 4392] Predicted\r\n")[0]) is None


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("INBOX", "INBOX"),
        ("~peter/mail/台北/日本語", "~peter/mail/&U,BTFw-/&ZeVnLIqe-"),  # RFC 3501, 5.1.3
        ("Gelöscht", "Gel&APY-scht"),
        ("R&D", "R&-D"),
        ("☺!", "&Jjo-!"),
        ("😀", "&2D3eAA-"),
    ],
)
def test_the_name_of_a_folder_is_in_modified_utf_7(name: str, encoded: str) -> None:
    assert imap.encode_mailbox_name(name) == encoded


@given(st.text(st.characters(codec="utf-16", exclude_categories=["Cs"])))
def test_the_encoded_name_of_a_folder_can_be_quoted_and_read_again(name: str) -> None:
    encoded = imap.encode_mailbox_name(name)
    assert imap.quote(encoded)
    assert encoded.replace("&-", "&").replace(",", "/").isascii()
    assert _decode(encoded) == name


def _decode(encoded: str) -> str:
    parts = encoded.split("&")
    decoded = parts[0]
    for part in parts[1:]:
        shifted, _, plain = part.partition("-")
        utf16 = base64.b64decode(shifted.replace(",", "/") + "=" * (-len(shifted) % 4))
        decoded += (utf16.decode("utf-16-be") if shifted else "&") + plain
    return decoded


def test_only_what_stays_one_word_is_quoted() -> None:
    assert imap.quote('a "b\\') == '"a \\"b\\\\"'
    for text in ("a\r\nn2 DELETE x", "\0", "ä", "\x7f"):
        with pytest.raises(ValueError, match="ASCII"):
            imap.quote(text)


def test_the_answer_to_authenticate_plain_has_user_and_password() -> None:
    assert base64.b64decode(imap.plain_response("änn", "a b\u20ac")).decode() == "\0änn\0a b\u20ac"
