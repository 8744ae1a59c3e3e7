"""The spamd door: what speaks to SpamAssassin's server speaks to this one, spamc and Exim's ``spam =`` among them.

Rules: one request a connection, which is closed behind the answer; a client may close its side first. What is
refused is told, and the rest of it passed over for a while, so that the client can read why. Connections, bytes in
memory, silence and the time to take an answer are bounded. A client that goes away stops no lesson that has begun.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from nbstream.listeners.byte_budget import ByteBudget
from nbstream.listeners.peers import Peer
from nbstream.listeners.spamd.handler import SpamdHandler
from nbstream.wire.spamd import (
    EX_TEMPFAIL,
    EX_TIMEOUT,
    EX_UNAVAILABLE,
    SpamdEvent,
    SpamdParser,
    SpamdRefusal,
    SpamdRequest,
    decompress,
)

if TYPE_CHECKING:
    from nbstream.listeners.message_service import MessageService
    from nbstream.listeners.runtime import Runtime

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 10.0  # for a client to read why it was refused
_UNKNOWN_HOST = "unknown"
_READ_LIMIT_FACTOR = 2  # times the permitted size is read of it
_BUSY = SpamdRefusal(EX_UNAVAILABLE, "Service Unavailable: too many connections")
_CLOSING = SpamdRefusal(EX_UNAVAILABLE, "Service Unavailable: closing down")
_NO_MEMORY = SpamdRefusal(EX_TEMPFAIL, "Too much mail at once, please try again later")
_SILENT = SpamdRefusal(EX_TIMEOUT, "Timeout: the request is not complete")


@dataclass(frozen=True, slots=True)
class SpamdLimits:
    """Limits of the door; bytes in flight are counted over all connections."""

    max_message_bytes: int = 50 << 20
    idle_timeout_seconds: float = 300
    max_connections: int = 200


class SpamdListener:
    """Accepts connections, and bounds what they use together."""

    def __init__(self, limits: SpamdLimits, byte_budget: ByteBudget, message_service: MessageService) -> None:
        self.limits = limits
        self.handler = SpamdHandler(message_service)
        self.connections: set[SpamdConnection] = set()
        self.byte_budget = byte_budget
        self.is_unix_socket = False
        self._message_service = message_service
        self._draining = False
        self._admitted_count = 0
        self._server: asyncio.Server | None = None
        self._no_connections = asyncio.Event()
        self._no_connections.set()

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets, of which there is one."""
        (listening,) = sockets
        loop = asyncio.get_running_loop()
        self.is_unix_socket = listening.family == socket.AF_UNIX
        create = loop.create_unix_server if self.is_unix_socket else loop.create_server
        self._server = await create(lambda: SpamdConnection(self), sock=listening)

    def apply(self, runtime: Runtime) -> None:
        """Go by ``runtime`` from the next request on."""
        self._message_service.apply(runtime)

    def admit(self, visit: SpamdConnection) -> SpamdRefusal | None:
        """Take a connection in, or say why not."""
        self.connections.add(visit)
        self._no_connections.clear()
        refusal = (
            _CLOSING if self._draining else _BUSY if self._admitted_count >= self.limits.max_connections else None
        )
        self._message_service.connected(accepted=refusal is None)
        self._admitted_count += refusal is None
        return refusal

    @property
    def is_crowded(self) -> bool:
        """Whether there is no place even for those that are to read why they were turned away."""
        return len(self.connections) - self._admitted_count > self.limits.max_connections

    def connection_closed(self, visit: SpamdConnection) -> None:
        """A connection is gone, and nothing is done for it any more."""
        self.connections.discard(visit)
        self._admitted_count -= visit.admitted
        if not self.connections:
            self._no_connections.set()

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let requests under way finish within ``seconds``, then close what is left."""
        self._draining = True
        if self._server is not None:
            self._server.close()
        for visit in list(self.connections):
            visit.close_if_idle()
        try:
            async with asyncio.timeout(seconds):
                await self._no_connections.wait()
        except TimeoutError:
            _log.warning("spamd: requests under way did not finish in %g s", seconds)
        for visit in list(self.connections):
            visit.abort()
        await self._no_connections.wait()  # those that were cancelled need a moment to end


class SpamdConnection(asyncio.Protocol):
    """One connection: bytes in, one answer out."""

    def __init__(self, door: SpamdListener) -> None:
        self._listener = door
        self._parser = SpamdParser(door.limits.max_message_bytes)
        self._reserved_bytes = self._received_bytes = 0
        self.admitted = False
        self._client_closed = self._answer_sent = self._disconnected = False
        self._refusal: SpamdRefusal | None = None
        self._answer_task: asyncio.Task[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless there are too many already."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        refusal = self._listener.admit(self)
        self.admitted = refusal is None
        if refusal:
            self._send_answer(refusal.render(), rest=not self._listener.is_crowded)
        else:
            self._set_timer(self._listener.limits.idle_timeout_seconds)

    def data_received(self, data: bytes) -> None:
        """More of the request, or of what is passed over."""
        self._received_bytes += len(data)
        if self._answer_sent or self._parser.done:
            if self._received_bytes > _READ_LIMIT_FACTOR * self._listener.limits.max_message_bytes:
                self.abort()
            return
        if self._answer_task is None:
            self._set_timer(self._listener.limits.idle_timeout_seconds)
        if not self._reserve_bytes(len(data)):
            self._refuse(_NO_MEMORY)
            return
        self._handle_events(self._parser.feed(data))

    def eof_received(self) -> bool:
        """The client has closed its side, and may still read."""
        self._client_closed = True
        if self._answer_sent:
            self._transport.close()
        else:
            self._handle_events(self._parser.end())
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone; work that has begun is finished."""
        self._disconnected = True
        if self._timer is not None:
            self._timer.cancel()
        self._close_if_done()

    def close_if_idle(self) -> None:
        """While draining: close now unless a request is under way."""
        if self._answer_sent:
            self._transport.close()
        elif not self._received_bytes:
            self._send_answer(_CLOSING.render(), rest=False)

    def abort(self) -> None:
        """Drop the connection, and what is done for it."""
        if self._answer_task is not None:
            self._answer_task.cancel()
        self._transport.abort()

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        if self._answer_sent:
            self.abort()
        else:
            self._refuse(_SILENT)

    def _reserve_bytes(self, count: int) -> bool:
        if not self._listener.byte_budget.reserve(count):
            return False
        self._reserved_bytes += count
        return True

    def _handle_events(self, events: list[SpamdEvent]) -> None:
        for event in events:
            if isinstance(event, SpamdRefusal):
                self._refuse(event)
            elif self._refusal is None:
                # What has come with it may be refused yet: the work begins after that.
                self._answer_task = asyncio.get_running_loop().create_task(self._answer_unless_refused(event))
                self._answer_task.add_done_callback(self._on_answer_done)
                if self._timer is not None:
                    self._timer.cancel()  # what follows has deadlines of its own; it is the client who waits now

    def _refuse(self, refusal: SpamdRefusal) -> None:
        """Tell it, now or instead of the answer that is being made."""
        self._refusal = self._refusal or refusal
        self._parser.discard_rest()
        if self._answer_task is None:
            _log.info("spamd: a request was refused: %s", refusal.text)
            self._send_answer(refusal.render(), rest=True)

    async def _answer_unless_refused(self, request: SpamdRequest) -> bytes:
        return await self._make_answer(request) if self._refusal is None else b""

    def _on_answer_done(self, work: asyncio.Task[bytes]) -> None:
        """Say it; of work that was cancelled, even before it began, nothing."""
        self._answer_task = None
        answer = b""
        try:
            answer = b"" if work.cancelled() else work.result()
        finally:
            if self._refusal is not None:
                self._refuse(self._refusal)
            else:
                self._send_answer(answer, rest=False)
            self._close_if_done()

    async def _make_answer(self, request: SpamdRequest) -> bytes:
        body = request.body
        if request.compressed:
            pieces: list[bytes] = []
            for piece in decompress(body, self._listener.limits.max_message_bytes):
                if isinstance(piece, SpamdRefusal) or not self._reserve_bytes(len(piece)):
                    self._refusal = piece if isinstance(piece, SpamdRefusal) else _NO_MEMORY
                    return b""
                pieces.append(piece)
                await asyncio.sleep(0)  # a piece takes a millisecond
            body = b"".join(pieces)
        return await self._listener.handler.handle(request, body, self._peer())

    def _peer(self) -> Peer:
        if self._listener.is_unix_socket:
            return Peer()
        name = self._transport.get_extra_info("peername")  # uvloop has none of a client that is gone
        return Peer(str(name[0]) if isinstance(name, tuple) and name else _UNKNOWN_HOST)

    def _send_answer(self, answer: bytes, *, rest: bool) -> None:
        """Say the last of this connection; ``rest``: more may come, which is passed over until the client ends."""
        if self._answer_sent or self._disconnected or self._transport.is_closing():
            return
        self._answer_sent = True
        self._transport.write(answer)
        if rest and not self._client_closed:
            self._release_bytes()
            self._transport.write_eof()
            self._set_timer(_PATIENCE_SECONDS)
        else:
            self._set_timer(self._listener.limits.idle_timeout_seconds)
            self._transport.close()

    def _release_bytes(self) -> None:
        self._listener.byte_budget.release(self._reserved_bytes)
        self._reserved_bytes = 0

    def _close_if_done(self) -> None:
        if self._disconnected and self._answer_task is None:
            self._release_bytes()
            self._listener.connection_closed(self)
