"""What the listeners for programs do with a message: check it, or learn it, with metrics and a line in the log.

Rules: a protocol is an adapter around this service, which alone knows the filter. A listener takes a handler from
the service for each message, and the message goes by one runtime from there to its answer, whatever a reload does
meanwhile. A listener that answers at once uses ``check`` and ``learn``, which report what they do. One that tries
again after a failure uses ``try_check`` and ``try_learn``, and reports each message once, when it is answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from nbstream import errors
from nbstream.errors import StoreRefuses
from nbstream.logs import event_fields
from nbstream.mail.message import Message
from nbstream.policy.envelope import envelope_builder
from nbstream.policy.feedback_source import Reinforcement
from nbstream.policy.recipient_rules import RecipientCase
from nbstream.policy.sender_lists import NO_LOOKUP, UNKNOWN_SENDER, Sender
from nbstream.policy.verdict import Verdict
from nbstream.server.connections import Connections
from nbstream.server.decisions import score_by_models
from nbstream.server.limits import MAX_BYTES_IN_FLIGHT, BytesInFlight, ListenerLimits
from nbstream.server.metrics import log_lesson
from nbstream.threads import in_thread_if_large

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from nbstream.filter import Check, FeedbackResult, Filter, LessonMessage
    from nbstream.policy.recipient_rules import RecipientRule
    from nbstream.policy.sender_lists import SenderLookup
    from nbstream.server.connections import Teachers
    from nbstream.server.metrics import DeliveryMetrics
    from nbstream.server.runtime import Runtime


# Which errors may end a request to check or learn a message, and which are a fault in nbstream.
#
# Rules: HTTP, spamd and stream have answers of their own to the errors that a request may end with. The listener
# that meets any other error logs it with its traceback. Its answer says only whether to try again, by
# ``temporary``.

REQUEST_ERRORS: tuple[type[errors.NbstreamError], ...] = (
    errors.CheckFailed,
    errors.CountsFull,
    errors.StoreIncompatible,
    errors.StoreUnavailable,
)
"""A request may end with these and with the classes derived from them; any other error is a fault in nbstream."""


_log = logging.getLogger(__name__)

_TEXT_THREAD_BYTES = 32 * 1024  # a byte of text costs up to 0.3 µs: wrong UTF-7
_SEVERITY = list(Verdict)


class MessageService:
    """What a listener goes by, with its name, its limits and its bytes in flight.

    It makes the handlers of messages, and reports what is not about one message.
    """

    def __init__(
        self,
        name: str,
        runtime: Runtime,
        metrics: DeliveryMetrics,
        limits: ListenerLimits | None = None,
        bytes_in_flight: BytesInFlight | None = None,
    ) -> None:
        self.name = name
        self.runtime = runtime
        """What the next message goes by."""
        self.metrics = metrics
        self.limits = limits or ListenerLimits()
        self.bytes_in_flight = bytes_in_flight or BytesInFlight(MAX_BYTES_IN_FLIGHT)

    def apply(self, runtime: Runtime) -> None:
        """Go by ``runtime`` from the next message on."""
        self.runtime = runtime

    def message_handler(self) -> MessageHandler:
        """Return a handler for one message, which uses the current runtime."""
        return MessageHandler(self.name, self.runtime, self.metrics)

    def connections(self) -> Connections:
        """Return the connections of the listener; none is open yet."""
        return Connections(self.name, self.limits.max_connections, self.metrics)

    @property
    def teachers(self) -> Teachers:
        """Who may teach through the listener."""
        return self.runtime.teachers_through(self.name)

    def feedback_refused(
        self,
        label: str = "none",
        why: str = "its sender is not allowed to teach",
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Report feedback that was not taken: its peer may not teach, or it holds nothing to learn.

        ``fields`` are further fields of the line in the log.
        """
        self.metrics.filter_metrics.feedback_refused(label, self.name)
        _log.warning("%s: feedback refused: %s", self.name, why, extra=event_fields(**(fields or {})))


