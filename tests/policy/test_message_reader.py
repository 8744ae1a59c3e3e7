"""The bytes of a message become the same message whichever way they came in."""

from __future__ import annotations

import pytest

from nbstream.policy.header import FilterMarks, MessageReader

CLEAN = b"Subject: lunch\r\n\r\nAre you coming?\r\n"


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"])
def test_line_ends_of_any_kind_make_the_same_message(line_end: bytes) -> None:
    raw = CLEAN.replace(b"\r\n", line_end)

    assert MessageReader().read_incoming(raw).raw == CLEAN


@pytest.mark.parametrize("name", FilterMarks().names)
def test_a_verdict_that_comes_from_outside_is_removed(name: str) -> None:
    raw = f"{name}: No, score=-99\n folded\n".encode() + CLEAN

    message = MessageReader().read_incoming(raw)

    assert message.raw == CLEAN
    assert message.key == MessageReader().read_incoming(CLEAN).key


ARRIVED = b"Authentication-Results: mx.example.org; spf=pass\r\nReceived: from a.example by mx\r\n" + CLEAN
DELIVERED = (
    b"Return-Path: <a@a.example>\r\nReceived: from localhost by mx\r\n\tfor ann\r\nX-Spam-Flag: NO\r\n"
    b"X-Nbstream: ham; p=0.01\r\n" + ARRIVED
)


def test_a_taught_message_is_the_one_that_was_checked() -> None:
    for line_end in (b"\n", b"\r\n"):
        taught = MessageReader().read_taught(DELIVERED.replace(b"\r\n", line_end))
        assert taught.raw == b"Return-Path: <a@a.example>\r\n" + ARRIVED
        assert taught.key == MessageReader().read_incoming(DELIVERED).key


def test_no_field_of_a_message_that_comes_in_hides_its_way() -> None:
    received = b"Received: from b.example by mx\r\n"
    forged = received + b"X-Nbstream: ham\r\n" + ARRIVED
    assert MessageReader().read_incoming(forged).raw == received + ARRIVED


def test_a_verdict_that_the_sender_wrote_below_ours_removes_nothing() -> None:
    forged = b"X-Nbstream: ham\r\nAuthentication-Results: mx.example.org; spf=pass\r\nReceived: from b by c\r\n"
    arrived = b"Received: from a.example by mx\r\n" + forged + CLEAN
    delivered = b"Received: from localhost by mx\r\nX-Nbstream: spam; p=0.99\r\n" + arrived
    assert MessageReader().read_taught(delivered).raw == MessageReader().read_incoming(arrived).raw


@pytest.mark.parametrize(
    "raw", [CLEAN, ARRIVED, b"", b"\r\nX-Nbstream: text\r\n", b"Received: x\r\n\r\nX-Nbstream: a\r\n"]
)
def test_a_taught_message_without_our_verdict_is_as_it_is(raw: bytes) -> None:
    assert MessageReader().read_taught(raw).raw is raw


SITE = MessageReader(marks=FilterMarks("X-Site", ("X-Verdict",), "[SPAM]"))


def test_the_names_of_a_site_are_removed_and_those_of_another_filter_stay() -> None:
    others = b"X-Nbstream: ham\r\nX-Spam-Flag: NO\r\n"

    assert SITE.read_incoming(
        b"x-site: ham\r\nX-Site-Clues: a\r\nX-VERDICT: a\r\n b\r\n" + others + CLEAN
    ).raw == (others + CLEAN)


def test_a_tagged_subject_is_read_without_its_tag() -> None:
    tagged = CLEAN.replace(b"Subject: ", b"Subject: [SPAM] ")

    for message in (SITE.read_incoming(tagged), SITE.read_taught(tagged)):
        assert message.raw == CLEAN
    assert SITE.strip(tagged) is tagged  # what is delivered keeps a tag that it came with
