"""What Redis says of itself: its CPU time and the bytes of a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from redis.asyncio import Redis


async def main_thread_seconds(client: Redis) -> float:
    """Return the CPU seconds of the thread that executes commands, until now.

    Other threads (saving, freeing memory) run beside it and do not bound it. Raises ``StoreUnavailable``.
    """
    with store_errors():
        info: Any = await client.info("cpu")
    return float(info["used_cpu_user_main_thread"]) + float(info["used_cpu_sys_main_thread"])


async def mean_memory_bytes(client: Redis, keys: Iterable[str]) -> float:
    """Return the mean bytes of memory of these keys with their values; 0 without keys."""
    with store_errors():
        sizes: list[Any] = [await client.memory_usage(key, samples=0) for key in keys]
    known = [int(size) for size in sizes if size is not None]
    return sum(known) / len(known) if known else 0.0


def entry_bytes(fields: dict[bytes, bytes]) -> int:
    """Return the bytes of an entry of a stream as it travels to each reader: its fields and values."""
    return sum(len(name) + len(value) for name, value in fields.items())


async def server_name(client: Redis) -> str:
    """Return the family and the version of the server, such as ``redis 7.0.15``; raises ``StoreUnavailable``."""
    with store_errors():
        info: Any = await client.info("server")
    if "valkey_version" in info:
        return f"valkey {info['valkey_version']}"
    return f"redis {info['redis_version']}"
