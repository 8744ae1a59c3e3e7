"""Open a Redis client, and say what an external server would lose.

Rules: every command has a deadline; a cancelled command drops its connection (redis-py disconnects it), so no
caller reads another's reply; a URL's password never reaches a log or an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

from nbstream.store.model import store_errors

if TYPE_CHECKING:
    from collections.abc import Mapping


_RETRY_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Params:
    """Where Redis is: a ``redis://``, ``rediss://`` or ``unix://`` URL, and the deadline of a command."""

    url: str
    password: str | None = None
    timeout_seconds: float = 5.0


def open_client(params: Params) -> Redis:
    """A client for an external server; connects at the first command."""
    options: dict[str, Any] = _options(params.timeout_seconds)
    if params.password is not None:
        options["password"] = params.password
    return Redis.from_url(params.url, **options)


def open_socket(path: Path, timeout_seconds: float) -> Redis:
    """A client for the embedded server behind a unix socket."""
    return Redis(unix_socket_path=str(path), **_options(timeout_seconds))


def _options(timeout_seconds: float) -> dict[str, Any]:
    return {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        # Once more and no longer: a pooled connection may have died with a restarted server.
        "retry": Retry(ConstantBackoff(_RETRY_SECONDS), 1),
    }


async def durability_warnings(client: Redis) -> list[str]:
    """What could be lost on this server, one sentence each; empty when an acknowledged learn is durable.

    A server that does not allow CONFIG is given the benefit of the doubt in a sentence of its own.
    """
    with store_errors():
        try:
            found: Mapping[Any, Any] = await client.config_get("append*", "save", "maxmemory-policy")
        except Exception as error:  # managed servers refuse CONFIG with errors of their own kinds
            if "CONFIG" not in str(error).upper() and "PERM" not in str(error).upper():
                raise
            return [
                "Redis does not allow CONFIG GET: make sure that it has an AOF and maxmemory-policy noeviction"
            ]
    settings = {_text(name): _text(value) for name, value in found.items()}
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
