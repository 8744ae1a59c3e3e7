"""A connection to an SMTP or LMTP server below its commands: bytes out, replies in, TLS.

Rules: what the server sends waits until it is read, also after the end of the connection: LMTP gives one reply
after the other to one message, and a server may close behind the last one. A server that sends much and is not
asked is not read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from nbstream.errors import RelayUnavailable
from nbstream.wire.smtp_reply import SmtpReply, SmtpReplyReader

if TYPE_CHECKING:
    from ssl import SSLContext

_MAX_UNREAD_BYTES = 64 * 1024


class ConnectionLost(RelayUnavailable):
    """The connection ended before a reply came."""


class SmtpStream(asyncio.Protocol):
    """One connection; ``reply`` is awaited by one task at a time."""

    _transport: asyncio.Transport
    _socket_transport: asyncio.Transport  # below TLS; the same one without TLS

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._replies = SmtpReplyReader()
        self._news: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._ended = False
        self._paused = False

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self._transport = self._socket_transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's is not by inheritance

    def data_received(self, data: bytes) -> None:
        """Keep what the server sent until somebody asks for it."""
        self._replies.feed(data)
        if not self._paused and self._replies.unread_bytes > _MAX_UNREAD_BYTES:
            self._transport.pause_reading()
            self._paused = True
        self._wake_reader()

    def eof_received(self) -> None:
        """The server says no more; the transport closes."""
        self._end()

    def connection_lost(self, error: Exception | None) -> None:
        """No byte comes any more, and none can be sent."""
        self._end()

    def pause_writing(self) -> None:
        """Let writers wait."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._room.set()

    def _end(self) -> None:
        self._ended = True
        self._room.set()
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._news and not self._news.done():
            self._news.set_result(None)

    # What its user calls

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, as far as is known."""
        return not self._ended and not self._transport.is_closing()

    @property
    def has_unread_bytes(self) -> bool:
        """Whether more has come than the replies that were read."""
        return self._replies.unread_bytes > 0

    @property
    def has_unsent_bytes(self) -> bool:
        """Whether some of what was written still waits to be sent."""
        return any(
            transport.get_write_buffer_size() > 0 for transport in {self._transport, self._socket_transport}
        )

    @property
    def own_address(self) -> str:
        """Our IP address on this connection; empty on a unix socket."""
        name = self._socket_transport.get_extra_info("sockname")
        return str(name[0]) if isinstance(name, tuple) else ""

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of the server (DER); None outside of TLS."""
        tls = self._transport.get_extra_info("ssl_object")
        return tls.getpeercert(binary_form=True) if tls else None

    def write(self, data: bytes | memoryview) -> None:
        """Send ``data`` without a wait. Raises ``ConnectionLost``."""
        if not self.is_open:
            raise ConnectionLost("the next hop closed the connection")
        self._transport.write(data)

    async def room(self) -> None:
        """Return when little of what was written still waits to be sent."""
        await self._room.wait()

    async def reply(self) -> SmtpReply:
        """Return the next reply. Raises ``ConnectionLost``, or ``MalformedReply``."""
        while (reply := self._replies.next_reply()) is None:
            if self._ended:
                raise ConnectionLost("the next hop closed the connection")
            self._news = self._loop.create_future()
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
            try:
                await self._news
            finally:
                self._news = None
        return reply

    async def start_tls(self, context: SSLContext, server_name: str) -> None:
        """Encrypt the connection from here on. Raises ``OSError`` (``ssl.SSLError``) or ``ConnectionLost``.

        What came in plain text before belongs to the session without TLS: where there is any, somebody on the way
        may have put it there (RFC 3207 6), and the connection ends.
        """
        if not self.is_open or self.has_unread_bytes:
            self.abort()
            raise ConnectionLost("the next hop did not wait for TLS")
        transport = await self._loop.start_tls(self._socket_transport, self, context, server_hostname=server_name)
        assert transport is not None
        self._transport = transport

    def close(self) -> None:
        """Close the connection once what was written is sent."""
        self._transport.close()

    def abort(self) -> None:
        """Drop the connection, and what was written and is not sent."""
        self._socket_transport.abort()
