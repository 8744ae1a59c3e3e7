"""A filter over a real Redis, for the tests of listeners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.filter import Filter, FilterParts, FilterPolicy
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.follower.follower import Follower
from nbstream.store.model.model import Model
from nbstream.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class OpenFilter:
    """A filter with its model and followed."""

    spam_filter: Filter
    model: Model
    followed: FollowedCounts


@asynccontextmanager
async def open_filter(
    client: Redis, metrics: DaemonMetrics, policy: FilterPolicy, *, follow: bool
) -> AsyncIterator[OpenFilter]:
    """A filter over the model of that Redis; without ``follow`` its follower stays empty."""
    async with AsyncExitStack() as stack:
        model = Model(client, "test", 3600)
        followed = FollowedCounts(model)
        if follow:
            task = asyncio.create_task(Follower(client, [followed]).run())
            stack.push_async_callback(asyncio.wait, [task])
            stack.callback(task.cancel)
            await followed.loaded.wait()
        parts = FilterParts(
            tokenizer=Tokenizer(),
            classifier=Classifier(),
            calibration=Calibration(),
            model=model,
            counts=followed,
            observer=metrics.filter,
        )
        spam_filter = Filter(parts, policy)
        yield OpenFilter(spam_filter, model, followed)
