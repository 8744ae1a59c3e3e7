"""The faults of Redis, and of the connections to it."""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from tests.harness.redis.proxy import Fate
from tests.soak.chaos.disks import full
from tests.soak.chaos.faults import Actions
from tests.soak.chaos.links import Link
from tests.soak.chaos.redis_service import RedisService
from tests.soak.chaos.schedule import Event, Kind
from tests.soak.chaos.services import send_signal, stop_for

_FATES = {
    Kind.LOSE_REQUESTS: Fate.LOSE_REQUEST,
    Kind.LOSE_REPLIES: Fate.LOSE_REPLY,
    Kind.HANG_REPLIES: Fate.KEEP_REPLY,
}
_STREAMS = ("changes", "history", "in", "out")
"""The streams whose ids are times of Redis's clock."""


class RedisFaults:
    """The faults of the server."""

    def __init__(self, redis: RedisService) -> None:
        self._redis = redis

    @property
    def actions(self) -> Actions:
        return {
            Kind.KILL_REDIS: self._end_redis,
            Kind.TERMINATE_REDIS: self._end_redis,
            Kind.STOP_REDIS: self._stop_redis,
            Kind.REWRITE_AND_KILL_REDIS: self._rewrite_and_kill_redis,
            Kind.FULL_REDIS_MEMORY: self._fill_redis_memory,
            Kind.FULL_REDIS_DISK: self._fill_redis_disk,
            Kind.FLUSH_SCRIPTS: self._flush_scripts,
            Kind.CLOCK_JUMP: self._clock_jump,
            Kind.KILL_CLIENTS: self._kill_clients,
        }

    async def _end_redis(self, event: Event) -> None:
        await self._end(event.seconds, kill=event.kind is Kind.KILL_REDIS)

    async def _end(self, seconds: float, *, kill: bool) -> None:
        children = self._redis.pids()[1:]  # such as the one that rewrites the AOF
        await self._redis.end(kill=kill)
        for pid in children:
            send_signal(pid, signal.SIGKILL)
        await asyncio.sleep(seconds)
        self._redis.go_on()
        await self._redis.wait_until_ready()

    async def _stop_redis(self, event: Event) -> None:
        await stop_for(self._redis.pids(), event.seconds)
        await self._redis.wait_until_ready()

    async def _rewrite_and_kill_redis(self, event: Event) -> None:
        await self._ask_redis("BGREWRITEAOF")
        await asyncio.sleep(event.seconds)
        await self._end(0.0, kill=True)

    async def _fill_redis_memory(self, event: Event) -> None:
        await self._ask_redis("CONFIG SET", "maxmemory", "1")
        await asyncio.sleep(event.seconds)
        await self._ask_redis("CONFIG SET", "maxmemory", "0")

    async def _fill_redis_disk(self, event: Event) -> None:
        async with full(self._redis.disk):
            await asyncio.sleep(event.seconds)
        await self._redis.wait_until_ready()

    async def _flush_scripts(self, _: Event) -> None:
        await self._ask_redis("SCRIPT FLUSH")

    async def _clock_jump(self, event: Event) -> None:
        """Let the clock have been ahead when the last entry of each stream was added.

        A stream never steps back: its ids go on from there, until the clock has caught up.
        """
        milliseconds = round(event.seconds * 1000)
        for name in _STREAMS:
            key = f"nbstream:{{default}}:{name}"
            with suppress(RedisError):  # there is no such stream yet, or another fault has hit Redis
                info: Any = await self._redis.admin.xinfo_stream(key)
                last = int(info["last-generated-id"].partition(b"-")[0])
                await self._execute("XSETID", key, f"{last + milliseconds}-0")

    async def _kill_clients(self, _: Event) -> None:
        await self._ask_redis("CLIENT KILL", "TYPE", "normal", "SKIPME", "yes")

    async def _ask_redis(self, *words: str) -> None:
        with suppress(RedisError):  # another fault has hit it
            await self._execute(*words)

    async def _execute(self, *words: str) -> None:
        await self._redis.admin.execute_command(*words)  # type: ignore[no-untyped-call]  # of redis-py


class LinkFaults:
    """The faults of the connections to it."""

    def __init__(self, redis: RedisService) -> None:
        self._links = redis.links

    @property
    def actions(self) -> Actions:
        return {
            Kind.CUT_LINK: self._cut_link,
            Kind.CUT_REPLIES: self._cut_replies,
            Kind.SLOW_LINK: self._slow_link,
            Kind.PARTITION: self._partition,
            **dict.fromkeys(_FATES, self._spoil_link),
        }

    def _link(self, event: Event) -> Link:
        return self._links[event.target]

    async def _cut_link(self, event: Event) -> None:
        self._link(event).cut()

    async def _spoil_link(self, event: Event) -> None:
        link = self._link(event)
        link.spoil(_FATES[event.kind], 0.3, event.draw)
        await asyncio.sleep(event.seconds)
        link.heal()

    async def _cut_replies(self, event: Event) -> None:
        generator, link = random.Random(event.draw), self._link(event)
        for _ in range(round(event.seconds * 10)):
            link.reply_bytes = generator.randrange(5000)
            await asyncio.sleep(0.1)
        link.heal()

    async def _slow_link(self, event: Event) -> None:
        link = self._link(event)
        link.delay(0.5, event.draw)
        await asyncio.sleep(event.seconds)
        link.heal()

    async def _partition(self, event: Event) -> None:
        """Every second partition breaks the connections, in the others nothing arrives."""
        link = self._link(event)
        if event.draw % 2:
            link.spoil(Fate.LOSE_REQUEST, 1.0, event.draw)
            link.cut()
        else:
            link.hold()
        await asyncio.sleep(event.seconds)
        link.heal()
