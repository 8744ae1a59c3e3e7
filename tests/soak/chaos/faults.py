"""Carries out the events of a schedule.

Rules: events at one target are carried out one after the other, those at different targets at the same time. A
fault has ended when what it hit works again; then the journal says from when to when it was.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError

from tests.soak.chaos import disks
from tests.soak.chaos.journal import Fault
from tests.soak.chaos.next_hop import Mood
from tests.soak.chaos.redis_group import RedisNode
from tests.soak.chaos.schedule import HOSTS, Event, Kind
from tests.soak.chaos.services import send_signal
from tests.soak.chaos.site import Host, Site
from tests.store.proxy import Fate

_FATES = {
    Kind.LOSE_REQUESTS: Fate.LOSE_REQUEST,
    Kind.LOSE_REPLIES: Fate.LOSE_REPLY,
    Kind.HANG_REPLIES: Fate.KEEP_REPLY,
}
_MOODS = {
    Kind.HOP_REFUSES: Mood.REFUSES,
    Kind.HOP_HANGS: Mood.HANGS,
    Kind.HOP_DEFERS: Mood.DEFERS,
    Kind.HOP_DIES_AFTER_DATA: Mood.DIES_AFTER_DATA,
}
_REDIS_WRITES = ("changes", "history", "in", "out")
"""The streams whose ids are times of Redis's clock."""


