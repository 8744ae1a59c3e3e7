"""Redis: whether it answers, keeps what it acknowledges, and has room."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nbstream.daemon.assembly.store import open_running_redis
from nbstream.errors import ConfigError, StoreUnavailable
from nbstream.findings import note, ok, problem, warning
from nbstream.store.connection import durability_risks
from nbstream.store.redis_errors import store_errors
from nbstream.system_users import as_user

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from redis.asyncio import Redis

    from nbstream.doctor.examination import Site
    from nbstream.findings import Finding

NOT_ASKED = note(
    "redis.reachable", "The embedded Redis was not examined: it runs only with a daemon.", "Start the daemon."
)
OF_DAEMON = note(
    "redis.reachable",
    "The embedded Redis was not examined: only the daemon's user can access it.",
    "To examine it, {command}.",
)
UNREACHABLE = problem(
    "redis.reachable",
    "Redis cannot be used: {error}.",
    "Start Redis, or correct the section redis of the configuration. Until then feedback is deferred; a running "
    "daemon scores mail from memory, but one started now gives no verdict.",
)
REACHABLE = ok("redis.reachable", "Redis {version} at {url} answers as a {role}.")
OLD = problem(
    "redis.version",
    "Redis is version {version}, but nbstream needs 6.2.",
    "Install Redis 6.2 or newer, or Valkey.",
)
REPLICA = problem(
    "redis.role",
    "The server at {url} is a replica and accepts no lessons.",
    "Set redis.url to the primary, or list the Sentinels in redis.sentinels.",
)
TOO_FEW_REPLICAS = problem(
    "redis.replicas",
    "{connected} replicas are connected, but {needed} are needed ({by}): feedback is deferred.",
    "Start the missing replicas, or lower {by}.",
)
REPLICAS = ok("redis.replicas", "{connected} replicas are connected; {needed} are needed.")
DURABLE = ok("redis.durability", "Redis syncs each lesson to its disk before it is acknowledged.")
WRITE_FAILED = problem(
    "redis.disk",
    "Redis's last write to disk failed ({field}: {status}).",
    "Free space on Redis's disk, or repair it; see Redis's log.",
)
MEMORY_FULL = problem(
    "redis.memory",
    "Redis uses {used} of the {limit} that maxmemory allows ({share:.0%}).",
    "Raise maxmemory, or set model.max_tokens or memory.messages lower; a full Redis accepts no lessons.",
)
MEMORY_SHORT = warning(
    "redis.memory",
    "Redis uses {used} of the {limit} that maxmemory allows ({share:.0%}).",
    "Raise maxmemory before it is full, for a full Redis accepts no lessons.",
)
MEMORY = ok("redis.memory", "Redis uses {used}, and {limit}.")

_SHORT_SHARE, _FULL_SHARE = 0.8, 0.95
_OLDEST_VERSION = (6, 2)
_DISK_FIELDS = ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")


async def examine_redis(site: Site) -> Sequence[Finding]:
    """Ask Redis about itself."""
    if not site.has_redis_to_ask:
        return [] if site.daemon_unknown else [NOT_ASKED()]
    user = site.daemon_user
    if site.settings.redis.is_embedded and user is not None and not site.is_daemon_user:
        return [OF_DAEMON(command=as_user(user))]
    try:
        async with open_running_redis(site.settings) as clients:
            return [finding async for finding in _ask(site, clients.client)]
    except (StoreUnavailable, ConfigError) as error:
        return [UNREACHABLE(error=str(error).rstrip("."))]


async def _ask(site: Site, client: Redis) -> AsyncIterator[Finding]:
    settings = site.settings.redis
    with store_errors():
        info: Mapping[str, Any] = await client.info()
    version, role = str(info["redis_version"]), "primary" if info["role"] == "master" else "replica"
    yield REACHABLE(version=version, url=settings.display_url, role=role)
    if is_too_old(version):
        yield OLD(version=version)
    if role == "replica":
        yield REPLICA(url=settings.display_url)
    async for finding in _replicas(client, settings.wait_replicas, info):
        yield finding
    for finding in (*_disk(info), _memory(info)):
        yield finding
    if not settings.is_embedded:  # nbstream starts the embedded server with all that is needed
        risks = await durability_risks(client, settings.wait_replicas)
        for finding in risks or [DURABLE()]:
            yield finding


def is_too_old(version: str) -> bool:
    """Return whether nbstream cannot use a Redis of that version."""
    return tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_VERSION


async def _replicas(client: Redis, wait_replicas: int, info: Mapping[str, Any]) -> AsyncIterator[Finding]:
    connected, good = int(info.get("connected_slaves", 0)), int(info.get("min_slaves_good_slaves", 0))
    by_server = 0
    with suppress(StoreUnavailable), store_errors():  # a managed server may refuse CONFIG
        replies: Any = await client.config_get("min-replicas-to-write")
        by_server = int(next(iter(replies.values()), 0))
    if connected < wait_replicas:
        yield TOO_FEW_REPLICAS(connected=connected, needed=wait_replicas, by="redis.wait_replicas")
    elif good < by_server:
        yield TOO_FEW_REPLICAS(connected=good, needed=by_server, by="min-replicas-to-write of Redis")
    elif needed := max(wait_replicas, by_server):
        yield REPLICAS(connected=connected, needed=needed)


def _disk(info: Mapping[str, Any]) -> Iterator[Finding]:
    for field in _DISK_FIELDS:
        status = str(info.get(field, "ok"))
        if status != "ok":
            yield WRITE_FAILED(field=field, status=status)


def _memory(info: Mapping[str, Any]) -> Finding:
    used, limit = int(info["used_memory"]), int(info.get("maxmemory", 0))
    if not limit:
        return MEMORY(used=format_bytes(used), limit="maxmemory sets no limit")
    share = used / limit
    kind = MEMORY_FULL if share >= _FULL_SHARE else MEMORY_SHORT
    if share >= _SHORT_SHARE:
        return kind(used=format_bytes(used), limit=format_bytes(limit), share=share)
    return MEMORY(used=format_bytes(used), limit=f"maxmemory allows {format_bytes(limit)}")


def format_bytes(count: float) -> str:
    """Return a number of bytes in the largest unit that gives at least 1, such as ``1.5 GB``."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
