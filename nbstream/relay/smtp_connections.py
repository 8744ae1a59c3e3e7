"""Connections to an SMTP server: opened, lent, kept for a while, bounded in number.

Rules: whatever ends the wait for a reply early, cancellation too, must end in ``drop``: a late reply never meets
the next command. A connection is lent to one transaction at a time; the last one back goes first.
"""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import dataclass
from typing import cast

import aiosmtplib

from nbstream.errors import RelayUnavailable
from nbstream.relay.aiosmtplib_seam import has_unread_bytes
from nbstream.wire.smtp_reply import SmtpReply

_CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class NextHopLimits:
    """Deadlines in seconds and bounds of the connections to a hop."""

    connect_timeout_seconds: float = 10.0  # until EHLO is answered; also the wait for a free connection
    reply_timeout_seconds: float = 300.0  # of one command; for the message, sending it included
    max_idle_seconds: float = 30.0
    max_connections: int = 200


class ConnectionPool:
    """The connections to one hop: lent, kept for a while, bounded in number; the last one back goes first."""

    def __init__(self, host: str, port: int, params: NextHopLimits) -> None:
        self._host, self._port, self.limits = host, port, params
        self._slots = asyncio.Semaphore(params.max_connections)
        self._idle: dict[NextHopConnection, asyncio.TimerHandle] = {}
        self._closed = False
        self.features: frozenset[str] | None = None

    @property
    def all_lent(self) -> bool:
        """True while no connection more may be lent."""
        return self._slots.locked()

    async def lease(self) -> NextHopConnection:
        """A kept connection, or a fresh one; waits for a free place, and raises RelayUnavailable."""
        try:
            if self._slots.locked():
                async with asyncio.timeout(self.limits.connect_timeout_seconds):
                    await self._slots.acquire()
            else:
                await self._slots.acquire()  # at once
        except TimeoutError as error:
            raise RelayUnavailable("all connections to the next hop are in use") from error
        try:
            return self._idle_connection() or await self.open()
        except BaseException:
            self._slots.release()
            raise

    def give_back(self, connection: NextHopConnection) -> None:
        """Take a lent connection back, to be kept while it lives."""
        self._slots.release()
        if self._closed or not connection.alive:
            connection.quit()
            return
        connection.reused = True
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.call_later(self.limits.max_idle_seconds, self._close_expired, connection)

    def close(self) -> None:
        """Close what is kept; what is lent is closed when it comes back."""
        self._closed = True
        while connection := self._idle_connection():
            connection.quit()

    def _idle_connection(self) -> NextHopConnection | None:
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            if connection.alive:
                return connection
            connection.drop()  # its timer would keep it for all the time of a reply
        return None

    def _close_expired(self, connection: NextHopConnection) -> None:
        del self._idle[connection]
        connection.quit()

    async def open(self) -> NextHopConnection:
        """A fresh connection after its EHLO; raises RelayUnavailable."""
        if self._closed:
            raise RelayUnavailable("the relay is closed")
        # STARTTLS is not tried: many servers offer it with a certificate that nobody signed.
        client = aiosmtplib.SMTP(
            hostname=self._host, port=self._port, local_hostname="localhost", start_tls=False, timeout=None
        )
        try:
            async with asyncio.timeout(self.limits.connect_timeout_seconds):
                await client.connect()
                own = client.get_transport_info("sockname")
                await client.ehlo(hostname=_ehlo_name(own[0]) if own else "localhost")
        except BaseException as error:
            client.close()
            if isinstance(error, aiosmtplib.SMTPException | OSError):
                why = "no answer in time" if isinstance(error, TimeoutError) else error
                raise RelayUnavailable(f"no way to {self._host} port {self._port}: {why}") from error
            raise
        self.features = frozenset(keyword.upper() for keyword in client.esmtp_extensions)
        return NextHopConnection(client, self.limits.reply_timeout_seconds)


class ConnectionLost(RelayUnavailable):
    """The connection ended before a reply came."""


