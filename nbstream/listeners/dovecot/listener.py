"""The listener for Dovecot: takes a message, puts it into the spool, and answers.

Rules:

- A connection has one message. It is answered after the client has closed its side, because the protocol marks the
  end of a message in no other way. A client that is gone by then may have sent half a message, which is not taken.
- A client is answered that its message was taken when the message is on the disk, and before it is learned.
- The kernel says which user of this machine connects. The client may name the user whose mail it is only if its
  own user is one of the trusted ones; else it reports for itself.
- Connections, bytes in memory, time without data and the time of a whole request are bounded.
"""

from __future__ import annotations

import asyncio
import logging
import select
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from nbstream.listeners.dovecot.codec import ACCEPTED, REFUSED, ScriptParser, ScriptRefusal, ScriptRequest
from nbstream.listeners.dovecot.learner import SpoolLearner, SpoolMetrics
from nbstream.listeners.dovecot.spool import SpooledFeedback
from nbstream.logs import event_fields
from nbstream.mail.lines import is_blank
from nbstream.policy.feedback_source import actor_of_user, user_of_actor
from nbstream.server.connections import Peer, StreamConnection
from nbstream.server.limits import Reservation
from nbstream.system_users import actor_of_system_user, peer_user

if TYPE_CHECKING:
    import socket

    from nbstream.listeners.dovecot.spool import Spool
    from nbstream.server.background import BackgroundTasks
    from nbstream.server.message_service import MessageService
    from nbstream.server.runtime import Runtime

_log = logging.getLogger(__name__)

_READ_BYTES = 256 << 10
_ANSWER_SECONDS = 10.0
_MEASURE_SECONDS = 2.0
_FEEDBACK_ADDRESS = 1  # the place of the address among the arguments; the one before it is for nbstream-report


