"""The spamd door: what speaks to SpamAssassin's server speaks to this one, spamc and Exim's ``spam =`` among them.

Rules: one request a connection, which is closed behind the answer; a client may close its side first. What is
refused is told, and the rest of it passed over for a while, so that the client can read why. Connections, bytes in
memory, silence and the time to take an answer are bounded. A client that goes away stops no lesson that has begun.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from nbstream.listeners.spamd.handler import NAME, Answers, Peer
from nbstream.listeners.spamd.handler import Params as AnswerParams
from nbstream.wire.spamd import (
    EX_TEMPFAIL,
    EX_TIMEOUT,
    EX_UNAVAILABLE,
    Event,
    Parser,
    Refusal,
    Request,
    unpack,
)

if TYPE_CHECKING:
    from nbstream.filter import Filter
    from nbstream.listeners.message_service import DeskObserver

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 10.0  # for a client to read why it was refused
_GONE = "unknown"
_PATIENCE = 2  # times the permitted size is read of it
_BUSY = Refusal(EX_UNAVAILABLE, "Service Unavailable: too many connections")
_CLOSING = Refusal(EX_UNAVAILABLE, "Service Unavailable: closing down")
_NO_MEMORY = Refusal(EX_TEMPFAIL, "Too much mail at once, please try again later")
_SILENT = Refusal(EX_TIMEOUT, "Timeout: the request is not complete")


@dataclass(frozen=True, slots=True)
class Params:
    """Limits of the door; bytes in flight are counted over all connections."""

    answers: AnswerParams
    max_message_bytes: int = 50 << 20
    idle_timeout_seconds: float = 300
    max_connections: int = 200
    max_bytes_in_flight: int = 256 << 20


@dataclass(slots=True)
class _Budget:
    """Bytes in memory, over all connections."""

    limit: int
    used: int = field(default=0)

    def reserve(self, count: int) -> bool:
        if self.used + count > self.limit:
            return False
        self.used += count
        return True


class SpamdListener:
    """Accepts connections, and bounds what they use together.

    ``spam_filter`` and ``params`` may be replaced at any time: the next request goes by the new ones.
    """

    def __init__(self, spam_filter: Filter, params: Params, observer: DeskObserver) -> None:
        self.spam_filter = spam_filter
        self.params = params
        self.visits: set[Visit] = set()
        self.budget = _Budget(params.max_bytes_in_flight)
        self.local = False
        self._observer = observer
        self._draining = False
        self._served = 0
        self._server: asyncio.Server | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def answers(self) -> Answers:
        """What answers the request that is complete now."""
        return Answers(self.spam_filter, self.params.answers, self._observer)

    async def start(self, listening: socket.socket) -> None:
        """Serve on this socket."""
        loop = asyncio.get_running_loop()
        self.local = listening.family == socket.AF_UNIX
        create = loop.create_unix_server if self.local else loop.create_server
        self._server = await create(lambda: Visit(self), sock=listening)

    def admit(self, visit: Visit) -> Refusal | None:
        """Take a connection in, or say why not."""
        self.visits.add(visit)
        self._empty.clear()
        refusal = _CLOSING if self._draining else _BUSY if self._served >= self.params.max_connections else None
        self._observer.connected(NAME, refusal is None)
        self._served += refusal is None
        return refusal

    @property
    def crowded(self) -> bool:
        """Whether there is no place even for those that are to read why they were turned away."""
        return len(self.visits) - self._served > self.params.max_connections

    def left(self, visit: Visit) -> None:
        """A connection is gone, and nothing is done for it any more."""
        self.visits.discard(visit)
        self._served -= visit.admitted
        if not self.visits:
            self._empty.set()

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let requests under way finish within ``seconds``, then close what is left."""
        self._draining = True
        if self._server is not None:
            self._server.close()
        for visit in list(self.visits):
            visit.leave_if_idle()
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            _log.warning("spamd: requests under way did not finish in %g s", seconds)
        for visit in list(self.visits):
            visit.abort()
        await self._empty.wait()  # those that were cancelled need a moment to end


