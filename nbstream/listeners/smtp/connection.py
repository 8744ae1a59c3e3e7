"""One SMTP connection below its commands: a connection of aiosmtpd whose session is ours.

Rules: replies to commands that came together are sent together. A client that reads nothing is dropped, and so
is one that sends no whole message for long, though it is never silent.

This is the only file that touches private parts of aiosmtpd (1.4):

- ``_smtp_methods`` are the commands: those of the session take the place of aiosmtpd's own.
- ``_handle_client`` is the task of a whole connection. Its end, however it comes, is the end of the session.
- ``_reset_timeout`` and ``_timeout_cb`` make a timer for each command, and close a silent connection, which waits
  for the client to read. Here one timer serves all deadlines, also ``last_deadline``, which no command moves, and
  the connection is dropped then.
- ``eof_received`` is public, but it cancels the session of a client that has closed only its side.
- ``_reader`` and ``_writer`` are the streams. Nothing public reads DATA in pieces, looks whether the next command
  is here, puts bytes back, or writes without a wait.
- The bytes in ``_reader`` that came before its TLS are handed to it: with uvloop they may come before anything can
  pause the transport.
- ``_reader._transport``, ``_writer._transport`` and ``_over_ssl`` are the transport below the streams, which TLS
  replaces. aiosmtpd's own STARTTLS drives a private class of asyncio, which uvloop does not have, sets no
  deadline, and before 1.4.6 answered what was sent before TLS as if it had come within it (CVE-2024-34083).

tests/listeners/smtp/test_connection.py fails when one of them is missing or does something else.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, AnyStr, Protocol, cast

from aiosmtpd.smtp import SMTP

from nbstream.server import smtp_replies

if TYPE_CHECKING:
    import ssl

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


class ConnectionSession(Protocol):
    """What a connection asks of its session, which stands above it."""

    @property
    def commands(self) -> Mapping[str, Callable[[Any], Awaitable[None]]]:
        """The commands by their names; NOOP, QUIT, HELP and EXPN are aiosmtpd's own."""

    def opened(self) -> None:
        """The client has connected."""

    def closed(self) -> None:
        """The connection is closed. That may be said twice."""

    async def begin(self) -> None:
        """Nothing was sent yet: the greeting follows. Called once; ``ConnectionError`` ends the connection."""

    async def end(self) -> None:
        """No command follows: the client or we have ended the connection. Called once, also when cancelled."""

    async def reply_to_fault(self, error: Exception) -> str:
        """Return the reply to a command that failed."""


