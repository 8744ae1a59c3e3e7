"""The milter protocol: which bytes are which event, however they are cut, and what breaks it."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.listeners.milter.codec import (
    MAX_FRAME_BYTES,
    MilterActions,
    MilterBody,
    MilterCommand,
    MilterEvent,
    MilterHeaderField,
    MilterMacros,
    MilterOptions,
    MilterParser,
    MilterStage,
    MilterSteps,
    MilterViolation,
)
from tests.harness import milter_frames as wire

MESSAGE = b"Subject: x\r\nX-Folded: a\r\n\tb\r\n\r\ntext\r\n"
SESSION = [
    wire.negotiation(),
    wire.macros(b"C", {"{client_addr}": "192.0.2.7", "j": "mx.example.org"}),
    wire.connect(),
    wire.frame(b"H", b"client.example\0"),
    wire.macros(b"M", {"{auth_authen}": "ann"}),
    wire.mail("<someone@elsewhere.example>", "SIZE=100", "BODY=8BITMIME"),
    wire.macros(b"R", {"{rcpt_addr}": "ann@example.org"}),
    wire.rcpt("<ann@example.org>", "NOTIFY=NEVER"),
    wire.frame(b"T"),
    *wire.content(MESSAGE),
    wire.frame(b"N"),
    wire.frame(b"E", b"the rest"),
    wire.ABORT,
    wire.frame(b"U", b"XYZZY\0"),
    wire.QUIT_NC,
    wire.QUIT,
]


def events(pieces: Iterable[bytes]) -> list[MilterEvent]:
    parser = MilterParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def violation(data: bytes) -> str:
    """The text about data that breaks the protocol."""
    [event] = events([data])
    assert isinstance(event, MilterViolation)
    return event.text


def test_every_command_is_an_event() -> None:
    offer = MilterOptions(6, wire.ALL_ACTIONS, wire.ALL_STEPS)
    assert events(SESSION) == [
        offer,
        MilterMacros(b"C", {"{client_addr}": "192.0.2.7", "j": "mx.example.org"}),
        MilterCommand(MilterStage.CONNECT, ("client.example", "192.0.2.7")),
        MilterCommand(MilterStage.HELO, ("client.example",)),
        MilterMacros(b"M", {"{auth_authen}": "ann"}),
        MilterCommand(MilterStage.MAIL, ("<someone@elsewhere.example>", "SIZE=100", "BODY=8BITMIME")),
        MilterMacros(b"R", {"{rcpt_addr}": "ann@example.org"}),
        MilterCommand(MilterStage.RCPT, ("<ann@example.org>", "NOTIFY=NEVER")),
        MilterCommand(MilterStage.DATA),
        MilterHeaderField(b"Subject", b" x"),
        MilterHeaderField(b"X-Folded", b" a\n\tb"),
        MilterBody(b"text\r\n"),
        MilterCommand(MilterStage.END_OF_HEADER),
        MilterBody(b"the rest", is_last=True),
        MilterCommand(MilterStage.ABORT),
        MilterCommand(MilterStage.UNKNOWN, ("XYZZY",)),
        MilterCommand(MilterStage.QUIT_NC),
        MilterCommand(MilterStage.QUIT),
    ]


@pytest.mark.parametrize(
    ("data", "address"),
    [
        (b"mx\x004\x9c\x40192.0.2.7\0", "192.0.2.7"),
        (b"mx\x006\x9c\x402001:db8::7\0", "2001:db8::7"),
        (b"mx\x006\x9c\x40IPv6:2001:db8::7\0", "2001:db8::7"),  # Sendmail
        (b"mx\0L\0\0/run/mx\0", "/run/mx"),
        (b"localhost\0U", ""),
        (b"localhost\0U\0\0\0", ""),  # Sendmail fills it up
    ],
)
def test_the_address_of_a_client(data: bytes, address: str) -> None:
    [event] = events([wire.frame(b"C", data)])

    assert isinstance(event, MilterCommand)
    assert event.texts[1] == address


# However the bytes are cut


_GARBAGE = [b"\0\0\0\0", b"\0\0\0\1Z", b"\xff\xff\xff\xff", wire.frame(b"Q", b"x"), b"GET / HTTP/1.1\r\n\r\n"]


@given(st.data())
def test_any_cut_says_the_same(data: st.DataObject) -> None:
    commands = st.lists(st.sampled_from([*SESSION, *_GARBAGE]), max_size=6).map(b"".join)
    raw = data.draw(st.one_of(commands, st.binary(max_size=100)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(raw)], strict=True)]

    assert events(pieces) == events([raw])


@given(st.binary(max_size=200))
def test_a_violation_is_the_last_event_and_repeats_nothing(raw: bytes) -> None:
    parser = MilterParser()

    parsed = list(parser.feed(raw))

    assert all(not isinstance(event, MilterViolation) for event in parsed[:-1])
    if parsed and isinstance(parsed[-1], MilterViolation):
        assert parsed[-1].text.isascii()
        assert list(parser.feed(wire.QUIT)) == []
        assert parser.pending_bytes == 0


def test_a_frame_of_the_largest_length_comes_in_pieces() -> None:
    data = wire.frame(b"B", b"b" * (MAX_FRAME_BYTES - 1))
    parser = MilterParser()

    assert list(parser.feed(data[:-1])) == []
    assert parser.pending_bytes == len(data) - 1
    assert list(parser.feed(data[-1:] + wire.END)) == [
        MilterBody(b"b" * (MAX_FRAME_BYTES - 1)),
        MilterBody(b"", is_last=True),
    ]
    assert parser.pending_bytes == 0


def test_header_fields_of_no_use_are_left_out() -> None:
    data = wire.header(b"A", b"a") * 3 + wire.frame(b"L", b"no text") + wire.END
    parser = MilterParser()
    parser.skips_header_fields = True

    assert [event for byte in data for event in parser.feed(bytes([byte]))] == [MilterBody(b"", is_last=True)]
    parser.skips_header_fields = False
    assert list(parser.feed(wire.header(b"A", b"a"))) == [MilterHeaderField(b"A", b"a")]


# What breaks the protocol


def test_a_frame_that_is_too_long_is_not_waited_for() -> None:
    assert violation(struct.pack("!I", MAX_FRAME_BYTES + 1)) == "a frame is too long"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\0\0\0\0", "a frame is empty"),
        (wire.frame(b"Z"), "a command is not known"),
        (wire.frame(b"O", b"\0" * 11), "a negotiation is too short"),
        (wire.negotiation(1), "a version is older than 2"),
        (wire.frame(b"D"), "macros are for no command"),
        (wire.frame(b"D", b"Ci\0"), "a macro has no value"),
        (wire.frame(b"D", b"Ci\0value"), "a text does not end"),
        (wire.frame(b"C", b"host\0"), "a connection has no address of a known kind"),
        (wire.frame(b"C", b"host\x009\0\x19x\0"), "a connection has no address of a known kind"),
        (wire.frame(b"C", b"host\x004\0\x19"), "a connection has no address of a known kind"),
        (wire.frame(b"C", b"host"), "a connection has no address of a known kind"),
        (wire.frame(b"C", b"host\x004\0\x19192.0.2.7"), "a text does not end"),
        (wire.frame(b"H"), "a command has too few or too many arguments"),
        (wire.frame(b"M"), "a command has too few or too many arguments"),
        (wire.frame(b"R"), "a command has too few or too many arguments"),
        (wire.frame(b"R", b"<ann@example.org>"), "a text does not end"),
        (wire.frame(b"L", b"Subject\0"), "a command has too few or too many arguments"),
        (wire.frame(b"L", b"Subject\0a\0b\0"), "a command has too few or too many arguments"),
        (wire.frame(b"D", b"C" + b"\0" * 1002), "a command has too few or too many arguments"),
        (wire.frame(b"M", b"<a>\0" + b"\0" * 1000), "a command has too few or too many arguments"),
        (wire.frame(b"R", b"\0" * 500_000), "a command has too few or too many arguments"),
        (wire.frame(b"L", b"\0value\0"), "a header field has no name"),
        (wire.frame(b"T", b"x"), "a command without an argument has one"),
    ],
)
def test_what_is_no_command_is_a_violation(data: bytes, text: str) -> None:
    assert violation(data + wire.QUIT) == text


# Options


def test_only_what_is_offered_is_agreed_on() -> None:
    version, actions, steps = wire.SENDMAIL_8_12
    wanted = MilterActions.ADDHDRS | MilterActions.QUARANTINE, MilterSteps.NOHELO | MilterSteps.NR_HDR

    agreed = MilterOptions(version, actions, steps).agree(*wanted)

    assert agreed == MilterOptions(2, MilterActions.ADDHDRS, MilterSteps.NOHELO)


def test_a_reply_is_due_unless_it_was_dispensed_with() -> None:
    def waits(steps: MilterSteps) -> str:
        """The letters of the commands that are answered."""
        options = MilterOptions(6, MilterActions(0), steps)
        return "".join(
            chr(frame[4]) for frame in SESSION for event in events([frame]) if options.wants_reply(event)
        )

    assert waits(MilterSteps(0)) == "CHMRTLLBNEU"
    assert waits(MilterSteps.NR_HDR | MilterSteps.NR_MAIL) == "CHRTBNEU"
    assert waits(wire.ALL_STEPS) == "HTBNEU"
