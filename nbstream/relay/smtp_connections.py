"""The connections to an SMTP or LMTP server: lent to transactions, kept open for a while, bounded in number.

Rules: a connection is lent to one transaction at a time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.errors import RelayUnavailable
from nbstream.relay.smtp_opening import NotOpened, open_connection

if TYPE_CHECKING:
    from ssl import SSLContext

    from nbstream.relay.next_hop_connection import NextHopConnection
    from nbstream.relay.smtp_server import SmtpServer


@dataclass(frozen=True, slots=True)
class NextHopLimits:
    """The deadlines, in seconds, and the bounds of the connections to a next hop."""

    connect_timeout_seconds: float = (
        10.0  # until it is ready for mail; also the longest wait for a free connection
    )
    reply_timeout_seconds: float = 300.0  # for one command; for a message the time to send it included
    max_idle_seconds: float = 30.0
    max_connections: int = 200


class ConnectionPool:
    """The connections to one next hop. The one that came back last is lent first."""

    def __init__(self, server: SmtpServer, limits: NextHopLimits) -> None:
        self.server, self.limits = server, limits
        self._tls_context: SSLContext | None = None
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
            async with asyncio.timeout(self.limits.connect_timeout_seconds):
                connection, self.features = await open_connection(
                    self.server, await self._context(), self.limits.reply_timeout_seconds
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
