"""The stream listener: it checks and learns the entries of a stream in Redis, and answers in another stream.

Rules: an entry is removed only when its answer is written. If a worker dies before, another one tries the entry
again, and no answer is lost. While Redis is away or refuses to write, or no counts are loaded, the active entries
wait and no more are read. Active entries are limited by number and by bytes. An entry that another worker began is
tried alone: if it ends its worker, only this entry is set aside, and not the entries that were active with it. A
try that fails with a fault of nbstream ends without an answer, and is one of the tries that are counted. The
texts of errors are one table, and name no host, path, key or exception.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import Counter, Gauge

from nbstream import errors
from nbstream.errors import NbstreamError, StoreUnavailable, table_row
from nbstream.listeners.stream import codec as wire
from nbstream.listeners.stream.queue import ClaimOutcome
from nbstream.logs import event_fields
from nbstream.mail.charsets import UTF8_REPLACED
from nbstream.server.message_service import REQUEST_ERRORS
from nbstream.store.backoff import Backoff

if TYPE_CHECKING:
    import socket

    from nbstream.filter import Check, FeedbackOutcome
    from nbstream.listeners.stream.queue import QueueBacklog, QueueEntry, StreamQueue
    from nbstream.mail.message import Message
    from nbstream.metrics import MetricsRegistry
    from nbstream.server.background import BackgroundTasks
    from nbstream.server.message_service import MessageHandler, MessageService
    from nbstream.server.runtime import Runtime


_log = logging.getLogger(__name__)

_RENEW_SECONDS = 2.0
_OUTCOMES = ("answered", "refused", "repeated", "claimed", "dead", "lost")

Result = TypeVar("Result")


class StreamMetrics:
    """Counts what the stream listener alone does, beside what all listeners count in ``DeliveryMetrics``.

    The names of metrics are a contract; they are exported only where the listener is configured.
    """

    def __init__(self, registry: MetricsRegistry) -> None:
        self._entries = Counter(
            "nbstream_stream_entries",
            "Stream entries, by outcome: answered, refused (with an error), repeated (already answered by "
            "another worker), claimed (taken over), dead (set aside), lost (removed by others). Only with "
            "listeners.stream.",
            ["outcome"],
            registry=registry.counts,
        )
        self._lag = Gauge(
            "nbstream_stream_lag",
            "Entries not yet given to a worker. Only with listeners.stream.",
            registry=registry.counts,
            multiprocess_mode="livemostrecent",
        )
        self._pending = Gauge(
            "nbstream_stream_pending",
            "Entries given to a worker and not yet answered. Only with listeners.stream.",
            registry=registry.counts,
            multiprocess_mode="livemostrecent",  # each process measures the same stream
        )
        for outcome in _OUTCOMES:
            self._entries.labels(outcome)

    def entry_finished(self, outcome: str) -> None:
        """Count what became of one entry."""
        self._entries.labels(outcome).inc()

    def backlog_measured(self, backlog: QueueBacklog) -> None:
        """Note how many entries are waiting."""
        self._lag.set(backlog.lag)
        self._pending.set(backlog.pending)


class StreamListener:
    """Answers the entries of a queue until ``drain`` or the cancellation of ``run``.

    ``max_in_flight`` entries are active at most.
    """

    def __init__(
        self,
        queue: StreamQueue,
        message_service: MessageService,
        background: BackgroundTasks,
        observer: StreamMetrics,
        *,
        max_message_bytes: int = 10 << 20,
        max_in_flight: int = 16,
    ) -> None:
        self._queue = queue
        self._max_message_bytes = max_message_bytes
        self._max_in_flight = max_in_flight
        self._message_service = message_service
        self._background = background
        self._observer = observer
        self._bytes_in_flight = message_service.bytes_in_flight
        self._active_entries: dict[bytes, QueueEntry] = {}
        self._waiting = 0  # entries that wait for Redis
        self._waiting_logged = False
        self._opened = asyncio.Event()  # set when there is a consumer group, without which Redis refuses the rest
        self._changed = asyncio.Event()  # set when an entry ends or draining begins, which ``_read`` waits for
        self._draining = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()

    async def start(self, *sockets: socket.socket) -> None:
        """Begin to answer entries; the listener has no sockets."""
        assert not sockets
        self._background.start("stream", self.run)
        third = self._queue.claim_seconds / 3
        self._background.every("stream claims", third, self._claim_abandoned)
        self._background.every("stream renewals", min(_RENEW_SECONDS, third), self._renew_claims)

    def apply(self, runtime: Runtime) -> None:
        """Use ``runtime`` from the next entry on."""
        self._message_service.apply(runtime)

    async def run(self) -> None:
        """Read and answer entries until the listener is drained."""
        self._ended.clear()
        try:
            async with asyncio.TaskGroup() as group:
                await self._read(group)
                while self._active_entries:
                    self._changed.clear()
                    await self._changed.wait()
            with suppress(StoreUnavailable):
                await self._queue.remove_idle_consumers(leave=True)
        finally:
            self._ended.set()

    async def drain(self, seconds: float) -> None:
        """Read no more, and answer the active entries for up to ``seconds``; then ``run`` may be cancelled.

        Another worker takes over the entries that are left, or this one does after its next start.
        """
        self._draining.set()
        self._changed.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    async def _read(self, group: asyncio.TaskGroup) -> None:
        """Read entries while there are free slots, until draining begins."""
        backoff = Backoff()
        while not self._draining.is_set():
            try:
                await self._queue.open()
                self._opened.set()
                while free_slots := await self._free_slots():
                    for entry in await self._queue.take(free_slots):
                        if self._begin(entry):
                            group.create_task(self._handle(entry), name="stream: entry")
                    if not self._waiting:
                        self._log_waiting(None)
                    backoff.reset()
            except StoreUnavailable as error:
                self._log_waiting(error)
                await self._pause(backoff.next_wait())

    async def _free_slots(self) -> int:
        """Wait until at least half of the slots are free, and return how many; 0 once draining has begun.

        Entries are read in groups, because each read is a round trip.
        """
        while not self._draining.is_set():
            free_slots = self._max_in_flight - len(self._active_entries)
            is_half_free = 2 * free_slots >= self._max_in_flight
            if is_half_free and not self._bytes_in_flight.is_exhausted and not self._waiting:
                return free_slots
            self._changed.clear()
            await self._changed.wait()
        return 0

    async def _claim_abandoned(self) -> None:
        """Try the entries that other workers left, one at a time. Raises ``StoreUnavailable``.

        Claims are renewed first: after an outage of Redis our own active entries look as if they were left.
        """
        await self._opened.wait()
        while not self._draining.is_set():
            await self._queue.renew_claims(list(self._active_entries))
            claim = await self._queue.claim()
            if claim is None:
                await self._queue.remove_idle_consumers()
                return
            outcome, entry = claim.outcome, claim.entry
            if outcome is ClaimOutcome.CLAIMED and not self._begin(entry):
                continue
            self._observer.entry_finished(str(outcome))
            if outcome is ClaimOutcome.CLAIMED:
                await self._handle(entry)
            else:
                fields = event_fields(listener="stream", entry=_printable_id(entry.stream_id))
                fate = (
                    "set aside"
                    if outcome is ClaimOutcome.DEAD
                    else "removed by someone else before it was answered"
                )
                _log.warning("an entry was %s", fate, extra=fields)

    async def _renew_claims(self) -> None:
        """Renew the claims on active entries, and report how many entries wait. Raises ``StoreUnavailable``."""
        await self._opened.wait()
        await self._queue.renew_claims(list(self._active_entries))
        self._observer.backlog_measured(await self._queue.backlog())

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()

    async def _handle(self, entry: QueueEntry) -> None:
        """Answer one entry, or leave it for another try."""
        started = time.perf_counter()
        handler = self._message_service.message_handler()
        try:
            result = await self._answer(entry, handler)
            answer = wire.with_entry_ids(result.fields, entry.stream_id, entry.fields)
            written = await self._retry_while_unavailable(lambda: self._queue.answer(entry.stream_id, answer))
        except Exception as error:  # noqa: BLE001 - a fault in one entry must not stop the others
            self._message_service.metrics.filter_failed("error")
            _log.error(
                "an entry failed: %s",
                error,
                exc_info=True,
                extra=event_fields(entry=_printable_id(entry.stream_id)),
            )
        else:
            self._report_answer(handler, entry, result, written, time.perf_counter() - started)
        finally:
            self._end(entry)

    def _begin(self, entry: QueueEntry) -> bool:
        """Note that an entry is active, and return True; False if it is active already, and then do not handle it.

        The queue may give us an entry again that we work on: a claim does not look at whose entry it is.
        """
        if entry.stream_id in self._active_entries:
            return False
        self._active_entries[entry.stream_id] = entry
        self._bytes_in_flight.reserve_anyway(entry.size)  # its size is known only after it was read
        return True

    def _end(self, entry: QueueEntry) -> None:
        """Note that an entry is not active any more; that may be said twice."""
        if self._active_entries.pop(entry.stream_id, None):
            self._bytes_in_flight.release(entry.size)
            self._changed.set()

    async def _answer(self, entry: QueueEntry, handler: MessageHandler) -> _EntryResult:
        try:
            class_names = handler.runtime.spam_filter.policy.class_names
            request = wire.read_entry(entry.fields, self._max_message_bytes, class_names)
            message = await _parse_message(request, handler)
            return await self._retry_while_unavailable(lambda: _check_or_learn(request, message, handler))
        except wire.UnreadableEntry as error:
            return _EntryResult(error=str(error))
        except NbstreamError as error:
            if isinstance(error, REQUEST_ERRORS):
                _log.warning("an entry is refused: %s", error)
            else:
                _log.error(
                    "an entry failed: %s",
                    error,
                    exc_info=True,
                    extra=event_fields(entry=_printable_id(entry.stream_id)),
                )
            return _EntryResult(error=error_text(error))

    async def _retry_while_unavailable(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of ``work``, which is tried again while Redis or its counts are away.

        Meanwhile no entry is read.
        """
        backoff = Backoff()
        try:
            while True:
                try:
                    return await work()
                except StoreUnavailable as error:
                    self._log_waiting(error)
                    self._waiting += backoff.failures == 0
                await asyncio.sleep(backoff.next_wait())
        finally:
            self._waiting -= backoff.failures > 0

    def _log_waiting(self, error: StoreUnavailable | None) -> None:
        """Log when entries begin to wait and when they continue, but not each failure in between."""
        if error and not self._waiting_logged:
            _log.warning("entries wait: %s", error)
        if self._waiting_logged and not error:
            _log.info("entries are read again")
        self._waiting_logged = error is not None

    def _report_answer(
        self, handler: MessageHandler, entry: QueueEntry, result: _EntryResult, written: bool, seconds: float
    ) -> None:
        self._observer.entry_finished("repeated" if not written else "refused" if result.error else "answered")
        if written:
            handler.report_answer(
                result.check,
                seconds,
                entry=_printable_id(entry.stream_id),
                outcome=str(result.outcome) if result.outcome else None,
                error=result.error,
            )


