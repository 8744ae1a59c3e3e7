"""Writers: each teaches one model a plan of lessons, one after the other, in this process or in another one."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from multiprocessing.context import ForkServerProcess
from typing import TypeAlias

import uvloop
from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.bayes.columns import CLASSES
from nbstream.errors import StoreUnavailable
from nbstream.filter import Filter, FilterParts, FilterPolicy
from nbstream.mail.message import Message
from nbstream.policy.feedback_source import FeedbackSource
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from nbstream.tokens.tokenizer import Tokenizer
from tests.harness.filters import labelled
from tests.harness.samples import samples
from tests.harness.waiting import DEADLINE_SECONDS

Plan = Sequence[tuple[int, str | None]]
"""Which letter is learned as what; None unlearns it."""

PlanWriter: TypeAlias = Callable[[str, Sequence[Plan]], Coroutine[None, None, None]]
"""What teaches all plans at once over connections to a URL: ``write`` or ``write_in_bulk``."""

LETTERS = [Message.parse(raw) for _, raw in samples(200)]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["__main__", __name__])  # else each process imports for a second


def filter_of(client: Redis) -> Filter:
    """A filter that reads and teaches the model ``test``."""
    model = Model(client, "test", 3600)
    return Filter(
        FilterParts(
            tokenizer=Tokenizer(),
            classifier=Classifier(),
            calibration=Calibration(),
            model=model,
            counts=model,
        ),
        FilterPolicy(ThresholdPolicy(), {}),
    )


async def teach(spam_filter: Filter, plan: Plan) -> None:
    """Teach the plan as people do: a lesson that was not acknowledged is taught again."""
    for number, label in plan:
        while True:
            try:
                if label:
                    await spam_filter.learn(LETTERS[number], label, "test")
                else:
                    await spam_filter.unlearn(LETTERS[number], "test")
                break
            except StoreUnavailable:
                await asyncio.sleep(0.01)  # Redis may be away


async def write(url: str, plans: Sequence[Plan]) -> None:
    """Teach all plans at once, each by a writer with a connection of its own."""
    clients = [open_client(ConnectionOptions(url)) for _ in plans]
    await asyncio.gather(*(teach(filter_of(client), plan) for client, plan in zip(clients, plans, strict=True)))
    for client in clients:
        await client.aclose()


async def write_in_bulk(url: str, plans: Sequence[Plan]) -> None:
    """Teach all plans at once, in batches of what has the same label."""
    clients = [open_client(ConnectionOptions(url)) for _ in plans]
    await asyncio.gather(*(teach_in_bulk(client, plan) for client, plan in zip(clients, plans, strict=True)))
    for client in clients:
        await client.aclose()


async def teach_in_bulk(client: Redis, plan: Plan) -> None:
    """Teach a plan in batches of what has the same label, into a model of the present schema.

    Where Redis was away, all of it is taught again.
    """
    while True:
        try:
            spam_filter = filter_of(client)
            assert isinstance(spam_filter.parts.model, Model)
            await spam_filter.parts.model.open()
            for label, part in itertools.groupby(plan, key=lambda step: step[1]):
                numbers = [number for number, _ in part]
                await spam_filter.learn_many(
                    labelled(_messages_of(numbers), label), FeedbackSource("test", ""), lambda _: None
                )
        except StoreUnavailable:
            await asyncio.sleep(0.01)  # Redis may be away
        else:
            return


async def _messages_of(numbers: Sequence[int]) -> AsyncIterator[Message]:
    for number in numbers:
        yield LETTERS[number]


def random_plans(seed: int, writers: int, messages: int, steps: int) -> list[Plan]:
    """Plans with common messages: every writer teaches the same ones."""
    draw = random.Random(seed)
    return [
        [(draw.randrange(messages), draw.choice((*CLASSES, None))) for _ in range(steps)] for _ in range(writers)
    ]


def _main(write_all: PlanWriter, url: str, plans: Sequence[Plan]) -> None:
    uvloop.run(write_all(url, plans))


@asynccontextmanager
async def other_process(
    url: str, plans: Sequence[Plan], write_all: PlanWriter = write
) -> AsyncIterator[ForkServerProcess]:
    """A process that calls ``write_all``; it is killed at the end if it still runs."""
    process = _context.Process(target=_main, args=(write_all, url, plans))
    await asyncio.to_thread(process.start)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.join)
        process.close()


async def wait_until_written(process: ForkServerProcess, seconds: float = DEADLINE_SECONDS) -> None:
    """Return when that process has taught all its plans."""
    await asyncio.to_thread(process.join, seconds)
    assert process.exitcode == 0


async def has_changed(model: Model, times: int) -> bool:
    return int(await model.client.get(model.keys.sequence) or 0) >= times
