"""The content of DATA, chunk by chunk."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.delivery.next_hop import SmtpReply
from nbstream.listeners.smtp.codec import DATA_END, IncomingContent
from nbstream.mail.lines import normalize_line_ends
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.server.smtp_replies import MESSAGE_TOO_BIG, TOO_MANY_BYTES_IN_FLIGHT

FRAGMENTS = st.lists(
    st.sampled_from([b"\r", b"\n", b".", b"a", b"\r\n", b"\r\n.", b"\r\n..", b"bcd"]), max_size=20
)


def arrive(wire: bytes, cuts: list[int], limit: int = 1 << 20) -> IncomingContent:
    """What comes in when ``wire`` is cut at these positions."""
    arriving = IncomingContent(ListenerLimits(limit), BytesInFlight(1 << 30))
    positions = [0, *sorted(cut for cut in cuts if 0 < cut <= len(wire) - len(DATA_END)), len(wire)]
    for start, end in itertools.pairwise(positions):
        arriving.add(wire[start:end], last=end == len(wire))
    return arriving


@given(FRAGMENTS, st.lists(st.integers(1, 60)))
def test_the_message_is_the_same_wherever_it_is_cut(fragments: list[bytes], cuts: list[int]) -> None:
    stuffed = b"".join(fragments)
    while DATA_END in b"\r\n" + stuffed + DATA_END[:-1]:
        stuffed = stuffed.replace(b".\r\n", b"") + b"x"
    lines = (b"\r\n" + stuffed + b"\r\n").split(b"\r\n")
    expected = normalize_line_ends(b"\r\n".join(line.removeprefix(b".") for line in lines))[2:]

    assert arrive(b"\r\n" + stuffed + DATA_END, cuts).content() == expected


def test_an_empty_message_is_empty() -> None:
    assert arrive(DATA_END, []).content() == b""


@pytest.mark.parametrize(("length", "problem"), [(98, None), (99, MESSAGE_TOO_BIG)])
def test_a_message_may_be_as_long_as_the_limit(length: int, problem: SmtpReply | None) -> None:
    message = b"x" * (length - 2) + b"\r\n"

    assert arrive(b"\r\n" + message + b".\r\n", [40], limit=98).problem == problem


def test_what_is_refused_holds_no_memory() -> None:
    bytes_in_flight = BytesInFlight(20)
    assert bytes_in_flight.reserve(1)
    arriving = IncomingContent(ListenerLimits(100), bytes_in_flight)
    arriving.add(b"\r\n12345", last=False)
    assert bytes_in_flight.reserved == 1 + 7

    arriving.add(b"6789", last=False)

    assert arriving.problem == TOO_MANY_BYTES_IN_FLIGHT
    assert bytes_in_flight.reserved == 1
    assert not arriving.exceeds_read_limit


def test_after_twice_the_limit_the_end_is_not_waited_for() -> None:
    arriving = IncomingContent(ListenerLimits(10), BytesInFlight(1 << 30))

    arriving.add(b"\r\n" + b"x" * 18, last=False)
    assert arriving.problem == MESSAGE_TOO_BIG
    assert not arriving.exceeds_read_limit
    arriving.add(b"x", last=False)

    assert arriving.exceeds_read_limit


def test_line_feeds_that_become_crlf_are_counted_as_they_are_held() -> None:
    bytes_in_flight = BytesInFlight(1000)
    arriving = IncomingContent(ListenerLimits(100), bytes_in_flight)

    arriving.add(b"\r\n" + b"\n" * 50, last=False)

    assert bytes_in_flight.reserved == 2 + 100
