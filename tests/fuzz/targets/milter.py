"""The milter codec: any bytes are the same events however they are cut, and each event is within its bounds."""

from __future__ import annotations

from nbstream.listeners.milter.codec import (
    MAX_FRAME_BYTES,
    MilterMail,
    MilterParser,
    MilterRecipient,
    MilterViolation,
    decode_text,
    delete_recipient,
    encode_text,
)
from tests.fuzz.target import FuzzTarget
from tests.harness import milter_frames as wire


def _check(data: bytes) -> None:
    step = 1 + (data[-1] if data else 0) % 7
    cut, whole = MilterParser(), MilterParser()
    events = whole.feed(data)
    assert [
        event for start in range(0, len(data), step) for event in cut.feed(data[start : start + step])
    ] == events
    assert whole.pending_bytes == cut.pending_bytes <= min(len(data), MAX_FRAME_BYTES + 4)
    for event in events[:-1]:
        assert not isinstance(event, MilterViolation)
    for event in events:
        if isinstance(event, MilterMail):
            assert decode_text(encode_text(event.sender)) == event.sender
        if isinstance(event, MilterRecipient):  # it can be deleted under the same name
            [reply] = wire.parse_replies(delete_recipient(event.recipient))
            assert reply.words == [encode_text(event.recipient)]


TARGET = FuzzTarget(
    _check,
    (
        b"".join(
            (wire.negotiation(), wire.macros(b"C", {"j": "mx"}), wire.connect(), wire.frame(b"H", b"client\0"))
        ),
        b"".join(
            (
                wire.mail("<a@b>", "SIZE=1"),
                wire.macros(b"R", {"i": "1"}),
                wire.rcpt("<\u00e4@b>"),
                wire.frame(b"T"),
            )
        ),
        b"".join(
            (*wire.content(b"Subject: x\r\n\tb\r\n\r\ntext\r\n"), wire.frame(b"N"), wire.frame(b"E", b"rest"))
        ),
        b"".join((wire.ABORT, wire.QUIT_NC, wire.connect("2001:db8::7"), wire.frame(b"U", b"X\0"), wire.QUIT)),
        b"GET / HTTP/1.0\r\n\r\n",
    ),
    words=(b"\0\0\0\1", b"\0\0\0\x0d", b"\0", b"IPv6:", b"{rcpt_addr}\0"),
    mutations=1500,
)
