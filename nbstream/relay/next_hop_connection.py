"""One connection to the next hop: commands with their replies and deadlines, and the message.

Rules: a command has one reply and one deadline; a message has one reply, or in LMTP one for each recipient.
Whatever ends the wait for a reply early, cancellation included, must end in ``drop``, so that a late reply is
never taken for the reply to the next command.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbstream.errors import RelayUnavailable
from nbstream.mail.lines import PIECE_BYTES
from nbstream.relay.smtp_stream import ConnectionLost, SmtpStream
from nbstream.wire.smtp_reply import MalformedReply, SmtpReply

if TYPE_CHECKING:
    from ssl import SSLContext

_CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")
_MISSING_REPLY = SmtpReply(451, "4.4.2 The next mail server went away before its answer for this recipient")


class NextHopConnection:
    """One open connection. After a call that raised it must be dropped, since the reply may still come.

    One timer serves all deadlines, because most replies are here long before theirs.
    """

    def __init__(self, stream: SmtpStream, reply_timeout_seconds: float) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._reply_timeout_seconds = reply_timeout_seconds
        self._deadline = math.inf  # of the reply that is waited for, on the clock of the loop
        self._timer: asyncio.TimerHandle | None = None
        self._timed_out = False
        self.reused = False

    @property
    def alive(self) -> bool:
        """Whether the connection is open and the next hop has said nothing unasked, as far as is known."""
        return self._stream.is_open and not self._stream.has_unread_bytes

    @property
    def own_address(self) -> str:
        """Our IP address on this connection; empty on a unix socket."""
        return self._stream.own_address

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of the next hop (DER); None outside of TLS."""
        return self._stream.peer_certificate

    async def greeting(self) -> SmtpReply:
        """Return the greeting. Raises ``RelayUnavailable``."""
        return await self._last_reply(2)

    async def start_tls(self, context: SSLContext, server_name: str) -> None:
        """Encrypt the connection from here on. Raises ``OSError`` or ``RelayUnavailable``."""
        await self._stream.start_tls(context, server_name)

    async def command(self, line: bytes, positive: int = 2) -> SmtpReply:
        """Send one command and return its reply.

        ``positive`` is the first digit of the reply that means yes. Raises ``RelayUnavailable``, and as one kind
        of it ``ConnectionLost``.
        """
        if _CONTROL_CHARACTER.search(line):
            raise ValueError("a control character in a command")
        self._write(line + b"\r\n")
        reply = await self._last_reply(positive)
        if reply.code == 421 and self.reused:
            raise ConnectionLost("the next hop closed a kept connection with a 421")
        return reply

    async def send_content(
        self, stuffed_pieces: Sequence[bytes | memoryview], reply_count: int = 1
    ) -> tuple[SmtpReply, ...]:
        """Send the message with its final dot, after the 354, and return its ``reply_count`` replies in order.

        The next hop may refuse the message before its end: then there is one reply for all recipients. If it goes
        away after some of the replies, those that it gave count, and the others are 451. Raises
        ``RelayUnavailable`` where it gives none.
        """
        first, *rest = stuffed_pieces
        self._write(first)
        writing = self._loop.create_task(self._write_in_turns(rest)) if rest else None
        try:
            replies = [await self._reply(2)]
            is_written = writing is None or (writing.done() and writing.result())
        finally:
            if writing:
                writing.cancel()
        if not is_written or self._stream.has_unsent_bytes:
            self.drop()
            if replies[0].accepted:
                raise RelayUnavailable("the next hop accepted a message before its end")
            return tuple(replies)
        try:
            while len(replies) < reply_count and replies[-1].code != 421:
                replies.append(await self._reply(2))
        except RelayUnavailable:
            self.drop()
        self._drop_if_unread()
        return (*replies, *[_MISSING_REPLY] * (reply_count - len(replies)))

    async def _write_in_turns(self, pieces: Sequence[bytes | memoryview]) -> bool:
        """Write the pieces and let other tasks run in between; return whether all of them were written.

        20 MB that are written at once are one step of the event loop, in which the kernel copies all of them.
        """
        try:
            for piece in pieces:
                view = memoryview(piece)
                for start in range(0, len(view), PIECE_BYTES):
                    await asyncio.sleep(0)
                    await self._stream.room()
                    self._stream.write(view[start : start + PIECE_BYTES])
        except ConnectionLost:
            return False  # whoever waits for the reply learns that
        return True

    def _write(self, data: bytes | memoryview) -> None:
        """Send what asks for a reply; what the next hop says before it is none."""
        if self._stream.has_unread_bytes:
            self.drop()
            raise ConnectionLost("the next hop spoke without being asked")
        self._stream.write(data)

    async def _last_reply(self, positive: int) -> SmtpReply:
        reply = await self._reply(positive)
        self._drop_if_unread()
        return reply

    async def _reply(self, positive: int) -> SmtpReply:
        self._deadline = self._loop.time() + self._reply_timeout_seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._reply_timeout_seconds, self._on_timer)
        try:
            reply = await self._stream.reply()
        except ConnectionLost as error:
            if self._timed_out:
                raise RelayUnavailable("no reply of the next hop in time") from error
            raise
        except MalformedReply as error:
            raise RelayUnavailable(f"no usable reply of the next hop: {error}") from error
        finally:
            self._deadline = math.inf
        if reply.code // 100 not in (positive, 4, 5):
            raise RelayUnavailable(f"the next hop answered out of turn: {reply}")
        if reply.code == 421:  # the server closes the connection after it, RFC 5321 3.8
            self.drop()
        return reply

    def _drop_if_unread(self) -> None:
        """Close where a reply more came at once, which would answer the next command."""
        if self._stream.has_unread_bytes:
            self.drop()

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
        if self._stream.is_open:
            self._stream.write(b"QUIT\r\n")
        self._cancel_timer()
        self._stream.close()

    def drop(self) -> None:
        """Close, and send nothing that still waits to be sent: a message that was given up must not arrive."""
        self._cancel_timer()
        self._stream.abort()

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
