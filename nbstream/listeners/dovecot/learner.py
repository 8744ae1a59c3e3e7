"""Learns what is in the spool, in its order, in one process at a time.

Rules:

- Of several workers the one that has the learner's lock learns. When it ends, however it ends, another one takes
  the lock.
- While Redis is away, or refuses to write, the message stays where it is and is tried again. An attempt that ends
  by a fault, or with the process, is counted; after ``MAX_TRIES`` of them the message is set aside.
- A label reinforces only in its first attempt: what may be a repetition of ours must not be taken for a person who
  says it again (``policy.feedback_source``).
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from nbstream.errors import CountsFull, StoreUnavailable
from nbstream.listeners.dovecot.spool import measure_backlog
from nbstream.logs import event_fields
from nbstream.policy.feedback_source import Reinforcement, user_of_actor
from nbstream.store.backoff import Backoff

if TYPE_CHECKING:
    from nbstream.file_locks import FileLock
    from nbstream.listeners.dovecot.spool import Spool, SpoolBacklog, SpoolEntry
    from nbstream.metrics import MetricsRegistry
    from nbstream.server.message_service import MessageService

_log = logging.getLogger(__name__)

MAX_TRIES = 3
_POLL_SECONDS = 0.5  # until a message is seen that another worker has accepted, or a lock that was given back
_PUT_BACK_SECONDS = 2.0  # on a disk that hangs, when the daemon ends
_OUTCOMES = ("spooled", "refused", "learned", "failed")
_SECONDS = (0.1, 1, 10, 60, 600, 3600, 86400)


class SpoolMetrics:
    """Counts what goes into the spool and out of it.

    The names of metrics are a contract; they are exported only where the listener is configured.
    """

    def __init__(self, registry: MetricsRegistry) -> None:
        self._messages = Counter(
            "nbstream_spool_messages",
            "Spooled messages, by outcome: spooled, refused (the spool is full or the disk fails), learned, "
            "failed (set aside). Only with listeners.dovecot.",
            ["outcome"],
            registry=registry.counts,
        )
        for outcome in _OUTCOMES:
            self._messages.labels(outcome)
        self._delay = Histogram(
            "nbstream_spool_delay_seconds",
            "Seconds between spooling a message and learning it. Only with listeners.dovecot.",
            registry=registry.counts,
            buckets=_SECONDS,
        )
        self._waiting = self._gauge(
            registry, "waiting", "Messages waiting in the spool. Only with listeners.dovecot."
        )
        self._oldest = self._gauge(
            registry,
            "oldest_seconds",
            "Seconds that the oldest spooled message has been waiting; 0 if there is none. Only with "
            "listeners.dovecot.",
        )
        self._failed = self._gauge(
            registry,
            "failed",
            "Messages set aside because they could not be learned. Only with listeners.dovecot.",
        )

    @staticmethod
    def _gauge(registry: MetricsRegistry, name: str, text: str) -> Gauge:
        # One worker measures; when it has ended, another one does.
        return Gauge(f"nbstream_spool_{name}", text, registry=registry.counts, multiprocess_mode="livemostrecent")

    def count(self, outcome: str) -> None:
        """Count a message that is in the spool, was refused or was set aside."""
        self._messages.labels(outcome).inc()

    def learned_from_spool(self, seconds: float) -> None:
        """Count a message that was learned so many seconds after it had come."""
        self.count("learned")
        self._delay.observe(seconds)

    def backlog_measured(self, backlog: SpoolBacklog) -> None:
        """Note how much waits."""
        self._waiting.set(backlog.waiting)
        self._oldest.set(backlog.oldest_seconds(time.time()))
        self._failed.set(backlog.failed)


class SpoolLearner:
    """Learns from the spool until it is drained."""

    def __init__(self, spool: Spool, message_service: MessageService, observer: SpoolMetrics) -> None:
        self._spool = spool
        self._message_service = message_service
        self._observer = observer
        self._wake = asyncio.Event()
        self._draining = asyncio.Event()
        self._has_spool = self._is_failing = False

    def wake(self) -> None:
        """Note that there is a message."""
        self._wake.set()

    async def run(self) -> None:
        """Learn whenever this process has the lock. It ends after ``drain``, and fails for no reason."""
        backoff = Backoff()
        while not self._draining.is_set():
            try:
                await self._learn_with_lock(backoff)
            except Exception as error:  # noqa: BLE001 - a disk that fails must not end the daemon
                self._log_failure(error)
                await self._pause(backoff.next_wait())

    def drain(self) -> None:
        """End after the message in hand; what waits is learned after the next start."""
        self._draining.set()
        self._wake.set()

    async def _learn_with_lock(self, backoff: Backoff) -> None:
        with await asyncio.to_thread(self._spool.open_lock) as lock:
            if not await self._has_lock(lock):
                return
            self._has_spool = True
            try:
                await self._learn_all(backoff)
            finally:
                self._has_spool = False

    async def _has_lock(self, lock: FileLock) -> bool:
        """Wait for the lock; return False if draining begins before."""
        while not lock.try_lock(fcntl.LOCK_EX):
            await self._pause(_POLL_SECONDS)
            if self._draining.is_set():
                return False
        return True

    async def _learn_all(self, backoff: Backoff) -> None:
        learned: SpoolEntry | None = None
        while not self._draining.is_set():
            self._wake.clear()
            if entry := await self._spool.take(learned):  # both in one write to the disk
                learned = entry if await self._try_entry(entry, backoff) else None
                continue
            learned = None
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._wake.wait()
        if learned:
            await self._spool.finish(learned)

    async def _try_entry(self, entry: SpoolEntry, backoff: Backoff) -> bool:
        """Make one attempt; return whether it was learned.

        Else what became of it is written down, after a wait where it has to be made again.
        """
        if entry.tries >= MAX_TRIES:
            await self._spool.set_aside(entry)
            self._observer.count("failed")
            fields = event_fields(listener="dovecot", label=entry.message.label, actor=entry.message.actor)
            _log.error("a spooled message cannot be learned and was set aside", extra=fields)
            return False
        try:
            await self._learn(entry)
        except asyncio.CancelledError:
            with suppress(TimeoutError):  # else the attempt is counted, as that of a process that was killed
                async with asyncio.timeout(_PUT_BACK_SECONDS):
                    await self._spool.put_back(entry)
            raise
        except (StoreUnavailable, CountsFull) as error:
            await self._spool.put_back(entry)
            self._log_failure(error)
            await self._pause(backoff.next_wait())
            return False
        except Exception as error:  # noqa: BLE001 - a fault in one message must not stop the others
            self._message_service.metrics.filter_failed("error")
            _log.error("dovecot: a lesson failed: %s", error, exc_info=True)
            await self._pause(backoff.next_wait())
            return False
        backoff.reset()
        self._observer.learned_from_spool(max(0.0, time.time() - entry.message.received_at))
        if self._is_failing:
            self._is_failing = False
            _log.info("spooled messages are being learned again")
        return True

    async def _learn(self, entry: SpoolEntry) -> None:
        message = entry.message
        handler = self._message_service.message_handler()
        reinforcement = Reinforcement.NEVER if entry.was_tried else Reinforcement.AFTER_PAUSE
        parsed = await handler.parse_taught_mail(message.content)
        user = user_of_actor(message.actor)
        await handler.try_learn(parsed, message.label, message.actor, reinforcement, user=user)

    async def measure(self) -> None:
        """Report the backlog, where this process learns from the spool. Raises ``OSError``."""
        if self._has_spool:
            self._observer.backlog_measured(await asyncio.to_thread(measure_backlog, self._spool.state_dir))

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._draining.wait()

    def _log_failure(self, error: Exception) -> None:
        """Log the first of several failures."""
        if not self._is_failing:
            is_expected = isinstance(error, OSError | StoreUnavailable | CountsFull)
            _log.warning("messages are waiting in the spool: %s", error, exc_info=not is_expected)
        self._is_failing = True
