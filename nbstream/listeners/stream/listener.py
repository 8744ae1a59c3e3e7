"""The stream door: checks and learns what programs add to a stream in Redis, and answers in another one.

Rules. An entry is let go when its answer is written, not before: a worker that dies in between costs a second try,
never an answer. While Redis is away or refuses to write, or no counts are loaded, what is under way waits and
nothing more is read. Entries under way are bounded by number and by bytes. An entry that somebody began before is
tried alone, one at a time, so that one which ends its worker is set aside and not its neighbours. A try that fails
by a fault of ours ends without an answer, and is one of those that are counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from nbstream.errors import NbstreamError, StoreUnavailable
from nbstream.listeners.byte_budget import ByteBudget
from nbstream.listeners.stream.error_answers import error_text
from nbstream.store.backoff import Backoff
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.stream_queue import ClaimOutcome
from nbstream.wire import stream_entries as wire

if TYPE_CHECKING:
    import socket

    from nbstream.filter import Check, LessonOutcome
    from nbstream.listeners.message_service import MessageService
    from nbstream.listeners.runtime import Runtime
    from nbstream.mail.message import Message
    from nbstream.store.stream_queue import QueueBacklog, QueueEntry, StreamQueue

_log = logging.getLogger(__name__)

LISTENER_NAME = "stream"

_RENEW_SECONDS = 2.0

Result = TypeVar("Result")


class StreamObserver(Protocol):
    """What the listener reports beside what its message service does; metrics are the reader."""

    def entry_finished(self, outcome: str) -> None:
        """What became of one entry: answered, refused, repeated (it had an answer), claimed, dead, lost."""

    def backlog_measured(self, standing: QueueBacklog) -> None:
        """So much is waiting."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """The limits: of a message, of the entries under way, and ``claim_seconds`` as the queue has them."""

    max_message_bytes: int = 10 << 20
    max_in_flight: int = 16
    claim_seconds: float = 60.0


class StreamListener:
    """Answers a queue's entries; ``run`` does it until ``drain`` or cancellation."""

    def __init__(
        self,
        queue: StreamQueue,
        limits: StreamLimits,
        byte_budget: ByteBudget,
        message_service: MessageService,
        observer: StreamObserver,
    ) -> None:
        self._queue = queue
        self._limits = limits
        self._message_service = message_service
        self._observer = observer
        self._byte_budget = byte_budget
        self._active_entries: dict[bytes, QueueEntry] = {}
        self._waiting = 0  # entries that wait for Redis
        self._waiting_logged = False
        self._changed = asyncio.Event()  # something that reading waits for
        self._draining = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()

    async def start(self, *sockets: socket.socket) -> asyncio.Task[None]:
        """Begin to answer entries, and return the task that does; there is no socket."""
        assert not sockets
        return asyncio.create_task(self.run(), name=LISTENER_NAME)

    def apply(self, runtime: Runtime) -> None:
        """Go by ``runtime`` from the next entry on."""
        self._message_service.apply(runtime)

    async def run(self) -> None:
        """Read and answer; returns when it is drained."""
        self._ended.clear()
        try:
            async with asyncio.TaskGroup() as group:
                keeping = group.create_task(self._renew_claims(), name="stream: keep")
                claiming = group.create_task(self._claim_abandoned(), name="stream: take over")
                await self._read(group)
                await claiming
                while self._active_entries:  # held until then
                    self._changed.clear()
                    await self._changed.wait()
                keeping.cancel()
            with suppress(StoreUnavailable):
                await self._queue.remove_idle_consumers(leave=True)
        finally:
            self._ended.set()

    async def drain(self, seconds: float) -> None:
        """Read no more and answer what is under way, for as long as ``seconds``; then ``run`` may be cancelled.

        What is left is taken over by another worker, or after the next start.
        """
        self._draining.set()
        self._changed.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    async def _read(self, group: asyncio.TaskGroup) -> None:
        """Read while there is room."""
        backoff = Backoff()
        while not self._draining.is_set():
            stop_if_cancelled()
            try:
                await self._queue.open()
                while room := await self._free_slots():
                    for entry in await self._queue.take(room):
                        self._begin(entry)
                        group.create_task(self._handle(entry), name="stream: entry")
                    if not self._waiting:
                        self._log_waiting(None)
                    backoff.reset()
            except StoreUnavailable as error:
                self._log_waiting(error)
                await self._pause(backoff.next_wait())

    async def _free_slots(self) -> int:
        """How many entries more may be read: half of all at least, not one by one; 0 when it is drained."""
        while not self._draining.is_set():
            stop_if_cancelled()
            room = self._limits.max_in_flight - len(self._active_entries)
            has_slots = 2 * room >= self._limits.max_in_flight
            if has_slots and not self._byte_budget.is_exhausted and not self._waiting:
                return room
            self._changed.clear()
            await self._changed.wait()
        return 0

    async def _claim_abandoned(self) -> None:
        """Try what others have left, one at a time; the first of failures in a row is logged."""
        failing = False
        while not self._draining.is_set():
            stop_if_cancelled()
            try:
                claim = await self._queue.claim()
                if claim is None:
                    await self._queue.remove_idle_consumers()
                failing = False
            except StoreUnavailable as error:
                if not failing:
                    _log.warning("nothing is taken over from other workers: %s", error)
                claim, failing = None, True
            if claim is None:
                await self._pause(self._limits.claim_seconds / 3)
                continue
            outcome, entry = claim.outcome, claim.entry
            self._observer.entry_finished(str(outcome))
            if outcome is ClaimOutcome.CLAIMED:
                self._begin(entry)
                await self._handle(entry)
            else:
                fields = {"listener": LISTENER_NAME, "entry": _printable_id(entry.stream_id)}
                told = "set aside" if outcome is ClaimOutcome.DEAD else "removed by others before it was answered"
                _log.warning("an entry was %s", told, extra={"fields": fields})

    async def _renew_claims(self) -> None:
        """Hold what is under way, and tell how much waits, until cancelled."""
        while True:
            stop_if_cancelled()
            with suppress(StoreUnavailable):  # the other two tell
                await self._queue.renew_claims(list(self._active_entries))
                self._observer.backlog_measured(await self._queue.backlog())
            await asyncio.sleep(min(_RENEW_SECONDS, self._limits.claim_seconds / 3))

    async def _pause(self, seconds: float) -> None:
        stop_if_cancelled()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()

    async def _handle(self, entry: QueueEntry) -> None:
        """Answer one entry, or leave it for another try."""
        started = time.perf_counter()
        try:
            result = await self._answer(entry)
            answer = wire.with_entry_ids(result.fields, entry.stream_id, entry.fields)
            written = await self._retry_while_unavailable(lambda: self._queue.answer(entry.stream_id, answer))
        except Exception as error:  # noqa: BLE001 - one entry is no reason to stop answering others
            self._message_service.report_fault()
            _log.error(
                "an entry failed: %s",
                error,
                exc_info=True,
                extra={"fields": {"entry": _printable_id(entry.stream_id)}},
            )
        else:
            self._report_answer(entry, result, written, time.perf_counter() - started)
        finally:
            self._end(entry)

    def _begin(self, entry: QueueEntry) -> None:
        """Count an entry as under way; its size is known only now that it is here."""
        self._active_entries[entry.stream_id] = entry
        self._byte_budget.reserve_anyway(entry.size)

    def _end(self, entry: QueueEntry) -> None:
        del self._active_entries[entry.stream_id]
        self._byte_budget.release(entry.size)
        self._changed.set()

    async def _answer(self, entry: QueueEntry) -> _EntryResult:
        try:
            request = wire.read_entry(entry.fields, self._limits.max_message_bytes)
            message = await self._parse_message(request)
            return await self._retry_while_unavailable(lambda: self._check_or_learn(request, message))
        except wire.UnreadableEntry as error:
            return _EntryResult(error=str(error))
        except NbstreamError as error:
            _log.warning("an entry is refused: %s", error)
            return _EntryResult(error=error_text(error))

    async def _parse_message(self, request: wire.StreamRequest) -> Message:
        if request.raw is None:
            return await self._message_service.parse_text(request.text or "")
        return await self._message_service.parse_mail(request.raw)

    async def _check_or_learn(self, request: wire.StreamRequest, message: Message) -> _EntryResult:
        """Check the message, or learn it; the answer goes by the recipient's rules."""
        service = self._message_service
        treatments = service.treatments_of([request.recipient] if request.recipient else [])
        if request.label is None:
            return _EntryResult(await service.try_check(message, treatments))
        lesson = await service.try_teach(message, request.label, request.sender)
        return _EntryResult(await service.decide(lesson.after, treatments), lesson.outcome)

    async def _retry_while_unavailable(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """The result of what needs Redis or its counts, when they are there; nothing more is read meanwhile."""
        backoff = Backoff()
        try:
            while True:
                stop_if_cancelled()
                try:
                    return await work()
                except StoreUnavailable as error:
                    self._log_waiting(error)
                    self._waiting += backoff.failures == 0
                await asyncio.sleep(backoff.next_wait())
        finally:
            self._waiting -= backoff.failures > 0

    def _log_waiting(self, error: StoreUnavailable | None) -> None:
        """Log when entries begin to wait, and when they go on; not each time."""
        if error and not self._waiting_logged:
            _log.warning("entries wait: %s", error)
        if self._waiting_logged and not error:
            _log.info("entries are read again")
        self._waiting_logged = error is not None

    def _report_answer(self, entry: QueueEntry, result: _EntryResult, written: bool, seconds: float) -> None:
        self._observer.entry_finished("repeated" if not written else "refused" if result.error else "answered")
        if written:
            self._message_service.report_answer(
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
    outcome: LessonOutcome | None = None
    error: str | None = None

    @property
    def fields(self) -> dict[str, str | bytes]:
        """The fields of the answer."""
        if self.check is None:
            return wire.refusal_fields(self.error or "")
        return wire.verdict_fields(self.check, self.outcome)


def _printable_id(place: bytes) -> str:
    return place.decode("ascii", "replace")
