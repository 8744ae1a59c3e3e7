"""What the spamd door answers to a complete request: it judges, marks, learns, forgets.

Rules: what cannot be done now is put off with 75, and a client passes the mail on unmarked then, or defers it, as
it is set up to; nothing of the cause is in the answer. Peers of ``allow_from``, and who may open the door's unix
socket, may teach; those on this machine may say for whom.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbstream.errors import NbstreamError
from nbstream.filter import Outcome
from nbstream.listeners.message_service import Desk
from nbstream.listeners.peers import Network, is_here, within
from nbstream.mail import marking
from nbstream.mail.mime import Limits
from nbstream.policy import verdict_fields
from nbstream.policy.clues_field import clues_value
from nbstream.policy.verdict import Verdict
from nbstream.wire import spamd_replies as wire
from nbstream.wire.spamd import EX_DATAERR, EX_TEMPFAIL, EX_UNAVAILABLE, Command, Refusal, Request, Tell

if TYPE_CHECKING:
    from nbstream.filter import Check, Filter
    from nbstream.listeners.message_service import DeskObserver

_log = logging.getLogger(__name__)

NAME = "spamd"

_NOT_NOW = Refusal(EX_TEMPFAIL, "Temporary failure, please try again later")
_NO_LESSON_NOW = Refusal(EX_TEMPFAIL, "Learning is not possible now, please try again later")
_STRANGER = Refusal(EX_UNAVAILABLE, "Service Unavailable: feedback is not accepted from here")
_EMPTY = Refusal(EX_DATAERR, "The message is empty, there is nothing to learn from")

_SYMBOLS = {
    Verdict.HAM: b"NBSTREAM_HAM",
    Verdict.UNSURE: b"NBSTREAM_UNSURE",
    Verdict.SPAM: b"NBSTREAM_SPAM",
    Verdict.REJECT: b"NBSTREAM_SPAM",
}


@dataclass(frozen=True, slots=True)
class Params:
    """How messages are looked at and marked, and whose word is believed; ``clues``: told in marked mail."""

    model: str
    limits: Limits = field(default_factory=Limits)
    allow_from: Sequence[Network] = ()
    clues: bool = True


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asks: an IP address, another word where it is not known, or empty: who could open the unix socket."""

    host: str = ""

    @property
    def here(self) -> bool:
        """Whether it runs on this machine."""
        return not self.host or is_here(self.host)

    def may_teach(self, networks: Sequence[Network]) -> bool:
        """Whether its feedback is believed."""
        return not self.host or within(self.host, networks)

    def actor(self, user: str) -> str:
        """Who teaches, for the history."""
        return f"user {user}" if user and self.here else self.host


class Answers:
    """Answers requests by one filter and one set of params."""

    def __init__(self, spam_filter: Filter, params: Params, observer: DeskObserver) -> None:
        self._desk = Desk(NAME, spam_filter, params.limits, observer)
        self._params = params

    async def answer(self, request: Request, body: bytes, peer: Peer) -> bytes:
        """The whole answer to a request whose message is ``body``, unpacked. Raises nothing but cancellation."""
        if request.command is Command.PING:
            return wire.PONG
        if request.command is Command.SKIP:
            return b""
        if request.command is Command.TELL:
            return await self._tell(request, body, peer)
        return await self._judge(request, body)

    async def _judge(self, request: Request, body: bytes) -> bytes:
        try:
            check, _ = await self._desk.check(await self._desk.message(body))
        except Exception as error:  # noqa: BLE001 - a fault in a check costs no mail, and no door
            _log_fault("check", error)
            return _NOT_NOW.render()
        score, required = verdict_fields.shown_scores(check.verdict, check.probability, check.thresholds)
        judgement = wire.Judgement(check.verdict.is_spam, score, required)
        return wire.render(request, judgement, *self._content(request.command, check, body))

    def _content(self, command: Command, check: Check, body: bytes) -> tuple[bytes, ...]:
        match command:
            case Command.SYMBOLS:
                return (_SYMBOLS[check.verdict],)
            case Command.REPORT:
                return (self._report(check),)
            case Command.REPORT_IFSPAM:
                return (self._report(check),) if check.verdict.is_spam else ()
            case Command.PROCESS | Command.HEADERS:
                head, rest = marking.split(body)
                marked = marking.marked(
                    head, self._fields(check), verdict_fields.VERDICT_FIELDS, verdict_fields.GUARD_FIELD
                )
                return (marked, rest) if command is Command.PROCESS else (marked,)
        return ()

    def _report(self, check: Check) -> bytes:
        """Why, for people: the verdict and the strongest clues, ASCII whatever the message held."""
        lines = [
            f"nbstream: {check.verdict}, P(spam) {check.probability:.6f}",
            check.reason,
            f"model {self._params.model}, id {check.id}",
        ]
        if check.clues:
            lines += ["", *clues_value(check.clues).replace("\r\n\t", "\n").split("\n")]
        return ("\n".join(lines) + "\n").encode("ascii", "replace")

    def _fields(self, check: Check) -> list[tuple[str, str]]:
        return verdict_fields.render(
            check.id,
            check.verdict,
            check.probability,
            check.reason,
            model=self._params.model,
            thresholds=check.thresholds,
            clues=check.clues if self._params.clues else (),
        )

    async def _tell(self, request: Request, body: bytes, peer: Peer) -> bytes:
        if request.tell is Tell.NOTHING:
            return wire.render_told()
        problem = _STRANGER if not peer.may_teach(self._params.allow_from) else None if body.strip() else _EMPTY
        if problem:
            self._desk.refused(str(request.tell), problem.text, {"peer": peer.host or "local"})
            return problem.render()
        label = None if request.tell is Tell.FORGET else str(request.tell)
        try:
            message = await self._desk.message(body)
            lesson = await self._desk.teach(message, label, peer.actor(request.user))
        except Exception as error:  # noqa: BLE001 - a fault in a lesson costs no door
            _log_fault("lesson", error)
            return _NO_LESSON_NOW.render()
        return wire.render_told(
            did_set=lesson.outcome in {Outcome.LEARNED, Outcome.RELEARNED},
            did_remove=lesson.outcome is Outcome.UNLEARNED,
        )


def _log_fault(what: str, error: Exception) -> None:
    """What the desk has not told already: that something was wrong with the program."""
    if not isinstance(error, NbstreamError):
        _log.error("%s: %s failed: %s", NAME, what, error, exc_info=True)
