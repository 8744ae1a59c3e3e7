"""Mirrors of each kind: counts of Python, and in a table of the native library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, TypeAlias

from redis.asyncio import Redis

from nbstream.store.mirror.follower import Followed, Follower
from nbstream.store.mirror.mirror import Mirror
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
async def running(mirror: Mirror) -> AsyncIterator[Mirror]:
    """Run a mirror from the moment at which it has loaded."""
    async with following(mirror.model.client, mirror):
        yield mirror


def mirroring(model: Model, kind: Kind) -> AbstractAsyncContextManager[Mirror]:
    """Run a mirror of this kind."""
    return running(Mirror(model, native_library() if kind == "native" else None))
