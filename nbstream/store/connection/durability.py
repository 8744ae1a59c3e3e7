"""What an external server could lose of what it has acknowledged, by its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import NoPermissionError, ResponseError

from nbstream.findings import note, problem, warning
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.findings import Finding


_SETTINGS = ("append*", "save", "maxmemory-policy", "min-replicas-to-write")

UNKNOWN = note(
    "redis.durability",
    "Redis does not allow CONFIG GET.",
    "Make sure that it has an AOF and maxmemory-policy noeviction.",
)
NO_PERSISTENCE = problem(
    "redis.durability",
    "Redis has no persistence (appendonly no, save empty): a restart loses everything learned.",
    "Set appendonly to yes and appendfsync to always.",
)
SNAPSHOTS_ONLY = warning(
    "redis.durability",
    "Redis has no append-only file (appendonly no): a crash loses what was learned since the last snapshot.",
    "Set appendonly to yes and appendfsync to always.",
)
SYNCED_LATE = warning(
    "redis.durability",
    "Redis syncs its append-only file {value} (appendfsync): a power loss loses the last acknowledged feedback.",
    "Set appendfsync to always.",
)
REPLAY_REFUSED = problem(
    "redis.durability",
    "The user default of Redis has no rights (`user default off` takes them): Redis 7 reads its append-only "
    "file as that user, and loses everything learned at its next restart.",
    "Before that restart run `ACL SETUSER default off ~* &* +@all`, and write `user default off ~* &* +@all` "
    "in its configuration or ACL file: the user stays off.",
)
REPLAY_UNKNOWN = note(
    "redis.durability",
    "Redis does not allow ACL DRYRUN: nobody can say whether it will read its append-only file again.",
    "Give the user of nbstream the right +acl|dryrun; and see that in the configuration or ACL file of Redis "
    "the user default, if it is off, keeps its rights (`user default off ~* &* +@all`).",
)
EVICTION = warning(
    "redis.durability",
    "Redis may evict keys (maxmemory-policy {value}): counts would vanish silently.",
    "Set maxmemory-policy to noeviction.",
)
REPLICATED_LATE = warning(
    "redis.durability",
    "Redis has {value} replicas, and redis.wait_replicas is 0: "
    "a failover loses the feedback that was acknowledged in the last moment.",
    "Set redis.wait_replicas to the number of replicas.",
)
REPLICATED_PARTLY = note(
    "redis.durability",
    "Redis has {value} replicas, and redis.wait_replicas is less: "
    "a failover to one that is behind loses the feedback that was acknowledged in the last moment.",
    "Set redis.wait_replicas to the number of replicas; then no feedback is acknowledged while one is away.",
)
WRITES_ALONE = warning(
    "redis.durability",
    "Redis takes writes without any replica (min-replicas-to-write 0): a primary that is cut off goes on "
    "acknowledging feedback, which is lost when it joins again.",
    "Set min-replicas-to-write to 1.",
)


async def durability_risks(client: Redis, wait_replicas: int = 0) -> list[Finding]:
    """Return what this server could lose; empty where an acknowledged lesson is durable.

    ``wait_replicas`` is how many replicas have a lesson when it is acknowledged. Raises ``StoreUnavailable``.
    """
    replies: dict[Any, Any] = {}
    risks: list[Finding] = []
    with store_errors():
        try:
            replication: Any = await client.info("replication")
            replicas = int(replication.get("connected_slaves", 0))
            if replicas > wait_replicas:
                risks = [(REPLICATED_PARTLY if wait_replicas else REPLICATED_LATE)(value=replicas)]
            for name in _SETTINGS:  # Redis 6.2 takes one pattern a command
                replies |= await client.config_get(name)
        except Exception as error:  # managed servers refuse CONFIG with errors of their own kinds
            if "CONFIG" not in str(error).upper() and "PERM" not in str(error).upper():
                raise
            return [*risks, UNKNOWN()]
    settings = {_text(name): _text(value) for name, value in replies.items()}
    if risks and not wait_replicas and settings.get("min-replicas-to-write", "0") == "0":
        risks.append(WRITES_ALONE())
    if settings.get("appendonly") != "yes":
        risks.append(SNAPSHOTS_ONLY() if settings.get("save") else NO_PERSISTENCE())
    elif settings.get("appendfsync") != "always":
        risks.append(SYNCED_LATE(value=str(settings.get("appendfsync"))))
    if settings.get("appendonly") == "yes":
        risks += await _replay_risks(client)
    policy = settings.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        risks.append(EVICTION(value=policy))
    return risks


async def _replay_risks(client: Any) -> list[Finding]:
    """Return whether the append-only file would be refused when it is read again.

    Redis 7 and Valkey replay transactions as the user ``default``, and check the rights of that user, even if it
    is off (redis#14541, valkey#3983). Redis 6.2 does not, and has no DRYRUN.
    """
    with store_errors():
        try:
            answer = await client.execute_command(
                "ACL", "DRYRUN", "default", "HSET", "nbstream:{x}:totals", "a", 1
            )
        except NoPermissionError:
            return [REPLAY_UNKNOWN()]
        except ResponseError:  # unknown to Redis 6.2
            return []
    return [] if _text(answer) == "OK" else [REPLAY_REFUSED()]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
