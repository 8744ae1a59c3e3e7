"""The ways in which Redis may be set up in a run, what can happen to each, and what each may lose."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.soak.chaos.faults import Actions
from tests.soak.chaos.journal import Journal
from tests.soak.chaos.redis_faults import LinkFaults, RedisFaults
from tests.soak.chaos.redis_group import running_group
from tests.soak.chaos.schedule import (
    HOST_KINDS,
    LINK_KINDS,
    LOSING_KINDS,
    REDIS_KINDS,
    REPLICA_KINDS,
    SENTINEL_KINDS,
    Kind,
)
from tests.soak.chaos.sentinel_servers import SentinelFaults, running_sentinels
from tests.soak.chaos.site import RedisServers


@dataclass(frozen=True, slots=True)
class RunningServers:
    """Servers that run, and what can be done to them."""

    servers: RedisServers
    actions: Actions


@dataclass(frozen=True, slots=True)
class Start:
    """What is needed to start servers: their program, the disk of their data, the folder of sockets and logs."""

    binary: Path
    disk: Path
    folder: Path
    journal: Journal


Starter: TypeAlias = Callable[[Start], AbstractAsyncContextManager[RunningServers]]


@dataclass(frozen=True, slots=True)
class Topology:
    """One way; ``is_lossless`` says that Redis never loses what it has acknowledged."""

    start: Starter
    kinds: Set[Kind]
    is_lossless: bool = True


def _group(*names: str) -> Starter:
    """Return what starts these servers; the first is the primary."""

    @asynccontextmanager
    async def start(what: Start) -> AsyncIterator[RunningServers]:
        async with running_group(names, what.binary, what.disk, what.folder, what.journal) as group:
            yield RunningServers(group, {**RedisFaults(group).actions, **LinkFaults(group).actions})

    return start


def _sentinels(wait_replicas: int) -> Starter:
    """Return what starts servers under sentinels, of which so many must have what is acknowledged."""

    @asynccontextmanager
    async def start(what: Start) -> AsyncIterator[RunningServers]:
        async with running_sentinels(what.binary, what.folder, wait_replicas) as servers:
            yield RunningServers(servers, SentinelFaults(servers).actions)

    return start


_REPLICAS = 2  # all: one that is enough for WAIT may not be the one that is promoted
SINGLE_KINDS = HOST_KINDS | LINK_KINDS | REDIS_KINDS

TOPOLOGIES = {
    "single": Topology(_group("redis"), SINGLE_KINDS),
    "replicas": Topology(_group("redis1", "redis2"), SINGLE_KINDS | REPLICA_KINDS),
    "failover": Topology(
        _group("redis1", "redis2"), SINGLE_KINDS | REPLICA_KINDS | LOSING_KINDS, is_lossless=False
    ),
    "sentinel": Topology(_sentinels(0), HOST_KINDS | SENTINEL_KINDS, is_lossless=False),
    "sentinel-wait": Topology(_sentinels(_REPLICAS), HOST_KINDS | SENTINEL_KINDS),
}
"""By name: one Redis; a primary and a replica that takes over; the same where writes are lost; sentinels, and
sentinels where all replicas must have what is acknowledged.
"""