class NextHopConnection:
    """One open connection. After a call that raised, it must be dropped: its reply may still come.

    The library's commands do more than is needed here: with a deadline and a lock for each, and what checks its
    arguments twice, they took a fifth more of a transaction. One timer serves all deadlines.
    """

    def __init__(self, client: aiosmtplib.SMTP, reply_timeout_seconds: float) -> None:
        assert client.protocol is not None
        self._client = client
        self._protocol = client.protocol
        self._transport = cast("asyncio.Transport", client.transport)
        self._loop = asyncio.get_running_loop()
        self._reply_timeout_seconds = reply_timeout_seconds
        self._deadline = math.inf  # when the reply that is waited for must be here
        self._timer: asyncio.TimerHandle | None = None
        self._timed_out = False
        self.reused = False

    @property
    def alive(self) -> bool:
        """False once the connection is known to be closed."""
        return self._client.is_connected

    async def command(self, line: bytes, positive: int = 2) -> SmtpReply:
        """Send one command; ``positive`` is the first digit of the reply that means yes."""
        if _CONTROL_CHARACTER.search(line):
            raise ValueError(f"a control character in {line!r}")
        reply = self._to_reply(await self._exchange([line + b"\r\n"]), positive)
        if reply.code == 421 and self.reused:
            raise ConnectionLost("the next hop closed a kept connection with a 421")
        return reply

    async def send_content(self, stuffed: list[bytes]) -> SmtpReply:
        """Send the message, final dot included, that a 354 has asked for; a hop may refuse it before the dot."""
        reply = self._to_reply(await self._exchange(stuffed), 2)
        if self._transport.get_write_buffer_size():
            self.drop()
            if reply.accepted:
                raise RelayUnavailable("the next hop accepted a message before its end")
        return reply

    async def _exchange(self, pieces: list[bytes]) -> aiosmtplib.SMTPResponse:
        self._deadline = self._loop.time() + self._reply_timeout_seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._reply_timeout_seconds, self._on_timer)
        try:
            # The library drops a reply that nobody waits for: so nothing is awaited before the read.
            for piece in pieces:
                self._protocol.write(piece)
            response = await self._protocol.read_response(timeout=None)
        except aiosmtplib.SMTPServerDisconnected as error:
            if self._timed_out:
                raise RelayUnavailable("no reply of the next hop in time") from error
            raise ConnectionLost("the next hop closed the connection") from error
        except aiosmtplib.SMTPException as error:
            raise RelayUnavailable(f"no usable reply of the next hop: {error}") from error
        finally:
            self._deadline = math.inf
        if has_unread_bytes(self._protocol):  # a second reply at once, which would answer the next command
            self.drop()
        return response

    def _on_timer(self) -> None:
        """The timer of a command that may have been answered long ago: it goes on for the one that waits now."""
        self._timer = None
        left = self._deadline - self._loop.time()
        if left <= 0:
            self._timed_out = True
            self.drop()
        elif left < math.inf:
            self._timer = self._loop.call_later(left, self._on_timer)

    def quit(self) -> None:
        """Say goodbye and close, waiting for nothing."""
        if self.alive:
            self._protocol.write(b"QUIT\r\n")
        self._close()

    def drop(self) -> None:
        """Close, and send nothing of what still waits to be sent: else a message given up would arrive."""
        self._transport.abort()
        self._close()

    def _close(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._client.close()

    def _to_reply(self, response: aiosmtplib.SMTPResponse, positive: int) -> SmtpReply:
        reply = SmtpReply(response.code, response.message)
        if reply.code // 100 not in (positive, 4, 5):
            raise RelayUnavailable(f"the next hop answered out of turn: {reply}")
        if reply.code == 421:  # the hop closes the connection after it, RFC 5321 3.8
            self.drop()
        return reply


def _ehlo_name(address: str) -> str:
    """What EHLO says of us: our address, as a name would have to be asked of the DNS. RFC 5321 4.1.3."""
    return f"[IPv6:{address.partition('%')[0]}]" if ":" in address else f"[{address}]"