@dataclass(frozen=True, slots=True)
class _EntryResult:
    """What became of an entry: a check, with the outcome of its label if it has one, or else an error."""

    check: Check | None = None
    outcome: FeedbackOutcome | None = None
    error: str | None = None

    @property
    def fields(self) -> dict[str, str | bytes]:
        """The fields of the answer."""
        if self.check is None:
            return wire.refusal_fields(self.error or "")
        return wire.verdict_fields(self.check, self.outcome)


async def _parse_message(request: wire.StreamRequest, handler: MessageHandler) -> Message:
    if request.raw is None:
        return await handler.parse_text(request.text or b"", UTF8_REPLACED)
    return await handler.parse_mail(request.raw)


async def _check_or_learn(request: wire.StreamRequest, message: Message, handler: MessageHandler) -> _EntryResult:
    """Check the message, or learn it; the recipient's rules decide the verdict."""
    recipients = [request.recipient] if request.recipient else []
    if request.label is None:
        return _EntryResult(await handler.try_check(message, recipients))
    lesson = await handler.try_learn(message, request.label, request.sender, user=request.recipient)
    return _EntryResult(await handler.decide(lesson.after, recipients), lesson.outcome)


def _printable_id(stream_id: bytes) -> str:
    return stream_id.decode("ascii", "replace")


_TEMPORARY_FAILURE = "Temporary failure, please try again later"
_PERMANENT_FAILURE = "This failed, the log says why"

ERROR_TEXTS: Mapping[type[NbstreamError], str] = {
    errors.CountsFull: "Learning is not possible until this has been seen to, please try again later",
    errors.CheckFailed: _TEMPORARY_FAILURE,
    errors.StoreIncompatible: _TEMPORARY_FAILURE,
    # An entry waits for Redis and is not answered before: this text is not sent while that holds.
    errors.StoreUnavailable: "Learning is not possible now, please try again later",
}
"""A row for each of ``REQUEST_ERRORS``. A class without a row has that of its parent."""


def error_text(error: NbstreamError) -> str:
    """Return the text that answers an entry which ended with ``error``.

    An error that no entry should end with has no row: its text says to try again only if it is temporary.
    """
    if isinstance(error, REQUEST_ERRORS):
        return table_row(ERROR_TEXTS, type(error))
    return _TEMPORARY_FAILURE if error.temporary else _PERMANENT_FAILURE
