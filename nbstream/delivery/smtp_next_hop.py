"""A next hop that is reached over SMTP (RFC 5321) or LMTP (RFC 2033), on connections that stay open.

Rules: a connection is lent to one transaction at a time. An idle connection may have died: nothing is delivered
before the final dot, and until then the transaction is repeated, once, on a new connection. Nothing is repeated
after a deadline that passed, nor after the dot.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from nbstream.delivery.next_hop import DataReplies, SmtpPath
from nbstream.delivery.next_hop_connection import (
    UNREACHABLE,
    ConnectionLost,
    NextHopConnection,
    NotOpened,
    SmtpServer,
    open_connection,
)
from nbstream.delivery.settings import RelaySettings
from nbstream.errors import RelayRefused, RelayUnavailable
from nbstream.mail.lines import PIECE_BYTES, line_spans, replace_leading_dots
from nbstream.wire.smtp_reply import SmtpReply

if TYPE_CHECKING:
    from ssl import SSLContext


# The connections to an SMTP or LMTP server: lent to transactions, kept open for a while, bounded in number.
#
# Rules: a connection is lent to one transaction at a time.


_MAX_CONNECTIONS = 200
_MAX_IDLE_SECONDS = 30.0


class ConnectionPool:
    """The connections to one next hop. The one that came back last is lent first."""

    def __init__(
        self, server: SmtpServer, relay: RelaySettings, max_connections: int, max_idle_seconds: float
    ) -> None:
        self.server, self.relay = server, relay
        self._max_idle_seconds = max_idle_seconds
        self._tls_context: SSLContext | None = None
        self._slots = asyncio.Semaphore(max_connections)
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
                async with asyncio.timeout(self.relay.connect_timeout_seconds):
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
        self._idle[connection] = loop.call_later(self._max_idle_seconds, self._close_expired, connection)

    def read_authorities_again(self) -> None:
        """Read the authorities again for the next connection; those that are open stay."""
        self._tls_context = None

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
        """Return a new connection that is ready for mail. Raises ``RelayUnavailable``."""
        if self._closed:
            raise RelayUnavailable("the relay is closed")
        try:
            async with asyncio.timeout(self.relay.connect_timeout_seconds):
                connection, self.features = await open_connection(
                    self.server, await self._context(), self.relay.reply_timeout_seconds
                )
        except TimeoutError as error:
            raise NotOpened(f"no way to {self.server}: no answer in time") from error
        return connection

    async def _context(self) -> SSLContext | None:
        """Return the context for TLS; one serves all connections, since reading the authorities takes long."""
        tls, context = self.server.tls, self._tls_context
        if tls and context is None:
            try:
                context = self._tls_context = await asyncio.to_thread(tls.make_context)
            except OSError as error:
                raise NotOpened(f"the certificates in {tls.ca_file} cannot be read: {error}") from error
        return context


# Offered while the next hop was never reached: mail for it gets a 451 anyway, while a client that misses SMTPUTF8
# or 8BITMIME would bounce the mail that needs them.
USUAL_FEATURES = frozenset({"8BITMIME", "DSN", "ENHANCEDSTATUSCODES", "PIPELINING", "SIZE", "SMTPUTF8"})

_CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")
_CONTROL_REFUSED = SmtpReply(501, "5.5.4 Control characters are not allowed in an address or a parameter")


class SmtpNextHop:
    """A server that speaks SMTP or LMTP; the deadlines are those of the section ``relay``."""

    def __init__(
        self,
        server: SmtpServer,
        relay: RelaySettings | None = None,
        *,
        max_connections: int = _MAX_CONNECTIONS,
        max_idle_seconds: float = _MAX_IDLE_SECONDS,
    ) -> None:
        self.server = server
        self.answers_each_recipient = server.lmtp
        self._pool = ConnectionPool(server, relay or RelaySettings(), max_connections, max_idle_seconds)

    async def features(self) -> frozenset[str]:
        """Return the keywords of the last EHLO; connect where there was none yet. Never raises."""
        if self._pool.features is None:
            await self.problem()
        return self._pool.features or USUAL_FEATURES

    async def begin(self, sender: SmtpPath) -> SmtpTransaction:
        """Send MAIL. Raises ``RelayRefused`` with the next hop's reply, or ``RelayUnavailable``."""
        transaction = SmtpTransaction(self._pool, await self._pool.lease())
        reply = await transaction.send_path(b"MAIL FROM:", sender)
        if not reply.accepted:
            transaction.end(keep=True)
            raise RelayRefused(reply.code, reply.text)
        return transaction

    async def problem(self) -> str | None:
        """Return None if the next hop answers in time; an idle connection is used where there is one."""
        if self._pool.all_lent:
            return None  # all of them were opened, and are in use
        try:
            async with asyncio.timeout(self._pool.relay.connect_timeout_seconds):
                transaction = SmtpTransaction(self._pool, await self._pool.lease())
                reply = await transaction.exchange(b"NOOP")
        except NotOpened as error:
            return error.problem
        except (RelayUnavailable, TimeoutError):
            return UNREACHABLE
        transaction.end(keep=True)
        return None if reply.accepted else UNREACHABLE

    def read_authorities_again(self) -> None:
        """Go by what the file of the authorities has now, from the next connection on."""
        self._pool.read_authorities_again()

    async def close(self) -> None:
        """Close the idle connections; a lent one is closed when it comes back."""
        self._pool.close()


