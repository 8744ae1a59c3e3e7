"""The milter listener: whatever a mail server sends, replies are well-formed, and no byte stays reserved."""

from __future__ import annotations

import asyncio

from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.listeners.milter.session import MilterListener
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.server.message_service import MessageService
from nbstream.store.model.memory_model import MemoryModel
from tests.fuzz.fuzzed_listener import FuzzedListener
from tests.fuzz.target import FuzzTarget
from tests.harness import milter_frames as wire
from tests.harness.memory_filter import memory_filter
from tests.harness.runtimes import make_runtime

_MAX_BYTES = 600
_REPLIES = frozenset(b"Ocdsyimq+-p")


_bytes_in_flight = BytesInFlight(4 * _MAX_BYTES)
_listener = MilterListener(
    MessageService(
        "milter",
        make_runtime(memory_filter(MemoryModel())),
        DaemonMetrics.create(PYTHON).delivery,
        ListenerLimits(_MAX_BYTES, idle_timeout_seconds=10, message_timeout_seconds=10),
        _bytes_in_flight,
    )
)


async def _wait_until_idle() -> None:
    await _listener.connections.wait_closed()


_fuzzed = FuzzedListener(asyncio.Runner(), _listener, _wait_until_idle)


def _check(data: bytes) -> None:
    for reply in wire.parse_replies(_fuzzed.answer(data)):
        assert reply.command[0] in _REPLIES
        if reply.command == b"y":
            assert reply.data[:1] in {b"4", b"5"}
            assert reply.data.removesuffix(b"\0").decode("ascii").isprintable()
    assert _bytes_in_flight.reserved == 0


_BEGIN = wire.negotiation() + wire.connect("127.0.0.1") + wire.mail()
_MESSAGE = b"".join(wire.content(b"Subject: prize\r\nX-Nbstream: ham; id=x\r\n\r\ntext\r\n"))

TARGET = FuzzTarget(
    _check,
    (
        _BEGIN + wire.rcpt() + _MESSAGE + wire.END + wire.mail() + wire.rcpt("<b@c>") + _MESSAGE + wire.END,
        _BEGIN + wire.rcpt("<spam@nbstream.invalid>") + _MESSAGE + wire.END + wire.QUIT_NC + wire.QUIT,
        _BEGIN + wire.rcpt() + wire.frame(b"B", b"x" * 700) + wire.frame(b"E", b"y") + wire.ABORT,
        wire.negotiation(2, 0x1F, 0x7F) + wire.mail() + wire.rcpt() + _MESSAGE + wire.END,
        _BEGIN + wire.rcpt() + wire.header(b"X-Spam-Flag", b" NO") * 40 + wire.END,
        _BEGIN + wire.macros(b"R", {"{rcpt_addr}": "ann@example.org", "i": "1"}) + wire.rcpt("<ann>") + wire.END,
    ),
    words=(wire.END, wire.ABORT, wire.QUIT_NC, wire.mail(), wire.rcpt("<x@y>"), _MESSAGE, b"\0\0\0\1"),
    mutations=300,
)
