"""What an external server could lose of what it has acknowledged, by its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis


async def durability_warnings(client: Redis) -> list[str]:
    """One sentence for each thing that this server could lose; empty where an acknowledged lesson is durable.

    For a server that does not allow CONFIG there is one sentence that says what to check. Raises
    ``StoreUnavailable``.
    """
    replies: dict[Any, Any] = {}
    with store_errors():
        try:
            for name in ("append*", "save", "maxmemory-policy"):  # Redis 6.2 takes one pattern a command
                replies |= await client.config_get(name)
        except Exception as error:  # managed servers refuse CONFIG with errors of their own kinds
            if "CONFIG" not in str(error).upper() and "PERM" not in str(error).upper():
                raise
            return [
                "Redis does not allow CONFIG GET: make sure that it has an AOF and maxmemory-policy noeviction"
            ]
    settings = {_text(name): _text(value) for name, value in replies.items()}
    warnings = []
    if settings.get("appendonly") != "yes":
        warnings.append(
            "Redis has no append-only file (appendonly no): a crash loses what was learned since the last snapshot"
            if settings.get("save")
            else "Redis has no persistence (appendonly no, save empty): a restart loses everything learned"
        )
    elif settings.get("appendfsync") != "always":
        warnings.append(
            f"Redis syncs its append-only file {settings.get('appendfsync')} (appendfsync): "
            "a power loss loses the last acknowledged feedback"
        )
    if settings.get("maxmemory-policy", "noeviction") != "noeviction":
        warnings.append(
            f"Redis may evict keys (maxmemory-policy {settings['maxmemory-policy']}): "
            "counts would vanish silently; set it to noeviction"
        )
    return warnings


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
