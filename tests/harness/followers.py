"""Followers of each kind: counts of Python, and in a table of the native library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, TypeAlias

from redis.asyncio import Redis

from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.follower.follower import Followed, Follower
from nbstream.store.model.model import Model
from tests.harness.native import native_library
from tests.harness.waiting import DEADLINE_SECONDS

Kind: TypeAlias = Literal["python", "native"]
KINDS: tuple[Kind, ...] = ("python", "native")


@asynccontextmanager
async def following(client: Redis, *followed: Followed) -> AsyncIterator[None]:
    """Run a follower from the moment at which all has been loaded."""
    task = asyncio.create_task(Follower(client, followed).run())
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            for part in followed:
                await part.loaded.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def running(followed: FollowedCounts) -> AsyncIterator[FollowedCounts]:
    """Run a follower from the moment at which it has loaded."""
    async with following(followed.model.client, followed):
        yield followed


def counts_of_kind(model: Model, kind: Kind) -> AbstractAsyncContextManager[FollowedCounts]:
    """Run a follower of this kind."""
    return running(FollowedCounts(model, native_library() if kind == "native" else None))