class DovecotListener:
    """Takes messages into the spool, and learns from it.

    ``trusted_users`` are the numbers of the system users who may name the user whose mail they report.
    """

    def __init__(
        self,
        service: MessageService,
        trusted_users: frozenset[int],
        spool: Spool,
        observer: SpoolMetrics,
        background: BackgroundTasks,
    ) -> None:
        self.service = service
        self._trusted_users = trusted_users
        self._spool = spool
        self._observer = observer
        self._learner = SpoolLearner(spool, service, observer)
        self._background = background
        self._learning: asyncio.Task[None] | None = None
        self.connections = service.connections()

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets, and learn from the spool."""
        make = partial(DovecotConnection, self)
        await self.connections.listen_with_streams(sockets, make, _READ_BYTES, REFUSED)
        self._learning = asyncio.create_task(self._learner.run(), name="spool: learning")
        self._background.every("spool backlog", _MEASURE_SECONDS, self._learner.measure)

    def apply(self, runtime: Runtime) -> None:
        """Use ``runtime`` from the next message on."""
        self.service.apply(runtime)

    async def drain(self, seconds: float) -> None:
        """Stop accepting, finish what is in hand within ``seconds``, then close; what waits stays in the spool."""
        self._learner.drain()
        await asyncio.gather(self.connections.drain(seconds), self._end_learning(seconds))

    async def _end_learning(self, seconds: float) -> None:
        if self._learning is None:
            return
        _, late = await asyncio.wait({self._learning}, timeout=seconds)
        if late:
            _log.warning("dovecot: learning was not finished after %g s", seconds)
            self._learning.cancel()
            await asyncio.wait(late)

    async def answer_to(self, event: ScriptRequest | ScriptRefusal, user: int, started: float) -> bytes:
        """Put the message into the spool, and return the answer."""
        if isinstance(event, ScriptRefusal):
            self.service.feedback_refused(why=event.text, fields={"peer": f"uid {user}"})
            return REFUSED
        actor = await self._actor(user, event.user)
        label = self._label(event.arguments)
        problem = None
        if not self.service.teachers.may_teach(Peer()):
            problem = "its sender is not allowed to teach"
        elif not self.service.runtime.knows_teacher(user_of_actor(actor)):
            problem = "users have own models, and the address of this user is unknown: see own_models.domain"
        elif label is None:
            problem = "its second argument is neither feedback.spam_address nor feedback.ham_address"
        elif not event.content[:1].strip() and await asyncio.to_thread(is_blank, event.content):
            problem = "the message is empty"
        if problem or label is None:
            self.service.feedback_refused(label or "none", problem or "", {"actor": actor})
            return REFUSED
        try:
            async with asyncio.timeout(self.service.limits.message_timeout_seconds):
                await self._spool.add(SpooledFeedback(label, actor, int(time.time()), event.content))
        except OSError as error:  # also TimeoutError: the disk does not answer
            self._observer.count("refused")
            problem = str(error) or "the disk did not respond in time"
            _log.error("dovecot: a message was not accepted: %s", problem, extra=event_fields(actor=actor))
            return REFUSED
        self._observer.count("spooled")
        self._learner.wake()
        milliseconds = round((time.perf_counter() - started) * 1000, 2)
        fields = event_fields(
            listener="dovecot",
            actor=actor,
            label=label,
            bytes=len(event.content),
            milliseconds=milliseconds,
        )
        _log.info("feedback spooled", extra=fields)
        return ACCEPTED

    def _label(self, arguments: tuple[str, ...]) -> str | None:
        label_of = self.service.runtime.feedback_addresses.label_of
        return label_of(arguments[_FEEDBACK_ADDRESS]) if len(arguments) > _FEEDBACK_ADDRESS else None

    async def _actor(self, user: int, named_user: str) -> str:
        if named_user and user in self._trusted_users:
            return actor_of_user(named_user)
        return await asyncio.to_thread(actor_of_system_user, user)


class DovecotConnection(StreamConnection):
    """The connection of one script, with one message."""

    def __init__(
        self, listener: DovecotListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__(reader, writer)
        self._listener = listener

    async def serve(self) -> None:
        """Take one message, and answer."""
        try:
            with suppress(ConnectionError):
                await self._answer()
        except Exception as error:  # noqa: BLE001 - a fault with one client must not stop the others
            _log.error("dovecot: a message failed: %s", error, exc_info=True)
        finally:
            self.writer.transport.abort()  # a close would wait for a client that does not take its answer

    async def _answer(self) -> None:
        limits, writer = self._listener.service.limits, self.writer
        started = time.perf_counter()
        descriptor = writer.get_extra_info("socket").fileno()
        user = peer_user(descriptor)
        parser = ScriptParser(limits.max_message_bytes)
        reservation = Reservation(self._listener.service.bytes_in_flight)
        try:
            try:
                async with asyncio.timeout(limits.message_timeout_seconds):
                    await self._receive(parser, reservation)
            except TimeoutError:
                parser.refuse("the request is not complete in time")
            event = parser.end()
            if event is None:
                return
            if isinstance(event, ScriptRequest) and _has_hung_up(descriptor):
                event = ScriptRefusal("the client is gone and may have sent an incomplete message")
            answer = await self._listener.answer_to(event, user, started)
        finally:
            reservation.release()
        writer.write(answer)
        writer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                await writer.wait_closed()

    async def _receive(self, parser: ScriptParser, reservation: Reservation) -> None:
        """Feed the parser until the client closes its side.

        Raises ``TimeoutError``, and ``ConnectionError`` for a refused client that goes on sending.
        """
        received, limits = 0, self._listener.service.limits
        while True:
            async with asyncio.timeout(limits.idle_timeout_seconds):
                data = await self.reader.read(_READ_BYTES)
            if not data:
                return
            received += len(data)
            if received > limits.max_discarded_bytes + _READ_BYTES:
                raise ConnectionAbortedError
            if not parser.is_refused and not reservation.add(len(data)):
                parser.refuse("too much mail at once")
            if not parser.is_refused:
                parser.feed(data)
            if parser.is_refused:
                reservation.release()


def _has_hung_up(descriptor: int) -> bool:
    """Whether the client has closed its socket, and not only its side of the connection."""
    poll = select.poll()
    poll.register(descriptor, 0)  # POLLHUP is reported in any case
    return bool(poll.poll(0))