class MessageHandler:
    """Handles one message; ``runtime`` is what the message goes by."""

    def __init__(self, listener_name: str, runtime: Runtime, observer: DeliveryMetrics) -> None:
        self.runtime = runtime
        self._listener_name = listener_name
        self._observer = observer

    async def parse_mail(self, raw: bytes) -> Message:
        """Return the message in ``raw``, whose line ends may be of any kind, without verdict fields."""
        return await self._parse(self.runtime.message_reader.read_incoming, raw)

    async def parse_taught_mail(self, raw: bytes) -> Message:
        """Return the message in ``raw`` like ``parse_mail``, as it was when it was checked."""
        return await self._parse(self.runtime.message_reader.read_taught, raw)

    async def _parse(self, read: Callable[[bytes], Message], raw: bytes) -> Message:
        return await in_thread_if_large(len(raw), read, raw)

    async def parse_text(self, content: bytes, charset: str | None) -> Message:
        """Return a text that is no mail, in that charset (None: not known), as a message."""
        limits = self.runtime.message_reader.limits
        if len(content) > _TEXT_THREAD_BYTES:
            return await asyncio.to_thread(Message.from_encoded_text, content, charset, limits)
        return Message.from_encoded_text(content, charset, limits)

    async def check(
        self,
        message: Message,
        recipients: Sequence[str] = (),
        sender: Sender = UNKNOWN_SENDER,
    ) -> tuple[Check, float]:
        """Check the message and report it; return the check and the seconds that it took.

        An error is logged here if a request may end with it; any other one is left to the listener's log.
        ``recipients`` and ``sender`` are as in ``try_check``. Raises ``StoreUnavailable`` while no counts are
        loaded.
        """
        started = time.perf_counter()
        try:
            check = await self.try_check(message, recipients, sender)
        except Exception as error:
            is_expected = isinstance(error, REQUEST_ERRORS)
            self._observer.filter_failed("store" if is_expected else "error")
            self._observer.delivered(self._listener_name, "none")
            if is_expected:
                _log.error("%s: check failed: %s", self._listener_name, error)
            raise
        seconds = time.perf_counter() - started
        self.report_answer(check, seconds)
        return check, seconds

    async def try_check(
        self, message: Message, recipients: Sequence[str] = (), sender: Sender = UNKNOWN_SENDER
    ) -> Check:
        """Check the message and report nothing; ``recipients`` and ``sender`` are those that the client names.

        The own models, the sender lists and the rules of the recipients decide. Of several recipients the mildest
        verdict holds, of equal ones that of the rule further up in the file. Where there are none, the filter's
        own policy and the lists of the site decide. Raises ``StoreUnavailable`` while no counts are loaded.
        """
        filters = await self.runtime.filters_for(recipients) if recipients else [self.runtime.spam_filter]
        checks, seconds = await score_by_models(message, filters)
        lookup = self.runtime.sender_lists.look_up(message, sender)
        if recipients:
            cases = self._cases(recipients, lookup, filters)
            check = await self._decide(checks, cases)
            if len({case.listed for case in cases}) > 1:
                check = check.for_others()
            if len(checks) > 1:
                check = check.without_clues()
        else:
            check = checks[filters[0].own_model].by_list(lookup.decide_for(None))
        envelope = envelope_builder(self._listener_name, sender.address, recipients, message)
        filters[0].report(check, seconds, envelope)
        self.runtime.note_if_sent(message, sender, recipients, check)
        return check

    async def decide(self, check: Check, recipients: Sequence[str]) -> Check:
        """Return a check of the filter's own policy as the rules of the recipients decide it; see ``try_check``.

        No sender list has a say. Raises ``StoreUnavailable``.
        """
        own_model = self.runtime.spam_filter.own_model
        cases = self._cases(recipients, NO_LOOKUP, [self.runtime.spam_filter] * len(recipients))
        return await self._decide({own_model: check}, cases) if cases else check

    def _cases(
        self, recipients: Sequence[str], lookup: SenderLookup, filters: Sequence[Filter]
    ) -> Collection[RecipientCase]:
        rule_of = self.runtime.rules.rule_of
        return {
            RecipientCase(rule_of(address), lookup.decide_for(address), own.own_model)
            for address, own in zip(recipients, filters, strict=True)
        }

    async def _decide(self, checks: Mapping[str, Check], cases: Collection[RecipientCase]) -> Check:
        """Return the mildest decision of these cases, at least one; ``checks`` are by own model."""
        ordered = sorted(cases, key=lambda case: (case.rule.position, str(case.listed or ""), case.own_model))
        decided = [
            (await self._decide_by_rule(checks[case.own_model], case.rule)).by_list(case.listed)
            for case in ordered
        ]
        return min(decided, key=lambda decision: _SEVERITY.index(decision.verdict))

    async def _decide_by_rule(self, check: Check, rule: RecipientRule) -> Check:
        """Return the check as the rule decides it; by the default one it is decided already."""
        if rule == self.runtime.rules.default:
            return check
        return await self.runtime.spam_filter.decide_by_rule(check, rule)

    async def learn(
        self,
        message: LessonMessage,
        label: str | None,
        actor: str,
        reinforcement: Reinforcement = Reinforcement.AFTER_PAUSE,
        reinforced_version: str | None = None,
        user: str = "",
    ) -> FeedbackResult:
        """Learn that the message is ``label``, and log why where that fails; None takes back what was learned.

        A client of a protocol that answers at once stands for a person, who may reinforce by saying it again
        later, unless ``reinforcement`` says otherwise. ``reinforced_version`` is that of ``FeedbackSource``.
        ``user`` is the address of who teaches, whose own model learns it; without one the common model does.

        Raises ``StoreUnavailable`` or ``CountsFull``; nothing is half done then.
        """
        try:
            return await self.try_learn(message, label, actor, reinforcement, reinforced_version, user)
        except REQUEST_ERRORS as error:
            # The store itself says once that Redis refuses to write.
            level = logging.DEBUG if isinstance(error, StoreRefuses) else logging.WARNING
            _log.log(level, "%s: feedback refused: %s", self._listener_name, error)
            raise

    async def try_learn(
        self,
        message: LessonMessage,
        label: str | None,
        actor: str,
        reinforcement: Reinforcement = Reinforcement.NEVER,
        reinforced_version: str | None = None,
        user: str = "",
    ) -> FeedbackResult:
        """Do what ``learn`` does, and log the lesson, but no failure.

        What may be tried again must not reinforce, unless ``reinforcement`` says so.
        """
        spam_filter = await self.runtime.filter_of_teacher(user, label, self._listener_name)
        if label is None:
            lesson = await spam_filter.unlearn(message, self._listener_name, actor)
        else:
            lesson = await spam_filter.learn(
                message, label, self._listener_name, actor, reinforcement, reinforced_version
            )
        log_lesson(lesson, self._listener_name, actor)
        return lesson

    def report_answer(
        self, check: Check | None, seconds: float, *, entry: str | None = None, **details: str | None
    ) -> None:
        """Count and log a message that was answered; ``entry`` and ``details`` are as in ``answered``."""
        if check and check.listed:
            self._observer.list_decided(check.listed)
        self._observer.answered(self._listener_name, check, seconds, entry=entry, **details)
