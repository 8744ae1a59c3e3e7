"""``nbstream.store.mirror.follower``, whatever is followed."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from nbstream.store.mirror.follower import Followed
from tests.store.mirror.mirrors import following


class CountedLoads(Followed):
    """Something that can always be loaded."""

    loads = 0

    async def load(self) -> None:
        self.loads += 1


async def test_what_cannot_be_followed_is_loaded_ever_more_rarely(client: Redis) -> None:
    await client.set("stream", "no stream")  # and so XREAD is refused
    part = CountedLoads("stream")

    async with following(client, part):
        await asyncio.sleep(2)

    assert 2 <= part.loads <= 6
