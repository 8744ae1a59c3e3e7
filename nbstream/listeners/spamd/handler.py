"""The answers of the spamd listener to complete requests: it checks, marks, learns and forgets messages.

Rules: peers in ``feedback.allow_from`` may teach, and so
may peers that can open the listener's unix socket; a peer on this machine may name the user for whom it teaches.

An error is answered with an EX_ code of sysexits.h, and a text that does not say the cause. A check that failed is
answered with 75, whatever the error was. The client then passes the mail on unmarked or defers it, by its own
configuration; with another code it could return the mail to its sender. A lesson that failed is answered with 75
too, unless the error is permanent and one that no request should end with.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from nbstream.errors import NbstreamError
from nbstream.filter import FeedbackOutcome
from nbstream.listeners.spamd import codec as wire
from nbstream.listeners.spamd.codec import (
    EX_DATAERR,
    EX_SOFTWARE,
    EX_TEMPFAIL,
    EX_UNAVAILABLE,
    SpamdCommand,
    SpamdRefusal,
    SpamdRequest,
    TellRequest,
)
from nbstream.mail import header_edits
from nbstream.mail.lines import is_blank
from nbstream.policy.header import clues_field_value, comparable_scores
from nbstream.policy.lesson_source import actor_of_user, user_of_actor
from nbstream.policy.verdict import Verdict
from nbstream.server.message_service import is_request_error
from nbstream.threads import in_thread_if_large

if TYPE_CHECKING:
    from nbstream.filter import Check
    from nbstream.server.message_service import MessageService
    from nbstream.server.peers import Peer
    from nbstream.server.runtime import Runtime


_log = logging.getLogger(__name__)

_NOT_ALLOWED = SpamdRefusal(EX_UNAVAILABLE, "Service Unavailable: feedback is not accepted from here")
_EMPTY_MESSAGE = SpamdRefusal(EX_DATAERR, "The message is empty, there is nothing to learn from")

_SYMBOLS = {
    Verdict.HAM: b"NBSTREAM_HAM",
    Verdict.UNSURE: b"NBSTREAM_UNSURE",
    Verdict.SPAM: b"NBSTREAM_SPAM",
    Verdict.REJECT: b"NBSTREAM_SPAM",
}


class SpamdHandler:
    """Answers requests with a message service."""

    def __init__(self, message_service: MessageService) -> None:
        self._message_service = message_service

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
        handler = self._message_service.message_handler()
        try:
            user = handler.runtime.address_of_login(request.user)
            check, _ = await handler.check(await handler.parse_mail(body), (user,) if user else ())
        except Exception as error:  # noqa: BLE001 - a fault in a check must not lose mail or end the listener
            _log_fault("check", error)
            return CHECK_FAILED.render()
        score, required = comparable_scores(check.verdict, check.probability, check.thresholds)
        judgement = wire.SpamdJudgement(check.verdict, score, required)
        arguments = (request, judgement, check, body, handler.runtime)
        return await in_thread_if_large(len(body), _render_check, *arguments)

    async def _learn_or_forget(self, request: SpamdRequest, body: bytes, peer: Peer) -> bytes:
        if request.tell is TellRequest.NOTHING:
            return wire.render_tell()
        refusal = None
        if not self._message_service.may_teach(peer):
            refusal = _NOT_ALLOWED
        elif not body[:1].strip() and await asyncio.to_thread(is_blank, body):
            refusal = _EMPTY_MESSAGE
        if refusal:
            self._message_service.feedback_refused(str(request.tell), refusal.text, {"peer": str(peer)})
            return refusal.render()
        label = None if request.tell is TellRequest.FORGET else str(request.tell)
        try:
            handler = self._message_service.message_handler()
            actor = _actor(peer, request.user)
            message = await handler.parse_taught_mail(body)
            lesson = await handler.learn(message, label, actor, user=user_of_actor(actor))
        except Exception as error:  # noqa: BLE001 - a fault in a lesson must not end the listener
            _log_fault("lesson", error)
            return lesson_refusal(error).render()
        return wire.render_tell(
            did_set=lesson.outcome
            in {FeedbackOutcome.LEARNED, FeedbackOutcome.RELEARNED, FeedbackOutcome.REINFORCED},
            did_remove=lesson.outcome is FeedbackOutcome.UNLEARNED,
        )


def _render_check(
    request: SpamdRequest, judgement: wire.SpamdJudgement, check: Check, body: bytes, runtime: Runtime
) -> bytes:
    return wire.render_check(request, judgement, *_content(request.command, check, body, runtime))


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
    if not is_request_error(error):
        _log.error("spamd: %s failed: %s", what, error, exc_info=True)


CHECK_FAILED = SpamdRefusal(EX_TEMPFAIL, "Temporary failure, please try again later")
"""The answer to a check that failed."""

_LESSON_PUT_OFF = SpamdRefusal(EX_TEMPFAIL, "Learning is not possible now, please try again later")
_LESSON_FAILED = SpamdRefusal(EX_SOFTWARE, "This failed, the log says why")


def lesson_refusal(error: Exception) -> SpamdRefusal:
    """Return the answer to a lesson that ended with ``error``."""
    if isinstance(error, NbstreamError) and not is_request_error(error) and not error.temporary:
        return _LESSON_FAILED
    return _LESSON_PUT_OFF
