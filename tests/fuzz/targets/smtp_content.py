"""The content of DATA: the message is the same wherever its bytes are cut, and its memory is given back."""

from __future__ import annotations

from nbstream.listeners.smtp.codec import DATA_END, IncomingContent, remove_dot_stuffing
from nbstream.mail.lines import normalize_line_ends
from nbstream.server.limits import BytesInFlight, ListenerLimits
from tests.fuzz.target import Choices, FuzzTarget

_LIMIT = 300


def _check(data: bytes) -> None:
    choices = Choices(data)
    step = 1 + choices.number(9)
    sent = (b"\r\n" + choices.rest).partition(DATA_END)[0] + DATA_END
    expected = normalize_line_ends(remove_dot_stuffing(sent[: -len(b".\r\n")]))[2:]
    bytes_in_flight = BytesInFlight(2 * _LIMIT)
    incoming = IncomingContent(ListenerLimits(_LIMIT), bytes_in_flight)
    cut = len(sent) - len(DATA_END)  # the reader gives the end of the content in one piece
    for start in range(0, cut, step):
        incoming.add(sent[start : min(start + step, cut)], last=False)
    incoming.add(DATA_END, last=True)
    if cut > _LIMIT:
        assert incoming.problem is not None
    else:
        assert incoming.problem is None
        assert incoming.content() == expected
    incoming.release()
    assert bytes_in_flight.reserve(2 * _LIMIT)


TARGET = FuzzTarget(
    _check,
    (
        b"\0Subject: a\r\n\r\ntext\r\n..dot\r\n",
        b"\1.\r\n",
        b"\2\r\n.\r\n",
        b"\3a\rb\nc\r\r\n\n\r..\r.\n.",
        b"\4" + b"x" * 400,
        b"\0\r\n..\r\n.\r",
    ),
    words=(b"\r\n.", b"\r\n..", b"\r", b"\n.", b"\r\r\n"),
    max_bytes=600,
    mutations=1500,
)
