"""The replies of a filter in the milter protocol, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.delivery.next_hop import SmtpReply
from nbstream.listeners.milter.codec import (
    CONTINUE,
    DISCARD,
    PROGRESS,
    SKIP,
    MilterActions,
    MilterOptions,
    MilterSteps,
    add_recipient,
    change_header,
    delete_recipient,
    hold,
    insert_header,
    negotiation,
    refusal,
)
from tests.harness.milter_frames import parse_replies

OPTIONS = MilterOptions(6, MilterActions.ADDHDRS | MilterActions.SETSYMLIST, MilterSteps.HDR_LEADSPC)


@pytest.mark.parametrize(
    ("reply", "raw"),
    [
        (negotiation(OPTIONS), b"\0\0\0\x0dO\0\0\0\6\0\0\1\1\0\x10\0\0"),
        (
            negotiation(OPTIONS, ("i {auth_authen}", "i")),
            b"\0\0\0\x27O\0\0\0\6\0\0\1\1\0\x10\0\0\0\0\0\0i {auth_authen}\0\0\0\0\1i\0",
        ),
        (CONTINUE, b"\0\0\0\1c"),
        (DISCARD, b"\0\0\0\1d"),
        (SKIP, b"\0\0\0\1s"),
        (PROGRESS, b"\0\0\0\1p"),
        (refusal(SmtpReply(550, "5.7.1 No")), b"\0\0\0\x0ey550 5.7.1 No\0"),
        (refusal(SmtpReply(550, "5.7.1 100% a\nb")), b"\0\0\0\x1ay550-5.7.1 100%% a\r\n550 b\0"),
        (insert_header(1, "X-Spam", " a\n\tb"), b"\0\0\0\x12i\0\0\0\1X-Spam\0 a\n\tb\0"),
        (change_header(2, "X-Spam", None), b"\0\0\0\x0dm\0\0\0\2X-Spam\0\0"),
        (change_header(1, "Subject", b" \xe4"), b"\0\0\0\x10m\0\0\0\1Subject\0 \xe4\0"),
        (add_recipient("<a@b>"), b"\0\0\0\7+<a@b>\0"),
        (delete_recipient("<\udce4@b>"), b"\0\0\0\7-<\xe4@b>\0"),
        (hold("spam"), b"\0\0\0\6qspam\0"),
    ],
)
def test_the_bytes_of_each_reply(reply: bytes, raw: bytes) -> None:
    assert reply == raw


@given(st.text(), st.binary())
def test_no_text_breaks_out_of_its_frame(text: str, value: bytes) -> None:
    replies: list[bytes] = [
        insert_header(0, text, text),
        change_header(1, text, value),
        add_recipient(text),
        hold(text),
        refusal(SmtpReply(451, text)),
    ]

    parsed = parse_replies(b"".join(replies))

    assert [reply.command for reply in parsed] == [b"i", b"m", b"+", b"q", b"y"]
    assert [len(reply.words) for reply in parsed] == [2, 2, 1, 1, 1]