class SmtpTransaction:
    """A message on its way, with the commands that the next hop has accepted, in case they have to be repeated."""

    def __init__(self, pool: ConnectionPool, connection: NextHopConnection) -> None:
        self._pool = pool
        self._connection: NextHopConnection | None = connection
        self._accepted_commands: list[bytes] = []

    async def rcpt(self, recipient: SmtpPath) -> SmtpReply:
        """Return the next hop's reply to one recipient, whatever it is. Raises ``RelayUnavailable``."""
        return await self.send_path(b"RCPT TO:", recipient)

    async def data(self, content: bytes, fields: bytes = b"") -> DataReplies:
        """Return the next hop's final replies, to DATA or to the message. Raises ``RelayUnavailable``."""
        try:
            stuffed_pieces = await dot_stuffed_pieces(content, fields)
            reply = await self.exchange(b"DATA", positive=3)
            if reply.code >= 400:
                await self.abort()
                return DataReplies((reply,))
            assert self._connection is not None
            recipient_count = len(self._accepted_commands) - 1  # the first one is MAIL
            replies = await self._connection.send_content(
                stuffed_pieces, recipient_count if self._pool.server.lmtp else 1
            )
        except BaseException:
            self.end(keep=False)
            raise
        self.end(keep=True)
        return DataReplies(replies)

    async def abort(self) -> None:
        """Reset the transaction and keep the connection, or else close it."""
        if self._connection is None:
            return
        keep = False
        try:
            async with asyncio.timeout(self._pool.relay.connect_timeout_seconds):
                keep = (await self._connection.command(b"RSET")).accepted
        except (RelayUnavailable, TimeoutError):
            pass  # the connection is closed, and that aborts too
        finally:
            self.end(keep=keep)

    async def send_path(self, verb: bytes, path: SmtpPath) -> SmtpReply:
        """Return the reply to MAIL or RCPT; an accepted command becomes part of the transaction."""
        line = verb + " ".join((f"<{path.address}>", *path.parameters)).encode("utf-8", "surrogateescape")
        if _CONTROL_CHARACTER.search(line):
            return _CONTROL_REFUSED
        reply = await self.exchange(line)
        if reply.accepted:
            self._accepted_commands.append(line)
        return reply

    async def exchange(self, line: bytes, positive: int = 2) -> SmtpReply:
        """Send one command and return its reply.

        A reused connection that turns out to be dead is replaced, once, and the accepted commands are repeated.
        """
        if self._connection is None:
            raise RelayUnavailable("the transaction has ended")
        try:
            try:
                return await self._connection.command(line, positive)
            except ConnectionLost:
                if not self._connection.reused:
                    raise
                self._connection.drop()
                self._connection = await self._pool.open()
                await self._repeat_commands(self._connection)
                return await self._connection.command(line, positive)
        except BaseException:
            self.end(keep=False)
            raise

    def end(self, *, keep: bool) -> None:
        """End the transaction: give the connection back, closed unless ``keep``."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not keep:
            connection.drop()
        self._pool.give_back(connection)

    async def _repeat_commands(self, connection: NextHopConnection) -> None:
        for line in self._accepted_commands:
            reply = await connection.command(line)
            if not reply.accepted:
                raise RelayUnavailable(f"the next hop took back what it had agreed to: {reply}")


async def dot_stuffed_pieces(content: bytes, fields: bytes) -> list[bytes | memoryview]:
    """Return the fields and the content as DATA carries them, with the final dot (RFC 5321 4.5.2).

    Other tasks run between two pieces of a large message. Pieces that need no dots are no copies.
    """
    end_of_data = b".\r\n" if not content or content.endswith(b"\r\n") else b"\r\n.\r\n"
    if len(content) <= PIECE_BYTES:  # as it usually is: one piece needs one packet, not several
        first_dot = b"." if content.startswith(b".") else b""
        return [b"".join((fields, first_dot, replace_leading_dots(content, b".."), end_of_data))]
    stuffed_pieces: list[bytes | memoryview] = [fields]
    view = memoryview(content)
    for start, end in line_spans(content):
        if content.startswith(b".", start):
            stuffed_pieces.append(b".")
        needs_dots = content.find(b"\r\n.", start, end) >= 0
        stuffed_pieces.append(content[start:end].replace(b"\r\n.", b"\r\n..") if needs_dots else view[start:end])
        if start:
            await asyncio.sleep(0)
    return [*stuffed_pieces, end_of_data]
