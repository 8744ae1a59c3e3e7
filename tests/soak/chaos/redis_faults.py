"""The faults of Redis servers that run without sentinels, and of the connections to them."""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import suppress
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from tests.harness.redis.proxy import Fate
from tests.harness.waiting import until
from tests.soak.chaos.disks import full
from tests.soak.chaos.faults import Actions
from tests.soak.chaos.links import Link
from tests.soak.chaos.redis_group import DIRECT, READY_SECONDS, RedisGroup, RedisNode
from tests.soak.chaos.schedule import HOSTS, Event, Kind
from tests.soak.chaos.services import send_signal, stop_for

_FATES = {
    Kind.LOSE_REQUESTS: Fate.LOSE_REQUEST,
    Kind.LOSE_REPLIES: Fate.LOSE_REPLY,
    Kind.HANG_REPLIES: Fate.KEEP_REPLY,
}
_STREAMS = ("changes", "history", "in", "out")
"""The streams whose ids are times of Redis's clock."""


class RedisFaults:
    """The faults of the servers of a group."""

    def __init__(self, group: RedisGroup) -> None:
        self._group = group

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
            Kind.HAND_OVER: self._hand_over,
            Kind.HAND_OVER_KEEPING: self._hand_over,
            Kind.LOSE_PRIMARY: self._lose_primary,
            Kind.SPLIT_BRAIN: self._split_brain,
            Kind.KILL_REPLICA: self._kill_replica,
            Kind.STOP_REPLICA: self._stop_replica,
        }

    async def _end_redis(self, event: Event) -> None:
        await self._end_node(self._group.primary, event.seconds, kill=event.kind is Kind.KILL_REDIS)

    async def _end_node(self, node: RedisNode, seconds: float, *, kill: bool) -> None:
        children = node.pids()[1:]  # such as the one that rewrites the AOF
        await node.end(kill=kill)
        for pid in children:
            send_signal(pid, signal.SIGKILL)
        await asyncio.sleep(seconds)
        node.go_on()
        await self._group.wait_until_ready()

    async def _stop_redis(self, event: Event) -> None:
        await stop_for(self._group.primary.pids(), event.seconds)
        await self._group.wait_until_ready()

    async def _rewrite_and_kill_redis(self, event: Event) -> None:
        await self._ask_redis("BGREWRITEAOF")
        await asyncio.sleep(event.seconds)
        await self._end_node(self._group.primary, 0.0, kill=True)

    async def _hand_over(self, event: Event) -> None:
        group, successor = self._group, self._replica(event)
        await group.hand_over(successor)
        if event.kind is Kind.HAND_OVER:
            for name in HOSTS:
                group.links[name].cut()
        await group.wait_until_ready()

    async def _lose_primary(self, event: Event) -> None:
        """Kill the primary and promote a replica at once, whatever has not reached it."""
        group, former, successor = self._group, self._group.primary, self._replica(event)
        await former.end(kill=True)
        await self._promote(successor)
        group.move(successor)
        former.primary_port = successor.port
        former.go_on()
        await group.wait_until_ready()

    async def _split_brain(self, event: Event) -> None:
        """Promote a replica while one host still uses the former primary; then that one follows, and loses it."""
        group, former, successor = self._group, self._group.primary, self._replica(event)
        left_behind = HOSTS[event.draw % len(HOSTS)]
        await self._promote(successor)
        group.move(successor, [name for name in (*HOSTS, DIRECT) if name != left_behind])
        for name in HOSTS:
            if name != left_behind:
                group.links[name].cut()
        await asyncio.sleep(event.seconds)
        group.move(successor)
        await until(partial(_follows, former, successor), READY_SECONDS)
        await group.wait_until_ready()

    async def _promote(self, replica: RedisNode) -> None:
        await until(partial(_follows, replica, None), READY_SECONDS)

    async def _kill_replica(self, event: Event) -> None:
        await self._end_node(self._replica(event), event.seconds, kill=True)

    async def _stop_replica(self, event: Event) -> None:
        await stop_for(self._replica(event).pids(), event.seconds)
        await self._group.wait_until_ready()

    def _replica(self, event: Event) -> RedisNode:
        replicas = self._group.replicas
        return replicas[event.draw % len(replicas)]

    async def _fill_redis_memory(self, event: Event) -> None:
        await self._ask_redis("CONFIG SET", "maxmemory", "1")
        await asyncio.sleep(event.seconds)
        await self._ask_redis("CONFIG SET", "maxmemory", "0")

    async def _fill_redis_disk(self, event: Event) -> None:
        async with full(self._group.disk):
            await asyncio.sleep(event.seconds)
        await self._group.wait_until_ready()

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
                info: Any = await self._group.primary.client.xinfo_stream(key)
                last = int(info["last-generated-id"].partition(b"-")[0])
                await self._execute("XSETID", key, f"{last + milliseconds}-0")

    async def _kill_clients(self, _: Event) -> None:
        await self._ask_redis("CLIENT KILL", "TYPE", "normal", "SKIPME", "yes")

    async def _ask_redis(self, *words: str) -> None:
        with suppress(RedisError):  # another fault has hit it
            await self._execute(*words)

    async def _execute(self, *words: str) -> None:
        await self._group.primary.client.execute_command(*words)  # type: ignore[no-untyped-call]  # of redis-py


class LinkFaults:
    """The faults of the connections to a group."""

    def __init__(self, group: RedisGroup) -> None:
        self._links = group.links

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


async def _follows(node: RedisNode, primary: RedisNode | None) -> bool:
    """Make a server follow that primary, or none; return whether it took the command."""
    try:
        await node.follow(primary)
    except RedisError:
        return False
    return True
