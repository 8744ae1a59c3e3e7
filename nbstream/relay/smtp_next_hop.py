"""A next hop spoken to over SMTP (RFC 5321), on connections kept open between messages.

Rules: a command has one reply and one deadline; whatever ends the wait early, cancellation too, closes the
connection, so that a late reply never meets the next command. A connection is lent to one transaction at a
time. A kept one may have died while it waited: until the final dot nothing is delivered, so the transaction
is told again, once, to a fresh one. A deadline that passed is not tried again. After the dot nothing is.

Commands are written as bytes: the library's ``mail`` and ``rcpt`` rewrite addresses (source routes, comments)
and refuse non-ASCII parameters. Its ``data`` runs two regular expressions over the message: 50 MB held the
loop for 1.6 s, and 22 s where every line was a dot; written in pieces it is 10 ms with uvloop.
"""

from __future__ import annotations

import asyncio
import re

from nbstream.errors import RelayRefused, RelayUnavailable
from nbstream.mail.lines import split_at_line_ends
from nbstream.relay.next_hop import SmtpPath
from nbstream.relay.smtp_connections import ConnectionLost, ConnectionPool, NextHopConnection, NextHopLimits
from nbstream.wire.smtp_reply import SmtpReply

# Offered for a hop that was never seen: its mail gets 451 anyway, while a server that misses SMTPUTF8 or 8BITMIME
# would bounce what it cannot pass on.
USUAL_FEATURES = frozenset({"8BITMIME", "DSN", "ENHANCEDSTATUSCODES", "PIPELINING", "SIZE", "SMTPUTF8"})

_CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")
_CONTROL_REFUSED = SmtpReply(501, "5.5.4 Control characters are not allowed in an address or a parameter")


class SmtpNextHop:
    """The server at ``host`` and ``port``, over plain SMTP."""

    def __init__(self, host: str, port: int, params: NextHopLimits | None = None) -> None:
        self._limits = params or NextHopLimits()
        self._pool = ConnectionPool(host, port, self._limits)

    async def features(self) -> frozenset[str]:
        """The keywords of the last EHLO; asks for them when there was none yet. Never raises."""
        if self._pool.features is None:
            await self.reachable()
        return self._pool.features or USUAL_FEATURES

    async def begin(self, sender: SmtpPath) -> SmtpTransaction:
        """Send MAIL; raises RelayRefused with the hop's answer, or RelayUnavailable."""
        transaction = SmtpTransaction(self._pool, await self._pool.lease())
        reply = await transaction.send_path(b"MAIL FROM:", sender)
        if not reply.accepted:
            transaction.end(keep=True)
            raise RelayRefused(reply.code, reply.text)
        return transaction

    async def reachable(self) -> bool:
        """Whether the hop answers within the connect timeout; asked on a kept connection if there is one."""
        if self._pool.all_lent:
            return True  # they were opened, and are in use
        try:
            async with asyncio.timeout(self._limits.connect_timeout_seconds):
                transaction = SmtpTransaction(self._pool, await self._pool.lease())
                reply = await transaction.exchange(b"NOOP")
        except (RelayUnavailable, TimeoutError):
            return False
        transaction.end(keep=True)
        return reply.accepted

    async def close(self) -> None:
        """Close the kept connections; one that is lent is closed when it comes back."""
        self._pool.close()


class SmtpTransaction:
    """A message on its way. The commands that the hop agreed to are kept, to be told again."""

    def __init__(self, pool: ConnectionPool, connection: NextHopConnection) -> None:
        self._pool = pool
        self._connection: NextHopConnection | None = connection
        self._accepted_commands: list[bytes] = []

    async def rcpt(self, recipient: SmtpPath) -> SmtpReply:
        """The hop's answer to one recipient, whatever it is; raises RelayUnavailable."""
        return await self.send_path(b"RCPT TO:", recipient)

    async def data(self, content: bytes) -> SmtpReply:
        """The hop's final answer, to DATA or to the message; raises RelayUnavailable."""
        try:
            stuffed = await _dot_stuffed(content)
            reply = await self.exchange(b"DATA", positive=3)
            if reply.code >= 400:
                await self.abort()
                return reply
            assert self._connection is not None
            reply = await self._connection.send_content(stuffed)
        except BaseException:
            self.end(keep=False)
            raise
        self.end(keep=True)
        return reply

    async def abort(self) -> None:
        """Take the transaction back and keep the connection, or else close it."""
        if self._connection is None:
            return
        keep = False
        try:
            async with asyncio.timeout(self._pool.limits.connect_timeout_seconds):
                keep = (await self._connection.command(b"RSET")).accepted
        except (RelayUnavailable, TimeoutError):
            pass  # the connection is closed, and that aborts too
        finally:
            self.end(keep=keep)

    async def send_path(self, verb: bytes, path: SmtpPath) -> SmtpReply:
        """The hop's answer to MAIL or RCPT; one that it accepts is part of the transaction."""
        line = verb + " ".join((f"<{path.address}>", *path.parameters)).encode("utf-8", "surrogateescape")
        if _CONTROL_CHARACTER.search(line):
            return _CONTROL_REFUSED
        reply = await self.exchange(line)
        if reply.accepted:
            self._accepted_commands.append(line)
        return reply

    async def exchange(self, line: bytes, positive: int = 2) -> SmtpReply:
        """One command and its reply; a kept connection found dead is replaced once, and told all again."""
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
        """End the transaction: the connection goes back, closed unless it is to be kept."""
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


async def _dot_stuffed(content: bytes) -> list[bytes]:
    """The content as DATA carries it, final dot included (RFC 5321 4.5.2); others run between two pieces."""
    stuffed = []
    for piece in split_at_line_ends(content):
        dot = b"." if piece.startswith(b".") else b""
        stuffed.append(dot + piece.replace(b"\r\n.", b"\r\n.."))
        if len(stuffed) > 1:
            await asyncio.sleep(0)
    # In one piece with the last lines: of a usual message that is one packet, not two.
    last = stuffed.pop() if stuffed else b""
    stuffed.append(last + (b".\r\n" if not content or content.endswith(b"\r\n") else b"\r\n.\r\n"))
    return stuffed
