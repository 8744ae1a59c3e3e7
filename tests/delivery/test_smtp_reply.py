"""Replies of a server: read from whatever pieces they come in, and refused where they are none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.delivery.next_hop import MAX_REPLY_BYTES, MalformedReply, SmtpReply, SmtpReplyReader

texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=20)
replies = st.builds(
    lambda code, lines: SmtpReply(code, "\n".join(lines)),
    st.integers(200, 599),
    st.lists(texts, min_size=1, max_size=4),
)


def rendered(reply: SmtpReply) -> bytes:
    """The reply on the wire, its text in UTF-8."""
    *others, last = reply.text.split("\n")
    lines = [*(f"{reply.code}-{line}" for line in others), f"{reply.code} {last}"]
    return "".join(f"{line}\r\n" for line in lines).encode()


def read_all(*pieces: bytes) -> list[SmtpReply | None]:
    """The replies that are there after each piece; None at the end for bytes that cannot be read."""
    reader, read = SmtpReplyReader(), list[SmtpReply | None]()
    for piece in pieces:
        reader.feed(piece)
        try:
            while reply := reader.next_reply():
                read.append(reply)
        except MalformedReply:
            return [*read, None]
    return read


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    positions = sorted({cut for cut in cuts if cut < len(data)} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(positions)]


@given(st.lists(replies, max_size=5), st.lists(st.integers(0, 500), max_size=10))
def test_replies_are_the_same_however_they_are_cut(sent: list[SmtpReply], cuts: list[int]) -> None:
    data = b"".join(map(rendered, sent))

    assert read_all(*pieces_of(data, cuts)) == sent


@given(
    st.lists(st.sampled_from([b"250", b"354", b"-", b" ", b"\r", b"\n", b"\r\n", b"x", b"\xff", b"99"])).map(
        b"".join
    ),
    st.lists(st.integers(0, 60), max_size=10),
)
def test_any_bytes_give_the_same_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    assert read_all(*pieces_of(data, cuts)) == read_all(data)


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"250\r\n", SmtpReply(250, "")),
        (b"250 \r\n", SmtpReply(250, "")),
        (b"250 a\n", SmtpReply(250, "a")),
        (b"250-\r\n250 b \r\n", SmtpReply(250, "\nb")),
        (b"250-a\r\n550 b\r\n", SmtpReply(550, "a\nb")),
        (b"250 \xff\r\n", SmtpReply(250, "\udcff")),
    ],
)
def test_odd_replies(line: bytes, reply: SmtpReply) -> None:
    assert read_all(line) == [reply]


@pytest.mark.parametrize(
    "line", [b"\r\n", b"hello\r\n", b"25 x\r\n", b"2500 x\r\n", b"199 x\r\n", b"600 x\r\n", b"250x\n"]
)
def test_what_is_no_reply_is_refused(line: bytes) -> None:
    assert read_all(b"250 ok\r\n" + line) == [SmtpReply(250, "ok"), None]


@pytest.mark.parametrize("endless", [b"250 " + b"x" * MAX_REPLY_BYTES, b"250-x\r\n" * (MAX_REPLY_BYTES // 7 + 1)])
def test_a_reply_without_end_is_refused(endless: bytes) -> None:
    assert read_all(endless) == [None]


def test_bytes_beyond_the_replies_that_were_read_are_seen() -> None:
    reader = SmtpReplyReader()
    reader.feed(b"250 ok\r\n250-once")
    reader.next_reply()
    assert reader.unread_bytes == len(b"250-once")
    reader.feed(b"\r\n250 more\r\n")
    assert reader.next_reply() == SmtpReply(250, "once\nmore")
    assert reader.unread_bytes == 0
