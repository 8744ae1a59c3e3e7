"""A stream listener with all of its real parts: Redis, follower, filter. Its filter has faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.errors import CountsFull
from nbstream.filter import (
    Check,
    CheckSeconds,
    FeedbackResult,
    Filter,
    FilterParts,
    FilterPolicy,
    LessonMessage,
)
from nbstream.listeners.stream import queue as stream_queue
from nbstream.listeners.stream.listener import StreamListener, StreamMetrics
from nbstream.mail.message import Message
from nbstream.policy.feedback_source import Reinforcement
from nbstream.policy.recipient_rules import RecipientRules
from nbstream.server.background import BackgroundTasks
from nbstream.server.limits import BytesInFlight
from nbstream.server.message_service import MessageService
from nbstream.server.runtime import Runtime
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.follower.follower import Follower
from nbstream.store.model.model import Model
from nbstream.tokens.tokenizer import Tokenizer
from tests.harness.runtimes import RULES, make_runtime
from tests.harness.waiting import until

SPAM = "win a free prize now, claim your cash"
HAM = "shall we have lunch on friday with ann"
FAULTS = "nbstream_filter_failures_total"


class FaultyFilter(Filter):
    """A filter with faults: by the text of a message it fails (``times`` times), ends its worker, or waits."""

    def __init__(self, parts: FilterParts, policy: FilterPolicy) -> None:
        super().__init__(parts, policy)
        self.times = 0
        self.error: Exception = RuntimeError("a fault")
        self.begun: list[str] = []
        self.go, self.late = asyncio.Event(), asyncio.Event()
        self.die: Callable[[], object] = lambda: None

    async def score(self, message: Message) -> tuple[Check, CheckSeconds]:
        text = message.raw.decode("utf-8", "replace")
        self.begun.append(text)
        if "slow" in text:
            await self.go.wait()
        if "late" in text:
            await self.late.wait()
        if "lengthy" in text:
            await asyncio.sleep(0.05)
        if "deadly" in text:
            self.die()
            await asyncio.Event().wait()
        if "poison" in text and self.times:
            self.times -= 1
            raise self.error
        return await super().score(message)

    async def learn(
        self,
        message: LessonMessage,
        label: str,
        source: str,
        actor: str = "",
        reinforcement: Reinforcement = Reinforcement.NEVER,
        reinforced_version: str | None = None,
    ) -> FeedbackResult:
        if isinstance(self.error, CountsFull):
            raise self.error
        return await super().learn(message, label, source, actor, reinforcement, reinforced_version)


@dataclass
class Worker:
    """A running stream listener, as one of the workers of the queue."""

    listener: StreamListener
    runtime: Runtime
    service: MessageService
    filter: FaultyFilter
    queue: stream_queue.StreamQueue
    model: Model
    followed: FollowedCounts
    metrics: DaemonMetrics
    client: Redis
    background: BackgroundTasks
    stack: AsyncExitStack = field(repr=False)
    death: asyncio.Task[None] | None = None

    def die(self) -> None:
        """End with whatever is in hand."""
        self.death = asyncio.create_task(self.background.stop())

    async def add(self, **fields: str | bytes) -> bytes:
        stream_id: Any = await self.client.xadd(self.model.keys.incoming, dict(fields))  # type: ignore[arg-type]
        return bytes(stream_id)

    async def answers(self) -> list[Mapping[str, str]]:
        entries: Any = await self.client.xrange(self.model.keys.outgoing)
        return [{name.decode(): value.decode() for name, value in fields.items()} for _, fields in entries]

    async def answer(self, **fields: str | bytes) -> Mapping[str, str]:
        """Add an entry and return its answer."""
        stream_id = (await self.add(**fields)).decode()
        await self.answered(stream_id)
        (answer,) = [answer for answer in await self.answers() if answer["entry"] == stream_id]
        return answer

    async def answered(self, *stream_ids: str) -> None:
        async def all_are() -> bool:
            return {*stream_ids} <= {answer["entry"] for answer in await self.answers()}

        await until(all_are)

    def entries(self, outcome: str) -> float:
        name = "nbstream_stream_entries_total"
        return self.metrics.registry.counts.get_sample_value(name, {"outcome": outcome}) or 0.0


@asynccontextmanager
async def working(
    client: Redis, url: str, *, rules: RecipientRules = RULES, tries: int = 3, follow: bool = True, **options: Any
) -> AsyncIterator[Worker]:
    claim_seconds = options.pop("claim_seconds", 60.0)
    timeout = options.pop("timeout", 5.0)
    async with AsyncExitStack() as stack:
        model, metrics = Model(client, "test", 3600), DaemonMetrics.create(PYTHON)
        followed = FollowedCounts(model)
        following = asyncio.create_task(Follower(client, [followed]).run() if follow else asyncio.Event().wait())
        stack.push_async_callback(asyncio.wait, [following])
        stack.callback(following.cancel)
        if follow:
            await followed.loaded.wait()
        others = tuple(rule.policy for rule in rules.rules)
        parts = FilterParts(
            tokenizer=Tokenizer(),
            classifier=Classifier(),
            calibration=Calibration(),
            model=model,
            counts=followed,
            observer=metrics.filter,
        )
        spam_filter = FaultyFilter(parts, FilterPolicy(rules.default.policy, {"spam": 1, "ham": 1}, others))
        blocking = open_client(ConnectionOptions(url, timeout_seconds=timeout), retries=0)
        stack.push_async_callback(blocking.aclose)
        queue = stream_queue.StreamQueue(
            client, blocking, model.keys, timeout, claim_seconds=claim_seconds, tries=tries
        )
        bytes_in_flight = BytesInFlight(options.pop("max_bytes_in_flight", 64 << 20))
        runtime = make_runtime(spam_filter, rules=rules)
        service = MessageService("stream", runtime, metrics.delivery, None, bytes_in_flight)
        background = BackgroundTasks(metrics.process.background_failed)
        listener = StreamListener(queue, service, background, StreamMetrics(metrics.registry), **options)
        worker = Worker(
            listener, runtime, service, spam_filter, queue, model, followed, metrics, client, background, stack
        )
        spam_filter.die = worker.die
        await listener.start()
        stack.push_async_callback(background.stop)
        yield worker
