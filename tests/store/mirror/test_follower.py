"""``nbstream.store.mirror.follower``, whatever is followed."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import Redis

from nbstream.bayes.counts import NO_CHANGE
from nbstream.store.mirror.follower import Followed, StreamEntries, position_of
from tests.harness.mirrors import following
from tests.harness.waiting import until


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

    assert part.loads <= 6


class LastEntry(Followed):
    """The position of the last entry of a stream."""

    def __init__(self, client: Redis, stream: str) -> None:
        super().__init__(stream)
        self._client = client
        self.loads = 0

    async def load(self) -> None:
        self.loads += 1
        entries: Any = await self._client.xrevrange(self.stream, count=1)
        self.position = position_of(*entries[0]) if entries else NO_CHANGE

    async def apply(self, entries: StreamEntries) -> None:
        self.position = position_of(*entries[-1])


async def test_where_one_stream_is_gone_all_is_loaded_anew_though_others_go_on(client: Redis) -> None:
    quiet, busy = LastEntry(client, "quiet"), LastEntry(client, "busy")
    for part in (quiet, busy):
        await client.xadd(part.stream, {"sequence": 1})

    async with following(client, quiet, busy):
        await client.delete(quiet.stream)
        await client.xadd(busy.stream, {"sequence": 2})
        await until(lambda: quiet.position == NO_CHANGE)

    assert quiet.loads > 1
