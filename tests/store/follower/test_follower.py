"""``nbstream.store.follower.follower``, whatever is followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from nbstream.bayes.counts import NO_CHANGE
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.connection import ConnectionOptions, Primary, open_client
from nbstream.store.follower.follower import Followed, Follower, StreamEntries, position_of
from tests.harness.followers import following
from tests.harness.redis.moving_address import moving_address
from tests.harness.redis.redis_server import RedisServer
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


HOUR = 3600.0


async def waits(client: Redis) -> bool:
    """Whether a client of the server waits for an entry."""
    return bool((await client.info("clients"))["blocked_clients"])


@asynccontextmanager
async def patient_follower(url: str) -> AsyncIterator[tuple[Follower, LastEntry, Redis]]:
    """A follower of an empty stream that waits for an hour, from the moment at which it does."""
    options, primary = ConnectionOptions(url, timeout_seconds=1), Primary()
    async with (
        open_client(options, primary=primary) as client,
        open_client(options, 0, primary, 2 * HOUR) as blocking_client,
    ):
        part = LastEntry(client, "stream")
        follower = Follower(blocking_client, [part], block_seconds=HOUR)
        running = asyncio.create_task(follower.run())
        try:
            await until(lambda: waits(client))
            yield follower, part, client
        finally:
            await cancel_and_wait(running)


async def test_an_idle_follower_asks_nothing_while_the_watch_finds_the_same_server(own_redis: RedisServer) -> None:
    async with patient_follower(own_redis.url) as (follower, part, client):
        await client.config_resetstat()

        for _ in range(5):
            await follower.watch(client)

        asked = {name.removeprefix("cmdstat_").split("|")[0] for name in await client.info("commandstats")}
        assert asked <= {"config", "hello", "client", "role", "info"}
        assert part.is_current
        assert part.loads == 1


async def test_a_wait_ends_when_the_watch_reaches_another_primary(own_redis: RedisServer, tmp_path: Path) -> None:
    async with (
        moving_address(own_redis, tmp_path) as address,
        patient_follower(address.url) as (follower, part, client),
    ):
        address.proxy.target = address.pair.replica.socket  # the open connections stay

        await follower.watch(client)

        await until(lambda: part.loads == 2 and part.is_current)


async def test_a_wait_ends_when_the_watch_reaches_no_server(own_redis: RedisServer) -> None:
    async with patient_follower(own_redis.url) as (follower, part, client):
        own_redis.hang()
        await follower.watch(client)
        await until(lambda: not part.is_current)
        own_redis.go_on()

        await until(lambda: part.is_current)
