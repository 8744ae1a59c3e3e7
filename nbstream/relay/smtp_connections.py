"""The connections to an SMTP server: opened, lent to transactions, kept open for a while, bounded in number.

Rules: whatever ends the wait for a reply early, cancellation included, must end in ``drop``, so that a late reply
is never taken for the reply to the next command. A connection is lent to one transaction at a time.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import aiosmtplib

from nbstream.errors import RelayUnavailable
from nbstream.mail.lines import PIECE_BYTES
from nbstream.relay.aiosmtplib_seam import has_unread_bytes, wait_for_room
from nbstream.wire.smtp_reply import SmtpReply

_CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class NextHopLimits:
    """The deadlines, in seconds, and the bounds of the connections to a next hop."""

    connect_timeout_seconds: float = 10.0  # until EHLO is answered; also the longest wait for a free connection
    reply_timeout_seconds: float = 300.0  # for one command; for a message the time to send it included
    max_idle_seconds: float = 30.0
    max_connections: int = 200


class ConnectionPool:
    """The connections to one next hop. The one that came back last is lent first."""

    def __init__(self, host: str, port: int, limits: NextHopLimits) -> None:
        self._host, self._port, self.limits = host, port, limits
        self._slots = asyncio.Semaphore(limits.max_connections)
        self._idle: dict[NextHopConnection, asyncio.TimerHandle] = {}
        self._closed = False
        self.features: frozenset[str] | None = None

    @property
    def all_lent(self) -> bool:
        """Whether all connections that may be open are lent."""
        return self._slots.locked()

    async def lease(self) -> NextHopConnection:
        """Return an idle connection, or else a new one.

        Wait until one may be lent. Raises ``RelayUnavailable``.
        """
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
        """Take a lent connection back, and keep it open for a while if it still is."""
        self._slots.release()
        if self._closed or not connection.alive:
            connection.quit()
            return
        connection.reused = True
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.call_later(self.limits.max_idle_seconds, self._close_expired, connection)

    def close(self) -> None:
        """Close the idle connections; a lent one is closed when it comes back."""
        self._closed = True
        while connection := self._idle_connection():
            connection.quit()

    def _idle_connection(self) -> NextHopConnection | None:
        while self._idle:
            connection, timer = self._idle.popitem()
            timer.cancel()
            if connection.alive:
                return connection
            connection.drop()  # else its timer would keep it until the deadline of a reply
        return None

    def _close_expired(self, connection: NextHopConnection) -> None:
        del self._idle[connection]
        connection.quit()

    async def open(self) -> NextHopConnection:
        """Return a new connection after its EHLO. Raises ``RelayUnavailable``."""
        if self._closed:
            raise RelayUnavailable("the relay is closed")
        # STARTTLS is not tried: many servers offer it with a certificate that nobody signed.
        client = aiosmtplib.SMTP(
            hostname=self._host, port=self._port, local_hostname="localhost", start_tls=False, timeout=None
        )
        try:
            async with asyncio.timeout(self.limits.connect_timeout_seconds):
                await client.connect()
                own_address = client.get_transport_info("sockname")
                await client.ehlo(hostname=_ehlo_name(own_address[0]) if own_address else "localhost")
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
    """One open connection. After a call that raised it must be dropped, since the reply may still come.

    Commands are written directly, because those of the library rewrite and refuse addresses. One timer serves all
    deadlines, because most replies are here long before theirs.
    """

    def __init__(self, client: aiosmtplib.SMTP, reply_timeout_seconds: float) -> None:
        assert client.protocol is not None
        self._client = client
        self._protocol = client.protocol
        self._transport = cast("asyncio.Transport", client.transport)
        self._loop = asyncio.get_running_loop()
        self._reply_timeout_seconds = reply_timeout_seconds
        self._deadline = math.inf  # of the reply that is waited for, on the clock of the loop
        self._timer: asyncio.TimerHandle | None = None
        self._timed_out = False
        self.reused = False

    @property
    def alive(self) -> bool:
        """Whether the connection is open, as far as is known."""
        return self._client.is_connected

    async def command(self, line: bytes, positive: int = 2) -> SmtpReply:
        """Send one command and return its reply.

        ``positive`` is the first digit of the reply that means yes. Raises ``RelayUnavailable``, and as one kind
        of it ``ConnectionLost``.
        """
        if _CONTROL_CHARACTER.search(line):
            raise ValueError(f"a control character in {line!r}")
        reply = self._to_reply(await self._exchange(line + b"\r\n"), positive)
        if reply.code == 421 and self.reused:
            raise ConnectionLost("the next hop closed a kept connection with a 421")
        return reply

    async def send_content(self, stuffed_pieces: Sequence[bytes | memoryview]) -> SmtpReply:
        """Send the message with its final dot, after the 354, and return the reply.

        The next hop may refuse the message before its end. Raises ``RelayUnavailable``.
        """
        first, *rest = stuffed_pieces
        writing = self._loop.create_task(self._write_in_turns(rest)) if rest else None
        try:
            reply = self._to_reply(await self._exchange(first), 2)
            is_written = writing is None or (writing.done() and writing.result())
        finally:
            if writing:
                writing.cancel()
        if not is_written or self._transport.get_write_buffer_size():
            self.drop()
            if reply.accepted:
                raise RelayUnavailable("the next hop accepted a message before its end")
        return reply

    async def _write_in_turns(self, pieces: Sequence[bytes | memoryview]) -> bool:
        """Write the pieces and let other tasks run in between; return whether all of them were written.

        20 MB that are written at once are one step of the event loop, in which the kernel copies all of them.
        """
        try:
            for piece in pieces:
                view = memoryview(piece)
                for start in range(0, len(view), PIECE_BYTES):
                    await asyncio.sleep(0)
                    await wait_for_room(self._protocol)
                    self._write(view[start : start + PIECE_BYTES])
        except (aiosmtplib.SMTPException, OSError):
            return False  # the connection ended: whoever waits for the reply learns that
        return True

    def _write(self, data: bytes | memoryview) -> None:
        self._protocol.write(cast("bytes", data))  # a transport takes any bytes-like object

    async def _exchange(self, data: bytes | memoryview) -> aiosmtplib.SMTPResponse:
        self._deadline = self._loop.time() + self._reply_timeout_seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._reply_timeout_seconds, self._on_timer)
        try:
            # The library drops a reply that nobody waits for: nothing must be awaited before the read.
            self._write(data)
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
        """End the wait whose deadline has passed, or set the timer again for the reply that is waited for now."""
        self._timer = None
        left = self._deadline - self._loop.time()
        if left <= 0:
            self._timed_out = True
            self.drop()
        elif left < math.inf:
            self._timer = self._loop.call_later(left, self._on_timer)

    def quit(self) -> None:
        """Send QUIT and close without a wait for the reply."""
        if self.alive:
            self._protocol.write(b"QUIT\r\n")
        self._close()

    def drop(self) -> None:
        """Close, and send nothing that still waits to be sent: a message that was given up must not arrive."""
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
        if reply.code == 421:  # the server closes the connection after it, RFC 5321 3.8
            self.drop()
        return reply


def _ehlo_name(address: str) -> str:
    """Return our address as the argument of EHLO (RFC 5321 4.1.3); a name would need a look-up in the DNS."""
    return f"[IPv6:{address.partition('%')[0]}]" if ":" in address else f"[{address}]"