class Visit(asyncio.Protocol):
    """One connection: bytes in, one answer out."""

    def __init__(self, door: SpamdListener) -> None:
        self._door = door
        self._parser = Parser(door.params.max_message_bytes)
        self._reserved = self._received = 0
        self.admitted = False
        self._ended = self._said = self._lost = False
        self._refused: Refusal | None = None
        self._work: asyncio.Task[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless there are too many already."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        refusal = self._door.admit(self)
        self.admitted = refusal is None
        if refusal:
            self._say(refusal.render(), rest=not self._door.crowded)
        else:
            self._wait(self._door.params.idle_timeout_seconds)

    def data_received(self, data: bytes) -> None:
        """More of the request, or of what is passed over."""
        self._received += len(data)
        if self._said or self._parser.done:
            if self._received > _PATIENCE * self._door.params.max_message_bytes:
                self.abort()
            return
        if self._work is None:
            self._wait(self._door.params.idle_timeout_seconds)
        if not self._reserve(len(data)):
            self._refuse(_NO_MEMORY)
            return
        self._take(self._parser.feed(data))

    def eof_received(self) -> bool:
        """The client has closed its side, and may still read."""
        self._ended = True
        if self._said:
            self._transport.close()
        else:
            self._take(self._parser.end())
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone; work that has begun is finished."""
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
        self._left_if_done()

    def leave_if_idle(self) -> None:
        """While draining: close now unless a request is under way."""
        if self._said:
            self._transport.close()
        elif not self._received:
            self._say(_CLOSING.render(), rest=False)

    def abort(self) -> None:
        """Drop the connection, and what is done for it."""
        if self._work is not None:
            self._work.cancel()
        self._transport.abort()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._out_of_time)

    def _out_of_time(self) -> None:
        if self._said:
            self.abort()
        else:
            self._refuse(_SILENT)

    def _reserve(self, count: int) -> bool:
        if not self._door.budget.reserve(count):
            return False
        self._reserved += count
        return True

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Refusal):
                self._refuse(event)
            elif self._refused is None:
                # What has come with it may be refused yet: the work begins after that.
                self._work = asyncio.get_running_loop().create_task(self._answer(event))
                self._work.add_done_callback(self._answered)
                if self._timer is not None:
                    self._timer.cancel()  # what follows has deadlines of its own; it is the client who waits now

    def _refuse(self, refusal: Refusal) -> None:
        """Tell it, now or instead of the answer that is being made."""
        self._refused = self._refused or refusal
        self._parser.drop()
        if self._work is None:
            _log.info("spamd: a request was refused: %s", refusal.text)
            self._say(refusal.render(), rest=True)

    async def _answer(self, request: Request) -> bytes:
        return await self._made(request) if self._refused is None else b""

    def _answered(self, work: asyncio.Task[bytes]) -> None:
        """Say it; of work that was cancelled, even before it began, nothing."""
        self._work = None
        answer = b""
        try:
            answer = b"" if work.cancelled() else work.result()
        finally:
            if self._refused is not None:
                self._refuse(self._refused)
            else:
                self._say(answer, rest=False)
            self._left_if_done()

    async def _made(self, request: Request) -> bytes:
        body = request.body
        if request.packed:
            pieces: list[bytes] = []
            for piece in unpack(body, self._door.params.max_message_bytes):
                if isinstance(piece, Refusal) or not self._reserve(len(piece)):
                    self._refused = piece if isinstance(piece, Refusal) else _NO_MEMORY
                    return b""
                pieces.append(piece)
                await asyncio.sleep(0)  # a piece takes a millisecond
            body = b"".join(pieces)
        return await self._door.answers.answer(request, body, self._peer())

    def _peer(self) -> Peer:
        if self._door.local:
            return Peer()
        name = self._transport.get_extra_info("peername")  # uvloop has none of a client that is gone
        return Peer(str(name[0]) if isinstance(name, tuple) and name else _GONE)

    def _say(self, answer: bytes, *, rest: bool) -> None:
        """Say the last of this connection; ``rest``: more may come, which is passed over until the client ends."""
        if self._said or self._lost or self._transport.is_closing():
            return
        self._said = True
        self._transport.write(answer)
        if rest and not self._ended:
            self._release()
            self._transport.write_eof()
            self._wait(_PATIENCE_SECONDS)
        else:
            self._wait(self._door.params.idle_timeout_seconds)
            self._transport.close()

    def _release(self) -> None:
        self._door.budget.used -= self._reserved
        self._reserved = 0

    def _left_if_done(self) -> None:
        if self._lost and self._work is None:
            self._release()
            self._door.left(self)
