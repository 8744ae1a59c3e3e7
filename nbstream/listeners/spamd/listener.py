"""The spamd listener, for clients of SpamAssassin's server such as spamc and Exim's ``spam =``.

Rules: a connection has one request and is closed after the answer; a client may close its side first. A refused
client gets the reason, and for a while further bytes from it are discarded, because it may read only after it has
sent everything. Connections, bytes in memory, time without data, the time of a whole request and the time to read
an answer are bounded. A lesson that has begun is finished even if its client disconnects.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from nbstream.bayes.columns import label_of
from nbstream.errors import NbstreamError
from nbstream.filter import FeedbackOutcome
from nbstream.listeners.spamd import codec as wire
from nbstream.listeners.spamd.codec import (
    EX_DATAERR,
    EX_PROTOCOL,
    EX_SOFTWARE,
    EX_TEMPFAIL,
    EX_TIMEOUT,
    EX_UNAVAILABLE,
    SpamdCommand,
    SpamdEvent,
    SpamdParser,
    SpamdRefusal,
    SpamdRequest,
    TellRequest,
    decompress,
)
from nbstream.mail import header_edits
from nbstream.mail.lines import ContentBuffer, is_blank
from nbstream.policy.feedback_source import actor_of_user, user_of_actor
from nbstream.policy.header import clues_field_value, comparable_scores
from nbstream.policy.verdict import Verdict
from nbstream.server.limits import Reservation
from nbstream.server.message_service import REQUEST_ERRORS
from nbstream.threads import in_thread_if_large

if TYPE_CHECKING:
    import socket

    from nbstream.filter import Check
    from nbstream.server.connections import Peer
    from nbstream.server.message_service import MessageService
    from nbstream.server.runtime import Runtime


# The answers of the spamd listener to complete requests: it checks, marks, learns and forgets messages.
#
# Rules: peers in ``feedback.allow_from`` may teach, and so may peers that can open the listener's unix socket; a
# peer on this machine may name the user for whom it teaches.
#
# An error is answered with an EX_ code of sysexits.h, and a text that does not say the cause. A check that failed
# is answered with 75, whatever the error was. The client then passes the mail on unmarked or defers it, by its own
# configuration; with another code it could return the mail to its sender. A lesson that failed is answered with 75
# too, unless the error is permanent and one that no request should end with.

_log = logging.getLogger(__name__)

_NOT_ALLOWED = SpamdRefusal(EX_UNAVAILABLE, "Service Unavailable: feedback is not accepted from here")
_EMPTY_MESSAGE = SpamdRefusal(EX_DATAERR, "The message is empty, there is nothing to learn from")

_SYMBOLS = {
    Verdict.HAM: b"NBSTREAM_HAM",
    Verdict.UNSURE: b"NBSTREAM_UNSURE",
    Verdict.SPAM: b"NBSTREAM_SPAM",
    Verdict.REJECT: b"NBSTREAM_SPAM",
}


def _render_check(request: SpamdRequest, check: Check, body: bytes, runtime: Runtime) -> bytes:
    scores = comparable_scores(check.verdict, check.probability, check.thresholds)
    content = _content(request.command, check, body, runtime)
    return wire.render_check(request, check.verdict, *scores, *content)


def _content(command: SpamdCommand, check: Check, body: bytes, runtime: Runtime) -> tuple[bytes | memoryview, ...]:
    match command:
        case SpamdCommand.SYMBOLS:
            return (_SYMBOLS[check.verdict],)
        case SpamdCommand.REPORT:
            return (_report(check, runtime.header_policy.model_name),)
        case SpamdCommand.REPORT_IFSPAM:
            return (_report(check, runtime.header_policy.model_name),) if check.verdict.is_spam else ()
        case SpamdCommand.PROCESS | SpamdCommand.HEADERS:
            head, _ = header_edits.split_header_and_body(body)
            del _  # a copy of the body
            marked = header_edits.rewrite_header(head, runtime.header_policy.edits(check))
            return (marked, memoryview(body)[len(head) :]) if command is SpamdCommand.PROCESS else (marked,)
    return ()


def _report(check: Check, model_name: str) -> bytes:
    """Return the reasons for people: the verdict and the strongest clues, in ASCII for any message."""
    lines = [
        f"nbstream: {check.verdict}, P(spam) {check.probability:.6f}",
        check.reason,
        f"model {model_name}, id {check.id}",
    ]
    if check.clues:
        lines += ["", *clues_field_value(check.clues).replace("\r\n\t", "\n").split("\n")]
    return ("\n".join(lines) + "\n").encode("ascii", "replace")


def _actor(peer: Peer, user: str) -> str:
    """Return who teaches, for the history: a peer on this machine may say for which user it does."""
    return actor_of_user(user) if user and peer.is_on_this_machine else peer.address or ""


def _log_fault(what: str, error: Exception) -> None:
    """Log a fault in nbstream; the message service has logged any error that a request may end with."""
    if not isinstance(error, REQUEST_ERRORS):
        _log.error("spamd: %s failed: %s", what, error, exc_info=True)


CHECK_FAILED = SpamdRefusal(EX_TEMPFAIL, "Temporary failure, please try again later")
"""The answer to a check that failed."""

_LESSON_PUT_OFF = SpamdRefusal(EX_TEMPFAIL, "Learning is not possible now, please try again later")
_LESSON_FAILED = SpamdRefusal(EX_SOFTWARE, "This failed, the log says why")


def lesson_refusal(error: Exception) -> SpamdRefusal:
    """Return the answer to a lesson that ended with ``error``."""
    if isinstance(error, NbstreamError) and not isinstance(error, REQUEST_ERRORS) and not error.temporary:
        return _LESSON_FAILED
    return _LESSON_PUT_OFF


_PATIENCE_SECONDS = 10.0  # for a refused client to read the reason
_BUSY = SpamdRefusal(EX_UNAVAILABLE, "Service Unavailable: too many connections")
_CLOSING = SpamdRefusal(EX_UNAVAILABLE, "Service Unavailable: closing down")
_NO_MEMORY = SpamdRefusal(EX_TEMPFAIL, "Too much mail at once, please try again later")
_SILENT = SpamdRefusal(EX_TIMEOUT, "Timeout: the request is not complete")


class SpamdListener:
    """Answers requests with the message service, and limits their bytes in memory."""

    def __init__(self, service: MessageService) -> None:
        self.service = service
        self.connections = service.connections()

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets."""
        await self.connections.listen(sockets, lambda: SpamdConnection(self))

    def apply(self, runtime: Runtime) -> None:
        """Use ``runtime`` from the next request on."""
        self.service.apply(runtime)

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let active requests finish within ``seconds``, then close all connections."""
        await self.connections.drain(seconds)

    async def handle(self, request: SpamdRequest, body: bytes, peer: Peer) -> bytes:
        """Return the whole answer to a request with the decompressed message ``body``.

        It raises nothing but ``asyncio.CancelledError``.
        """
        if request.command is SpamdCommand.PING:
            return wire.PONG_REPLY
        if request.command is SpamdCommand.SKIP:
            return b""
        if request.command is SpamdCommand.TELL:
            return await self._learn_or_forget(request, body, peer)
        return await self._check(request, body)

    async def _check(self, request: SpamdRequest, body: bytes) -> bytes:
        handler = self.service.message_handler()
        try:
            user = handler.runtime.address_of_login(request.user)
            check, _ = await handler.check(await handler.parse_mail(body), (user,) if user else ())
        except Exception as error:  # noqa: BLE001 - a fault in a check must not lose mail or end the listener
            _log_fault("check", error)
            return CHECK_FAILED.render()
        arguments = (request, check, body, handler.runtime)
        return await in_thread_if_large(len(body), _render_check, *arguments)

    async def _learn_or_forget(self, request: SpamdRequest, body: bytes, peer: Peer) -> bytes:
        if request.tell is TellRequest.NOTHING:
            return wire.render_tell()
        refusal, class_names = None, self.service.runtime.spam_filter.policy.class_names
        if not self.service.teachers.may_teach(peer):
            refusal = _NOT_ALLOWED
        elif request.label and request.label not in class_names:
            text = f"Bad header line: (Message-class must be one of {', '.join(class_names)})"
            refusal = SpamdRefusal(EX_PROTOCOL, text)
        elif not body[:1].strip() and await asyncio.to_thread(is_blank, body):
            refusal = _EMPTY_MESSAGE
        if refusal:
            label = label_of(request.label) if request.label else str(request.tell)
            self.service.feedback_refused(label, refusal.text, {"peer": str(peer)})
            return refusal.render()
        try:
            handler = self.service.message_handler()
            actor = _actor(peer, request.user)
            message = await handler.parse_taught_mail(body)
            lesson = await handler.learn(message, request.label or None, actor, user=user_of_actor(actor))
        except Exception as error:  # noqa: BLE001 - a fault in a lesson must not end the listener
            _log_fault("lesson", error)
            return lesson_refusal(error).render()
        return wire.render_tell(
            did_set=lesson.outcome
            in {FeedbackOutcome.LEARNED, FeedbackOutcome.RELEARNED, FeedbackOutcome.REINFORCED},
            did_remove=lesson.outcome is FeedbackOutcome.UNLEARNED,
        )


class SpamdConnection(asyncio.Protocol):
    """One connection: it reads one request and writes one answer."""

    def __init__(self, listener: SpamdListener) -> None:
        self._listener = listener
        self._parser = SpamdParser(listener.service.limits.max_message_bytes)
        self._received_bytes = 0
        self._reservation = Reservation(listener.service.bytes_in_flight)
        self._client_closed = self._answer_sent = self._disconnected = False
        self._refusal: SpamdRefusal | None = None
        self._answer_task: asyncio.Task[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0  # for the whole request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the request, or refuse the connection."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport does not inherit from it
        connections = self._listener.connections
        if connections.admit():
            connections.opened(self)
            self._deadline = (
                asyncio.get_running_loop().time() + self._listener.service.limits.message_timeout_seconds
            )
            self._wait_for_data()
        else:
            may_stay = connections.refused(self)
            self._send_answer((_CLOSING if connections.draining else _BUSY).render(), more_may_come=may_stay)

    def data_received(self, data: bytes) -> None:
        """Parse more of the request, or discard the bytes after a refusal."""
        self._received_bytes += len(data)
        if self._answer_sent or self._parser.done:
            if self._received_bytes > self._listener.service.limits.max_discarded_bytes:
                self.abort()
            return
        if self._answer_task is None:
            self._wait_for_data()
        if not self._reservation.add(len(data)):
            self._refuse(_NO_MEMORY)
            return
        self._handle_events(self._parser.feed(data))

    def eof_received(self) -> bool:
        """Note that the client has closed its side; it may still read."""
        self._client_closed = True
        if self._answer_sent:
            self._transport.close()
        else:
            self._handle_events(self._parser.end())
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """Stop the timer; work that has begun is finished."""
        self._disconnected = True
        if self._timer is not None:
            self._timer.cancel()
        self._close_if_done()

    def close_if_idle(self) -> None:
        """Close now unless a request has begun; called while the listener drains."""
        if self._answer_sent:
            self._transport.close()
        elif not self._received_bytes:
            self._send_answer(_CLOSING.render(), more_may_come=False)

    def abort(self) -> None:
        """Close the connection at once, and cancel its work."""
        if self._answer_task is not None:
            self._answer_task.cancel()
        self._transport.abort()

    def _wait_for_data(self) -> None:
        left = self._deadline - asyncio.get_running_loop().time()
        self._set_timer(min(self._listener.service.limits.idle_timeout_seconds, left))

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        if self._answer_sent:
            self.abort()
        else:
            self._refuse(_SILENT)

    def _handle_events(self, events: list[SpamdEvent]) -> None:
        for event in events:
            if isinstance(event, SpamdRefusal):
                self._refuse(event)
            elif self._refusal is None:
                # Bytes after the request may still be refused: the work begins afterwards.
                self._answer_task = asyncio.get_running_loop().create_task(self._answer_unless_refused(event))
                self._answer_task.add_done_callback(self._on_answer_done)
                if self._timer is not None:
                    self._timer.cancel()  # from now on the client waits, and the work has deadlines of its own

    def _refuse(self, refusal: SpamdRefusal) -> None:
        """Send the refusal, now or instead of the answer that is being made."""
        self._refusal = self._refusal or refusal
        self._parser.discard_rest()
        if self._answer_task is None:
            _log.info("spamd: a request was refused: %s", refusal.text)
            self._send_answer(refusal.render(), more_may_come=True)

    async def _answer_unless_refused(self, request: SpamdRequest) -> bytes:
        return await self._make_answer(request) if self._refusal is None else b""

    def _on_answer_done(self, task: asyncio.Task[bytes]) -> None:
        """Send the answer; a cancelled task, even one that had not begun, has none."""
        self._answer_task = None
        answer = b""
        try:
            answer = b"" if task.cancelled() else task.result()
        finally:
            if self._refusal is not None:
                self._refuse(self._refusal)
            else:
                self._send_answer(answer, more_may_come=False)
            self._close_if_done()

    async def _make_answer(self, request: SpamdRequest) -> bytes:
        body = request.body
        if request.compressed:
            content = ContentBuffer()
            for piece in decompress(body, self._listener.service.limits.max_message_bytes):
                if isinstance(piece, SpamdRefusal) or not self._reservation.add(len(piece)):
                    self._refusal = piece if isinstance(piece, SpamdRefusal) else _NO_MEMORY
                    return b""
                content.append(piece)
                await asyncio.sleep(0)  # other tasks run between two pieces
            body = content.take()
        peer = self._listener.connections.peer_of(self._transport)
        return await self._listener.handle(request, body, peer)

    def _send_answer(self, answer: bytes, *, more_may_come: bool) -> None:
        """Send the only answer of the connection.

        If ``more_may_come``, the connection stays open for a while, and the client's further bytes are discarded.
        """
        if self._answer_sent or self._disconnected or self._transport.is_closing():
            return
        self._answer_sent = True
        self._transport.write(answer)
        if more_may_come and not self._client_closed:
            self._reservation.release()
            self._transport.write_eof()
            self._set_timer(_PATIENCE_SECONDS)
        else:
            self._set_timer(self._listener.service.limits.idle_timeout_seconds)
            self._transport.close()

    def _close_if_done(self) -> None:
        if self._disconnected and self._answer_task is None:
            self._reservation.release()
            self._listener.connections.closed(self)
