"""The only file that touches private parts of aiosmtpd: its connection, with what nbstream needs and it lacks.

What is touched, and why (aiosmtpd 1.4):

- ``_handle_client`` is the task of a whole connection. Its end, however it comes, is the end of the session.
- ``_reset_timeout`` and ``_timeout_cb`` make a timer for each command, and close a silent connection, which waits
  for the client to read. Here one timer serves all deadlines, also ``last_deadline``, which no command moves, and
  what happens is ``idle_timeout_passed``.
- ``eof_received`` is public, but it cancels the session of a client that has closed only its side.
- ``_reader`` and ``_writer`` are the streams. Nothing public reads DATA in pieces, looks whether the next command
  is here, puts bytes back, or writes without a wait.
- The bytes in ``_reader`` that came before its TLS are handed to it: with uvloop they may come before anything can
  pause the transport.
- ``_reader._transport``, ``_writer._transport`` and ``_over_ssl`` are the transport below the streams, which TLS
  replaces. aiosmtpd's own STARTTLS drives a private class of asyncio, which uvloop does not have, sets no
  deadline, and before 1.4.6 answered what was sent before TLS as if it had come within it (CVE-2024-34083).

tests/listeners/smtp/test_aiosmtpd_seam.py fails when one of them is missing or does something else.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from typing import cast

from aiosmtpd.smtp import SMTP

_log = logging.getLogger(__name__)


class AiosmtpdConnection(SMTP):
    """A connection of aiosmtpd whose streams, idle time and end are in the hands of its subclass."""

    last_deadline = math.inf
    """See ``set_last_deadline``."""

    # The task of the connection

    async def _handle_client(self) -> None:
        try:
            await self.session_begins()
            await super()._handle_client()
        except ConnectionError:
            _log.debug("smtp: the client went away")
        finally:
            await self.session_ended()

    async def session_begins(self) -> None:
        """Nothing was sent yet: the greeting follows. Called once; ``ConnectionError`` ends the connection."""

    async def session_ended(self) -> None:
        """No command follows: the client or we have ended the connection. Called once, also when cancelled."""

    def eof_received(self) -> bool | None:
        """A client may close its side and still read: what it sent is answered first."""
        return asyncio.StreamReaderProtocol.eof_received(self)

    # The idle time

    def restart_idle_timer(self) -> None:
        """Give the client its whole idle time from now on."""
        self._reset_timeout()

    def stop_idle_timer(self) -> None:
        """Do not close a silent connection until ``restart_idle_timer`` is called."""
        self._idle_deadline = math.inf

    def idle_timeout_passed(self) -> None:
        """The client was silent for the whole idle time, or ``last_deadline`` has passed."""
        self.abort()

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
            self.idle_timeout_passed()

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

    async def start_tls(self, context: ssl.SSLContext, handshake_seconds: float, shutdown_seconds: float) -> None:
        """Go on within TLS, as its server. What is here already is the beginning of the handshake.

        Raises ``ConnectionError`` where the handshake fails or is not over in ``handshake_seconds``; the
        connection is closed then. When the connection is closed later, a client that does not end TLS in
        ``shutdown_seconds`` is dropped.
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
                ssl_handshake_timeout=handshake_seconds,
                ssl_shutdown_timeout=shutdown_seconds,
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