class SmtpConnection(SMTP):
    """One connection: its streams, its times, its replies and its end. ``name`` is that of the listener."""

    # aiosmtpd makes it the limit of the reader, which is how much of DATA is read at a time.
    line_length_limit = _CHUNK_BYTES

    last_deadline = math.inf
    """See ``set_last_deadline``."""

    def __init__(
        self, session: ConnectionSession, name: str, hostname: str, ident: str, limits: ListenerLimits
    ) -> None:
        super().__init__(
            handler=None,
            hostname=hostname,
            ident=ident,
            enable_SMTPUTF8=True,
            data_size_limit=limits.max_message_bytes,
            timeout=limits.idle_timeout_seconds,
            loop=asyncio.get_running_loop(),
        )
        self._smtp_methods.update(session.commands)
        # aiosmtpd shares its own limits between all connections, and EHLO raises them.
        self.command_size_limit = _COMMAND_BYTES
        self.command_size_limits = collections.defaultdict(lambda: _COMMAND_BYTES)
        self.is_encrypted = False
        self.awaits_handshake = False
        """Whether the client's next bytes are those of TLS, so that plain text would only be taken for a fault."""
        self._served = session
        self._name = name
        self._message_timeout_seconds = limits.message_timeout_seconds
        self._unsent_replies, self._last_reply_at = b"", 0.0

    # The task of the connection, and the name of its client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a session."""
        self._allow_one_message()
        super().connection_made(transport)
        self._served.opened()

    def connection_lost(self, error: Exception | None) -> None:
        """End the session; aiosmtpd cancels its task."""
        super().connection_lost(error)
        self._served.closed()

    async def _handle_client(self) -> None:
        try:
            await self._served.begin()
            await super()._handle_client()
        except ConnectionError:
            _log.debug("smtp: the client went away")
        finally:
            await self._served.end()

    async def handle_exception(self, error: Exception) -> str:
        """Return the reply of the session to a command that failed."""
        return await self._served.reply_to_fault(error)

    @property
    def greeted_as(self) -> str | None:
        """The name that the client gave with HELO or EHLO; None before that."""
        return self.session.host_name if self.session else None

    def set_greeting(self, name: str | None, *, is_extended: bool = True) -> None:
        """Note the name that the client gave, and whether it may use extensions."""
        assert self.session is not None
        self.session.host_name = name
        self.session.extended_smtp = is_extended

    def eof_received(self) -> bool | None:
        """A client may close its side and still read: what it sent is answered first."""
        return asyncio.StreamReaderProtocol.eof_received(self)

    # The idle time

    def restart_idle_timer(self) -> None:
        """Give the client its whole idle time from now on."""
        self._reset_timeout()

    def stop_timers(self) -> None:
        """Let the client wait: what it waits for has deadlines of its own."""
        self._idle_deadline = math.inf
        self.set_last_deadline(math.inf)

    def restart_timers(self) -> None:
        """Give the client the whole time for its next command and for its next message."""
        self.restart_idle_timer()
        self._allow_one_message()

    def _allow_one_message(self) -> None:
        self.set_last_deadline(asyncio.get_running_loop().time() + self._message_timeout_seconds)

    def _reset_timeout(self, duration: float | None = None) -> None:
        # When the one timer rings it may have to ring again, later.
        self._idle_deadline = self.loop.time() + (duration or self._timeout_duration)
        if self._timeout_handle is None:
            self._start_timer()

    def set_last_deadline(self, deadline: float) -> None:
        """End the connection at this time of the loop whatever the client sends."""
        self.last_deadline = deadline
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
            self._start_timer()

    def _start_timer(self) -> None:
        left = min(self._idle_deadline, self.last_deadline) - self.loop.time()
        self._timeout_handle = self.loop.call_later(min(left, self._timeout_duration), self._timeout_cb)

    def _timeout_cb(self) -> None:
        if min(self._idle_deadline, self.last_deadline) > self.loop.time():
            self._start_timer()
        else:
            _log.info("%s: a client was silent for too long, or sent no whole message in time", self._name)
            self.abort()  # a close would keep the connection of a client that reads nothing

    # The streams

    @property
    def reader(self) -> asyncio.StreamReader:
        """What the client sends. Its limit is ``line_length_limit``."""
        return self._reader

    def has_line(self) -> bool:
        """Whether a whole line of the client is here already, so that the next command does not have to wait."""
        return b"\n" in _unread(self._reader)

    @property
    def has_unread(self) -> bool:
        """Whether the client has sent anything that was not read yet."""
        return bool(_unread(self._reader))

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Go on within TLS, as its server. What is here already is the beginning of the handshake.

        Raises ``ConnectionError`` where the handshake fails or takes too long; the connection is closed then.
        """
        loop = asyncio.get_running_loop()
        plain = cast("asyncio.Transport", self.transport)
        plain.pause_reading()
        unread = _unread(self._reader)
        begun = bytes(unread)
        unread.clear()
        handshake = loop.create_task(
            loop.start_tls(
                plain,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_TLS_SHUTDOWN_SECONDS,
            )
        )
        try:
            await asyncio.sleep(0)
            # The task has put TLS below this protocol, and scheduled that it begins and reads. What is scheduled
            # now comes after that, and before anything more is read.
            loop.call_soon(_feed, plain.get_protocol(), begun)
            encrypted = await handshake
        except OSError as error:  # of the client, of its certificates and ciphers (ssl.SSLError), or of its time
            raise ConnectionAbortedError(f"no TLS: {error}") from error
        finally:
            handshake.cancel()
        if encrypted is None or encrypted.is_closing():  # uvloop returns what is closed already
            raise ConnectionAbortedError("no TLS: the client went away")
        self.transport = self._transport = encrypted
        self._reader._transport = self._writer._transport = encrypted  # type: ignore[attr-defined]  # private
        self._over_ssl = True
        self.is_encrypted, self.awaits_handshake = True, False

    def unread(self, data: bytes) -> None:
        """Put ``data`` back: it is read again before anything else."""
        _unread(self._reader)[:0] = data

    def write(self, data: bytes) -> None:
        """Send ``data`` without a wait for the client to take it."""
        self._writer.write(data)

    def close(self) -> None:
        """Close the connection once what was written is sent."""
        self._writer.close()

    def abort(self) -> None:
        """Drop the connection, and what was written and is not sent."""
        self._writer.transport.abort()

    # The replies

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

    def close_for_shutdown(self) -> None:
        """Say that the daemon shuts down, and close the connection."""
        if self.transport is None or self.transport.is_closing():
            return
        if self.awaits_handshake:
            self.abort()
            return
        self.write(self._unsent_replies + smtp_replies.CLOSING.render() + b"\r\n")
        self.transport.close()

    async def send_reply(self, reply: SmtpReply, *, grouped: bool = False) -> None:
        """Send a reply; a grouped one waits for the reply to the next command if that is here (RFC 2920 3.2).

        No reply waits where none was sent for ``_TOGETHER_SECONDS``.
        """
        has_next = grouped and self.has_line()
        is_recent = time.monotonic() - self._last_reply_at < _TOGETHER_SECONDS
        if has_next and is_recent and len(self._unsent_replies) < _GROUPED_REPLY_BYTES:
            self._unsent_replies += reply.render() + b"\r\n"
        else:
            await self.push(reply.render())


def _unread(reader: asyncio.StreamReader) -> bytearray:
    """What has come and was not read: asyncio has no public way to look at it or to put something back."""
    buffer: bytearray = reader._buffer  # type: ignore[attr-defined]  # not in the stubs, since it is private
    return buffer


def _feed(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    """Let a protocol receive bytes as if its transport had read them."""
    receiver = cast("asyncio.BufferedProtocol", protocol)
    while data:
        buffer = memoryview(receiver.get_buffer(len(data)))
        size = min(len(buffer), len(data))
        buffer[:size], data = data[:size], data[size:]
        receiver.buffer_updated(size)
