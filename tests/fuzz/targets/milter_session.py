"""The milter listener: whatever a mail server sends, replies are well-formed, and no byte stays reserved."""

from __future__ import annotations

import asyncio

from nbstream.engine.choice import PYTHON
from nbstream.listeners.bytes_in_flight import BytesInFlight
from nbstream.listeners.milter.listener import MilterListener
from nbstream.listeners.milter.listener_state import MilterLimits
from nbstream.listeners.sockets import TcpListenAddress, open_listening_socket
from nbstream.metrics.daemon import DaemonMetrics
from nbstream.store.model.memory_model import MemoryModel
from tests.fuzz.memory_filter import memory_filter
from tests.fuzz.target import FuzzTarget
from tests.listeners.runtimes import make_runtime
from tests.wire import milter_frames as wire

_MAX_BYTES = 600
_REPLIES = frozenset(b"Ocdsyimq+-p")


class _Server:
    """The listener over a model in memory; it runs as long as the process does."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.bytes_in_flight = BytesInFlight(4 * _MAX_BYTES)
        self.runner.run(self._start())

    async def _start(self) -> None:
        metrics = DaemonMetrics.create(PYTHON)
        limits = MilterLimits(_MAX_BYTES, idle_timeout_seconds=10, message_timeout_seconds=10)
        self.listener = MilterListener(
            limits, self.bytes_in_flight, make_runtime(memory_filter(MemoryModel())), metrics
        )
        listening = open_listening_socket(TcpListenAddress("127.0.0.1", 0))
        self.host, self.port = listening.getsockname()
        await self.listener.start(listening)

    async def talk(self, sent: bytes) -> bytes:
        """Send these bytes and the end of our side, and return all replies once the session has ended."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(sent)
            writer.write_eof()
            async with asyncio.timeout(20):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()
            while tasks := list(self.listener.sessions.values()):
                await asyncio.wait(tasks)


_server = _Server()


def _check(data: bytes) -> None:
    for reply in wire.parse_replies(_server.runner.run(_server.talk(data))):
        assert reply.command[0] in _REPLIES
        if reply.command == b"y":
            assert reply.data[:1] in {b"4", b"5"}
            assert reply.data.removesuffix(b"\0").decode("ascii").isprintable()
    assert _server.bytes_in_flight.reserved == 0


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