class Faults:
    """The faults of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._locks = {target: asyncio.Lock() for target in (*HOSTS, "redis", "hop")}
        self._actions: dict[Kind, Callable[[Event], Awaitable[None]]] = {
            Kind.KILL_DAEMON: self._kill_daemon,
            Kind.TERMINATE_DAEMON: self._terminate_daemon,
            Kind.STOP_DAEMON: self._stop_daemon,
            Kind.KILL_SUPERVISOR: self._kill_supervisor,
            Kind.KILL_WORKER: self._signal_worker,
            Kind.TERMINATE_WORKER: self._signal_worker,
            Kind.STOP_WORKER: self._stop_worker,
            Kind.ROLLING_RESTART: self._rolling_restart,
            Kind.RELOAD: self._reload,
            Kind.REFUSED_RELOAD: self._refused_reload,
            Kind.KILL_REDIS: self._end_redis,
            Kind.TERMINATE_REDIS: self._end_redis,
            Kind.STOP_REDIS: self._stop_redis,
            Kind.REWRITE_AND_KILL_REDIS: self._rewrite_and_kill_redis,
            Kind.FULL_REDIS_MEMORY: self._fill_redis_memory,
            Kind.FULL_REDIS_DISK: self._fill_redis_disk,
            Kind.FLUSH_SCRIPTS: self._flush_scripts,
            Kind.CLOCK_JUMP: self._clock_jump,
            Kind.KILL_CLIENTS: self._kill_clients,
            Kind.CUT_LINK: self._cut_link,
            Kind.CUT_REPLIES: self._cut_replies,
            Kind.SLOW_LINK: self._slow_link,
            Kind.PARTITION: self._partition,
            Kind.HOP_CUTS: self._cut_hop,
            Kind.FULL_MAIL_DISK: self._fill_mail_disk,
            Kind.HAND_OVER: self._hand_over,
            Kind.HAND_OVER_KEEPING: self._hand_over,
            Kind.KILL_REPLICA: self._kill_replica,
            Kind.STOP_REPLICA: self._stop_replica,
            **dict.fromkeys(_FATES, self._spoil_link),
            **dict.fromkeys(_MOODS, self._spoil_hop),
        }

    async def run(self, events: Sequence[Event]) -> None:
        """Carry out the schedule, and return when all faults have ended."""
        journal = self._site.journal
        async with asyncio.TaskGroup() as group:
            for event in events:
                await asyncio.sleep(max(0.0, event.at - journal.now()))
                group.create_task(self._carry_out(event))

    async def _carry_out(self, event: Event) -> None:
        journal, targets = self._site.journal, HOSTS if event.target == "all" else (event.target,)
        async with AsyncExitStack() as stack:
            for target in targets:
                await stack.enter_async_context(self._locks[target])
            begun = journal.now()
            journal.note("fault", number=event.number, kind=event.kind, target=event.target, seconds=event.seconds)
            try:
                await self._actions[event.kind](event)
            except TimeoutError:
                journal.add_problem(f"nothing recovered from event {event.number} ({event.kind}, {event.target})")
            journal.add_fault(Fault(event.kind, event.target, begun, journal.now()))

    def _host(self, event: Event) -> Host:
        return self._site.hosts[event.target]

    # Daemons and their processes

    async def _kill_daemon(self, event: Event) -> None:
        host = self._host(event)
        for pid in host.daemon.pids():
            send_signal(pid, signal.SIGKILL)
        await self._restarted(host)

    async def _terminate_daemon(self, event: Event) -> None:
        await self._terminate(self._host(event))

    async def _terminate(self, host: Host) -> None:
        await host.daemon.end()
        host.daemon.go_on()
        await host.wait_until_ready()

    async def _stop_daemon(self, event: Event) -> None:
        await self._stop(self._host(event).daemon.pids(), event.seconds)

    async def _kill_supervisor(self, event: Event) -> None:
        host = self._host(event)
        pids = host.daemon.pids()
        for pid in pids[:1]:
            send_signal(pid, signal.SIGKILL)
        await host.daemon.wait_until_gone(pids)
        await self._restarted(host)

    async def _signal_worker(self, event: Event) -> None:
        host = self._host(event)
        number = signal.SIGKILL if event.kind is Kind.KILL_WORKER else signal.SIGTERM
        for pid in _one_of(host.daemon.workers(), event):
            send_signal(pid, number)
            await host.daemon.wait_until_gone([pid])
        await host.wait_until_ready()

    async def _stop_worker(self, event: Event) -> None:
        await self._stop(_one_of(self._host(event).daemon.workers(), event), event.seconds)

    async def _rolling_restart(self, _: Event) -> None:
        for host in self._site.hosts.values():
            await self._terminate(host)

    async def _reload(self, event: Event) -> None:
        generator, host = random.Random(event.draw), self._host(event)
        host.write_config(
            unsure=round(generator.uniform(0.2, 0.6), 3), spam=round(generator.uniform(0.7, 0.99), 3)
        )
        self._hang_up(host)

    async def _refused_reload(self, event: Event) -> None:
        host = self._host(event)
        text = host.config.read_text()
        host.daemon.has_broken_file = True
        host.config.write_text(text + "nonsense: 1\n")
        self._hang_up(host)
        await asyncio.sleep(1.0)  # so long the broken file is there
        host.config.write_text(text)
        self._hang_up(host)
        await self._restarted(host)
        host.daemon.has_broken_file = False

    def _hang_up(self, host: Host) -> None:
        if host.daemon.pid:
            send_signal(host.daemon.pid, signal.SIGHUP)

    async def _restarted(self, host: Host) -> None:
        await asyncio.sleep(0)  # the service manager notes that it has ended
        await host.wait_until_ready()

    async def _stop(self, pids: Sequence[int], seconds: float) -> None:
        for pid in pids:
            send_signal(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            for pid in pids:
                send_signal(pid, signal.SIGCONT)

    # Redis

    async def _end_redis(self, event: Event) -> None:
        await self._end_node(self._site.group.primary, event.seconds, kill=event.kind is Kind.KILL_REDIS)

    async def _end_node(self, node: RedisNode, seconds: float, *, kill: bool) -> None:
        children = node.pids()[1:]  # such as the one that rewrites the AOF
        await node.end(kill=kill)
        for pid in children:
            send_signal(pid, signal.SIGKILL)
        await asyncio.sleep(seconds)
        node.go_on()
        await self._site.group.wait_until_ready()

    async def _stop_redis(self, event: Event) -> None:
        await self._stop(self._site.group.primary.pids(), event.seconds)
        await self._site.group.wait_until_ready()

    async def _rewrite_and_kill_redis(self, event: Event) -> None:
        await self._ask_redis("BGREWRITEAOF")
        await asyncio.sleep(event.seconds)
        await self._end_node(self._site.group.primary, 0.0, kill=True)

    async def _hand_over(self, event: Event) -> None:
        group, successor = self._site.group, self._replica(event)
        await group.hand_over(successor)
        if event.kind is Kind.HAND_OVER:
            for host in self._site.hosts.values():
                host.link.cut()
        await group.wait_until_ready()

    async def _kill_replica(self, event: Event) -> None:
        await self._end_node(self._replica(event), event.seconds, kill=True)

    async def _stop_replica(self, event: Event) -> None:
        await self._stop(self._replica(event).pids(), event.seconds)
        await self._site.group.wait_until_ready()

    def _replica(self, event: Event) -> RedisNode:
        replicas = self._site.group.replicas
        return replicas[event.draw % len(replicas)]

    async def _fill_redis_memory(self, event: Event) -> None:
        await self._ask_redis("CONFIG SET", "maxmemory", "1")
        await asyncio.sleep(event.seconds)
        await self._ask_redis("CONFIG SET", "maxmemory", "0")

    async def _fill_redis_disk(self, event: Event) -> None:
        async with _full(self._site.redis_disk):
            await asyncio.sleep(event.seconds)
        await self._site.group.wait_until_ready()

    async def _flush_scripts(self, _: Event) -> None:
        await self._ask_redis("SCRIPT FLUSH")

    async def _clock_jump(self, event: Event) -> None:
        """Let the clock have been ahead when the last entry of each stream was added.

        A stream never steps back: its ids go on from there, until the clock has caught up.
        """
        milliseconds = round(event.seconds * 1000)
        for name in _REDIS_WRITES:
            key = f"nbstream:{{default}}:{name}"
            with suppress(RedisError):  # there is no such stream yet, or another fault has hit Redis
                info: Any = await self._site.group.primary.client.xinfo_stream(key)
                last = int(info["last-generated-id"].partition(b"-")[0])
                await self._execute("XSETID", key, f"{last + milliseconds}-0")

    async def _kill_clients(self, _: Event) -> None:
        await self._ask_redis("CLIENT KILL", "TYPE", "normal", "SKIPME", "yes")

    async def _ask_redis(self, *words: str) -> None:
        with suppress(RedisError):  # another fault has hit it
            await self._execute(*words)

    async def _execute(self, *words: str) -> None:
        await self._site.group.primary.client.execute_command(*words)  # type: ignore[no-untyped-call]  # of redis-py

    # Connections to Redis

    async def _cut_link(self, event: Event) -> None:
        self._host(event).link.cut()

    async def _spoil_link(self, event: Event) -> None:
        link = self._host(event).link
        link.spoil(_FATES[event.kind], 0.3, event.draw)
        await asyncio.sleep(event.seconds)
        link.heal()

    async def _cut_replies(self, event: Event) -> None:
        generator, link = random.Random(event.draw), self._host(event).link
        until = self._site.journal.now() + event.seconds
        while self._site.journal.now() < until:
            link.reply_bytes = generator.randrange(5000)
            await asyncio.sleep(0.1)
        link.heal()

    async def _slow_link(self, event: Event) -> None:
        link = self._host(event).link
        link.delay(0.5, event.draw)
        await asyncio.sleep(event.seconds)
        link.heal()

    async def _partition(self, event: Event) -> None:
        """Every second partition breaks the connections, in the others nothing arrives."""
        link = self._host(event).link
        if event.draw % 2:
            link.spoil(Fate.LOSE_REQUEST, 1.0, event.draw)
            link.cut()
        else:
            link.hold()
        await asyncio.sleep(event.seconds)
        link.heal()

    # The next hop, and the disk of the Maildir

    async def _spoil_hop(self, event: Event) -> None:
        hop = self._site.next_hop
        await hop.behave(_MOODS[event.kind])
        await asyncio.sleep(event.seconds)
        await hop.behave(Mood.WELL)

    async def _cut_hop(self, _: Event) -> None:
        self._site.next_hop.cut()

    async def _fill_mail_disk(self, event: Event) -> None:
        async with _full(self._site.mail_disk):
            await asyncio.sleep(event.seconds)


@asynccontextmanager
async def _full(disk: Path) -> AsyncIterator[None]:
    await asyncio.to_thread(disks.fill, disk)
    try:
        yield
    finally:
        disks.free(disk)


def _one_of(pids: Sequence[int], event: Event) -> Sequence[int]:
    return [pids[event.draw % len(pids)]] if pids else []
