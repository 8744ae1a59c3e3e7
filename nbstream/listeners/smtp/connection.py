"""One SMTP connection below its commands: who the client is, how replies are sent, and how the connection ends.

Rules: replies to commands that came together are sent together. A client that reads nothing is dropped,
and so is one that sends no whole message for long, though it is never silent.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import math
import re
import time
from typing import TYPE_CHECKING, AnyStr

from nbstream.listeners.smtp.aiosmtpd_seam import AiosmtpdConnection
from nbstream.server import smtp_replies
from nbstream.server.peers import Peer

if TYPE_CHECKING:
    import ssl

    from nbstream.listeners.smtp.listener_state import SmtpOptions
    from nbstream.server.connections import Connections
    from nbstream.server.limits import ListenerLimits
    from nbstream.wire.smtp_reply import SmtpReply

_log = logging.getLogger(__name__)

_UNSAFE = re.compile(r"[^\x20-\x7e]")
_CHUNK_BYTES = 64 * 1024
_COMMAND_BYTES = 4096  # 512 of RFC 5321, and room for the parameters of DSN (ORCPT: 500) and AUTH (500)
_GROUPED_REPLY_BYTES = 4096  # of replies that wait: the client has to take them before it gets more
_HANDSHAKE_SECONDS = 30.0
_TLS_SHUTDOWN_SECONDS = 5.0
_TOGETHER_SECONDS = 1.0  # the next hop may need long for each of 100 recipients, and the client sees no reply


class SmtpConnection(AiosmtpdConnection):
    """One connection: its client, its replies and its end."""

    # aiosmtpd makes it the limit of the reader, which is how much of DATA is read at a time.
    line_length_limit = _CHUNK_BYTES

    ident = "ESMTP nbstream"
    """The words of the greeting after the name of the host."""

    def __init__(self, limits: ListenerLimits, options: SmtpOptions, connections: Connections) -> None:
        super().__init__(
            handler=None,
            hostname=options.hostname,
            ident=self.ident,
            enable_SMTPUTF8=True,
            data_size_limit=limits.max_message_bytes,
            timeout=limits.idle_timeout_seconds,
            loop=asyncio.get_running_loop(),
        )
        # aiosmtpd shares its own limits between all connections, and EHLO raises them.
        self.command_size_limit = _COMMAND_BYTES
        self.command_size_limits = collections.defaultdict(lambda: _COMMAND_BYTES)
        self._message_timeout_seconds = limits.message_timeout_seconds
        self._unsent_replies, self._last_reply_at = b"", 0.0
        self._listener_name = options.listener_name
        self._connections = connections
        self._peer = Peer("")
        self._is_encrypted = False
        self._awaits_handshake = False
        """Whether the client's next bytes are those of TLS, so that plain text would only be taken for a fault."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note who the client is."""
        self._peer = self._connections.peer_of(transport)
        self._allow_one_message()
        super().connection_made(transport)

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Go on within TLS. Raises ``ConnectionError`` where the handshake fails."""
        await self.start_tls(context, _HANDSHAKE_SECONDS, _TLS_SHUTDOWN_SECONDS)
        self._is_encrypted, self._awaits_handshake = True, False

    def stop_timers(self) -> None:
        """Let the client wait: what it waits for has deadlines of its own."""
        self.stop_idle_timer()
        self.set_last_deadline(math.inf)

    def restart_timers(self) -> None:
        """Give the client the whole time for its next command and for its next message."""
        self.restart_idle_timer()
        self._allow_one_message()

    def _allow_one_message(self) -> None:
        self.set_last_deadline(asyncio.get_running_loop().time() + self._message_timeout_seconds)

    def idle_timeout_passed(self) -> None:
        """Drop a client whose time is over; one that reads nothing would keep a closed connection."""
        _log.info("%s: a client was silent for too long, or sent no whole message in time", self._listener_name)
        self.abort()

    async def push(self, status: AnyStr) -> None:
        """Send a reply, after those that wait to be sent, and let other connections run.

        Raises ``ConnectionError`` where the connection is closed; uvloop would raise a ``RuntimeError``.
        """
        if self.has_line():  # what is here already is read without a wait: 100 kB of NOOP would be one step
            await asyncio.sleep(0)
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError
        # A text is one line of aiosmtpd's own, which repeats an unknown command with its control characters.
        reply = status if isinstance(status, bytes) else _UNSAFE.sub("?", status).encode("ascii")
        unsent_replies, self._unsent_replies = self._unsent_replies, b""
        self._last_reply_at = time.monotonic()
        await super().push(unsent_replies + reply)

    def _close_for_shutdown(self) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if self._awaits_handshake:
            self.abort()
            return
        self.write(self._unsent_replies + smtp_replies.CLOSING.render() + b"\r\n")
        self.transport.close()

    async def _send_reply(self, reply: SmtpReply, *, grouped: bool = False) -> None:
        """Send a reply; a grouped one waits for the reply to the next command if that is here (RFC 2920 3.2).

        No reply waits where none was sent for ``_TOGETHER_SECONDS``.
        """
        has_next = grouped and self.has_line()
        is_recent = time.monotonic() - self._last_reply_at < _TOGETHER_SECONDS
        if has_next and is_recent and len(self._unsent_replies) < _GROUPED_REPLY_BYTES:
            self._unsent_replies += reply.render() + b"\r\n"
        else:
            await self.push(reply.render())
