"""One SMTP connection below its commands: lines and content in, replies out, TLS, and deadlines.

Rules: replies to commands that came together are sent together. A client that reads nothing is dropped, and so
is one that sends no whole message for long, though it is never silent. What is here already is read without a
wait, but between two commands every other task may run.

One timer serves all deadlines: when it rings it may have to ring again, later. What came is in one buffer, and
replies go to the transport at once: the streams of asyncio cost as much as the rest of a command.

A command is a method ``smtp_*``, as in aiosmtpd. This is the only file that touches private parts of it (1.4):

- ``_smtp_methods`` are these methods by the names of the commands.
- ``_handle_client`` is the task of a whole connection, with the loop over its commands. It reads a stream, and
  looks at each line for options that are off here. Its end, however it comes, is the end of the session.
- ``_reset_timeout``, ``_timeout_cb``, ``_timeout_handle`` and ``_timeout_duration`` make a timer for each command,
  and close a silent connection, which waits for the client to read. Here the connection is dropped then.
- aiosmtpd's own STARTTLS drives a private class of asyncio, which uvloop does not have, sets no deadline, and
  before 1.4.6 answered what was sent before TLS as if it had come within it (CVE-2024-34083).

tests/listeners/smtp/test_connection.py fails when one of them is missing or does something else.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from typing import TYPE_CHECKING, AnyStr, cast

from aiosmtpd.smtp import SMTP

from nbstream.delivery.next_hop import SmtpReply
from nbstream.server import smtp_replies

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from nbstream.server.limits import ListenerLimits

_log = logging.getLogger(__name__)

_UNSAFE = re.compile(r"[^\x20-\x7e]")
_CHUNK_BYTES = 64 * 1024  # of a line or of content whose end has not come
_MAX_UNREAD_BYTES = 2 * _CHUNK_BYTES
_COMMAND_BYTES = 4096  # 512 of RFC 5321, and room for the parameters of DSN (ORCPT: 500) and AUTH (500)
_MAX_UNKNOWN_COMMANDS = 5
_GROUPED_REPLY_BYTES = 4096  # of replies that wait: the client has to take them before it gets more
_HANDSHAKE_SECONDS = 30.0
_TLS_SHUTDOWN_SECONDS = 5.0
_TOGETHER_SECONDS = 1.0  # the next hop may need long for each of 100 recipients, and the client sees no reply


class SmtpConnection(SMTP):
    """One connection: its bytes, its times, its replies and its end. ``name`` is that of the listener."""

    last_deadline = math.inf
    """See ``set_last_deadline``."""

    def __init__(self, name: str, hostname: str, ident: str, limits: ListenerLimits) -> None:
        super().__init__(
            handler=None,
            hostname=hostname,
            ident=ident,
            enable_SMTPUTF8=True,
            timeout=limits.idle_timeout_seconds,
            loop=asyncio.get_running_loop(),
        )
        self.is_encrypted = False
        self.awaits_handshake = False
        """Whether the client's next bytes are those of TLS, so that plain text would only be taken for a fault."""
        self._open_transport: asyncio.Transport
        self._name = name
        self._message_timeout_seconds = limits.message_timeout_seconds
        self._unknown_commands = 0
        self._unread = bytearray()
        self._news: asyncio.Future[None] | None = None
        self._at_end = self._is_paused = False
        self._room = asyncio.Event()
        self._room.set()
        self._unsent_replies, self._last_reply_at = b"", 0.0
        self._idle_deadline = self._rings_at = math.inf

    def __dir__(self) -> Iterable[str]:
        """Name the commands alone: aiosmtpd looks at each attribute of each connection, which takes 0.1 ms."""
        return [name for name in dir(type(self)) if name.startswith("smtp_")]

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a session."""
        self._open_transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._allow_one_message()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Keep what the client sent until it is read."""
        self._unread += data
        if len(self._unread) > _MAX_UNREAD_BYTES and not self._is_paused:
            self._is_paused = True
            self._open_transport.pause_reading()
        self._wake_reader()

    def eof_received(self) -> bool:
        """A client may close its side and still read: what it sent is answered first."""
        self._at_end = True
        self._wake_reader()
        return not self.is_encrypted  # TLS has no half of a connection

    def pause_writing(self) -> None:
        """Let replies wait."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let replies go on."""
        self._room.set()

    def _wake_reader(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # The task of the connection

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closed, or will be once what was written is sent."""
        return self._open_transport.is_closing()

    async def _handle_client(self) -> None:
        try:
            await self.begin()
            await self.push(f"220 {self.hostname} {self.__ident__}")
            while not self.is_closing:
                await self._serve_command()
        except (ConnectionError, EOFError):
            _log.debug("smtp: the client went away")
        finally:
            self.close()
            await self.end()

    async def begin(self) -> None:
        """Nothing was sent yet: the greeting follows. ``ConnectionError`` ends the connection."""

    async def end(self) -> None:
        """No command follows: the client or we have ended the connection. Called once, also when cancelled."""

    async def _serve_command(self) -> None:
        line, is_whole = await self.read_until(b"\n")
        has_ended = is_whole
        while not has_ended:
            _, has_ended = await self.read_until(b"\n")
        line = line.rstrip(b"\r\n")
        verb, _, argument = line.partition(b" ")
        if not (line and verb.isascii()):
            await self.push("500 Error: bad syntax")
        elif not is_whole or len(line) > _COMMAND_BYTES:
            await self.push("500 Command line too long")
        elif (command := self._smtp_methods.get(name := verb.decode().upper())) is None:
            await self._refuse_unknown(name)
        else:
            self._reset_timeout()
            try:
                await command(argument.strip().decode("utf-8", "surrogateescape") if argument else None)
            except (ConnectionError, EOFError):
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the command gets a reply
                await self.push((await self.handle_exception(error)).encode("ascii"))

    async def _refuse_unknown(self, name: str) -> None:
        self._unknown_commands += 1
        if self._unknown_commands < _MAX_UNKNOWN_COMMANDS:
            await self.push(f'500 Error: command "{name}" not recognized')
        else:
            await self.push("502 5.5.1 Too many unrecognized commands, goodbye.")
            self.close()

    # The deadlines

    def restart_idle_timer(self) -> None:
        """Give the client its whole idle time from now on."""
        self._reset_timeout()

    def stop_timers(self) -> None:
        """Let the client wait: what it waits for has deadlines of its own."""
        self._idle_deadline = self.last_deadline = math.inf

    def restart_timers(self) -> None:
        """Give the client the whole time for its next command and for its next message."""
        self.restart_idle_timer()
        self._allow_one_message()

    def _allow_one_message(self) -> None:
        self.set_last_deadline(self.loop.time() + self._message_timeout_seconds)

    def _reset_timeout(self, duration: float | None = None) -> None:
        self._idle_deadline = self.loop.time() + (duration or self._timeout_duration)
        if self._idle_deadline < self._rings_at:
            self._set_timer()

    def set_last_deadline(self, deadline: float) -> None:
        """End the connection at this time of the loop whatever the client sends."""
        self.last_deadline = deadline
        self._set_timer()

    def _set_timer(self) -> None:
        """Let the timer ring at the next deadline; one that rings before it stays as it is."""
        due = min(self._idle_deadline, self.last_deadline)
        if due >= self._rings_at:
            return
        if self._timeout_handle is not None:
            self._timeout_handle.cancel()
        self._rings_at = due
        self._timeout_handle = self.loop.call_at(due, self._timeout_cb)

    def _timeout_cb(self) -> None:
        self._rings_at = math.inf
        if min(self._idle_deadline, self.last_deadline) > self.loop.time():
            self._set_timer()
        else:
            _log.info("%s: a client was idle for too long, or did not send a complete message in time", self._name)
            self.abort()  # a close would keep the connection of a client that reads nothing

    # What the client sends

    @property
    def has_line(self) -> bool:
        """Whether a whole line of the client is here already, so that the next command does not have to wait."""
        return b"\n" in self._unread

    @property
    def has_unread(self) -> bool:
        """Whether the client has sent anything that was not read yet."""
        return bool(self._unread)

    def unread(self, data: bytes) -> None:
        """Put ``data`` back: it is read again before anything else."""
        self._unread[:0] = data

    async def read_until(self, end: bytes) -> tuple[bytes, bool]:
        """Return what the client sends until ``end``, with it, and True; or the beginning of it, and False.

        There is a beginning of 64 kB at least once so much has come. Raises ``EOFError`` where the client has
        closed its side before the end.
        """
        unread, searched = self._unread, 0
        while (found := unread.find(end, searched)) < 0:
            searched = max(0, len(unread) - len(end) + 1)
            if searched > _CHUNK_BYTES:
                return self._take(searched), False
            await self._more()
        return self._take(found + len(end)), True

    def _take(self, size: int) -> bytes:
        data = bytes(memoryview(self._unread)[:size])
        del self._unread[:size]
        return data

    async def _more(self) -> None:
        """Wait until the client has sent more."""
        if self._at_end:
            raise EOFError
        if self._is_paused:
            self._is_paused = False
            self._open_transport.resume_reading()
        self._news = self.loop.create_future()
        try:
            await self._news
        finally:
            self._news = None

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Go on within TLS, as its server. What is here already is the beginning of the handshake.

        Raises ``ConnectionError`` where the handshake fails or takes too long; the connection is closed then.
        """
        plain = self._open_transport
        plain.pause_reading()
        begun = self._take(len(self._unread))
        self._is_paused = False
        handshake = self.loop.create_task(
            self.loop.start_tls(
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
            # now comes after that, and before anything more is read. With uvloop bytes may come before anything
            # can pause the transport.
            self.loop.call_soon(_feed, plain.get_protocol(), begun)
            encrypted = await handshake
        except OSError as error:  # of the client, of its certificates and ciphers (ssl.SSLError), or of its time
            raise ConnectionAbortedError(f"no TLS: {error}") from error
        finally:
            handshake.cancel()
        if encrypted is None or encrypted.is_closing():  # uvloop returns what is closed already
            raise ConnectionAbortedError("no TLS: the client went away")
        self.transport = self._open_transport = encrypted
        self.is_encrypted, self.awaits_handshake = True, False
        if self._is_paused:  # much came with the end of the handshake, and paused what is below TLS now
            plain.resume_reading()
            encrypted.pause_reading()

    # What the client gets

    async def send_reply(self, reply: SmtpReply, *, grouped: bool = False) -> None:
        """Send a reply; a grouped one waits for the reply to the next command if that is here (RFC 2920 3.2).

        No reply waits where none was sent for ``_TOGETHER_SECONDS``. Raises ``ConnectionError``.
        """
        if grouped and self.has_line:
            is_recent = time.monotonic() - self._last_reply_at < _TOGETHER_SECONDS
            if is_recent and len(self._unsent_replies) < _GROUPED_REPLY_BYTES:
                self._unsent_replies += reply.render() + b"\r\n"
                return
        await self.push(reply.render())

    async def push(self, status: AnyStr) -> None:
        """Send a reply, after those that wait to be sent, and let other connections run.

        Raises ``ConnectionError`` where the connection is closed; uvloop would raise a ``RuntimeError``.
        """
        if self.has_line:  # what is here already is read without a wait: 100 kB of NOOP would be one step
            await asyncio.sleep(0)
        transport = self._open_transport
        if transport.is_closing():
            raise ConnectionResetError
        # A text is one line, which may repeat an unknown command with its control characters.
        reply = status if isinstance(status, bytes) else _UNSAFE.sub("?", status).encode("ascii")
        unsent_replies, self._unsent_replies = self._unsent_replies, b""
        self._last_reply_at = time.monotonic()
        transport.write(unsent_replies + reply + b"\r\n")
        if not self._room.is_set():
            await self._room.wait()

    def close_for_shutdown(self) -> None:
        """Say that the daemon shuts down, and close the connection."""
        if self.is_closing:
            return
        if self.awaits_handshake:
            self.abort()
            return
        self._open_transport.write(self._unsent_replies + smtp_replies.CLOSING.render() + b"\r\n")
        self.close()

    def close(self) -> None:
        """Close the connection once what was written is sent."""
        self._open_transport.close()

    def abort(self) -> None:
        """Drop the connection, and what was written and is not sent."""
        self._open_transport.abort()


def _feed(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    """Let a protocol receive bytes as if its transport had read them."""
    receiver = cast("asyncio.BufferedProtocol", protocol)
    while data:
        buffer = memoryview(receiver.get_buffer(len(data)))
        size = min(len(buffer), len(data))
        buffer[:size], data = data[:size], data[size:]
        receiver.buffer_updated(size)
