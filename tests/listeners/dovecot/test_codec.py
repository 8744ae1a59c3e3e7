"""Dovecot's script protocol: what was recorded from Dovecot 2.3.19, and what nobody should send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.listeners.dovecot.codec import (
    MAX_HEAD_BYTES,
    ScriptEvent,
    ScriptParser,
    ScriptRefusal,
    ScriptRequest,
)

RECORDED = (
    b"VERSION\tscript\t4\t0\nenv_USER=ann\nenv_HOME=/var/mail/ann\nenv_HOST=vm\n-\n"
    b"127.0.0.1:10025\nspam@nbstream.invalid\n\nSubject: x\r\n\r\nhello\r\n"
)
LIMIT = 1000


def parse(*pieces: bytes, limit: int = LIMIT) -> ScriptEvent | None:
    parser = ScriptParser(limit)
    for piece in pieces:
        parser.feed(piece)
    return parser.end()


def test_what_dovecot_sends_is_a_message_with_its_user_and_arguments() -> None:
    assert parse(RECORDED) == ScriptRequest(
        ("127.0.0.1:10025", "spam@nbstream.invalid"), "ann", b"Subject: x\r\n\r\nhello\r\n"
    )


def test_a_head_that_ends_early_is_no_request() -> None:
    head = RECORDED.index(b"\n\n") + 2
    assert parse(b"") is None
    for end in range(1, head):
        assert isinstance(parse(RECORDED[:end]), ScriptRefusal)


def test_a_client_may_ask_for_an_alarm_and_send_no_arguments() -> None:
    assert parse(b"VERSION\tscript\t4\t1\nalarm=9\n\n") == ScriptRequest((), "", b"")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0" * 100_000,
        b"\n\n",
        b"VERSION\tscript\t5\t0\n-\n\n",
        b"VERSION\tauth\t4\t0\n-\n\n",
        b"VERSION\tscript\t4\t0\n\n",
        b"VERSION\tscript\t4\t0\nenv_USER=ann\n\n",
        b"VERSION\tscript\t4\t0\nnoreply\n\n",
        b"VERSION\tscript\t4\t0\n-\n" + b"x" * MAX_HEAD_BYTES + b"\n\n",
    ],
    ids=range(9),
)
def test_anything_else_is_refused(data: bytes) -> None:
    assert isinstance(parse(data), ScriptRefusal)


def test_the_limit_is_that_of_the_message() -> None:
    head = RECORDED[: RECORDED.index(b"\n\n") + 2]
    assert isinstance(parse(head + b"x" * LIMIT), ScriptRequest)
    assert parse(head + b"x" * (LIMIT + 1)) == ScriptRefusal("the message is too large")


def test_the_first_refusal_holds() -> None:
    parser = ScriptParser(LIMIT)
    parser.refuse("too much at once")
    parser.feed(RECORDED)
    parser.refuse("too late")
    assert parser.end() == ScriptRefusal("too much at once")


@given(
    st.lists(st.sampled_from([*RECORDED.splitlines(keepends=True), b"\n", b"-\n", b"\x01", b"x" * 400])), st.data()
)
def test_any_split_of_any_bytes_gives_the_same(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(lines)
    pieces, rest = [], whole
    while rest:
        end = data.draw(st.integers(1, len(rest)))
        pieces.append(rest[:end])
        rest = rest[end:]
    assert parse(*pieces) == parse(whole)
