"""Open a Redis client, and say what an external server would lose.

Rules: every command has a deadline; a cancelled command drops its connection (redis-py disconnects it), so no
caller reads another's reply; a URL's password never reaches a log or an error.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import hiredis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import ResponseError

from nbstream import __version__
from nbstream.store.redis_errors import store_errors

_RETRY_SECONDS = 0.05
_MAX_CONNECTIONS = 32
_CLIENT = "nbstream-"


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Where Redis is: a ``redis://``, ``rediss://`` or ``unix://`` URL, and the deadline of a command.

    ``model`` is named in the connections' name (CLIENT SETNAME), where there is one.
    """

    url: str
    password: str | None = None
    timeout_seconds: float = 5.0
    model: str | None = None


def open_client(params: ConnectionOptions, retries: int = 1) -> Redis:
    """A client that connects at its first command.

    It uses at most ``_MAX_CONNECTIONS`` connections; who wants one more waits for one. One retry by default, no
    more: a kept connection may have died with a restarted server.
    """
    options: dict[str, Any] = {
        "max_connections": _MAX_CONNECTIONS,
        "timeout": params.timeout_seconds,
        "socket_timeout": params.timeout_seconds,
        "socket_connect_timeout": params.timeout_seconds,
        "retry": Retry(ConstantBackoff(_RETRY_SECONDS), retries),
    }
    if params.password is not None:
        options["password"] = params.password
    pool = BlockingConnectionPool.from_url(params.url, **options)
    name = None if params.model is None else f"{_CLIENT}{__version__}:{params.model}"
    pool.connection_class = type("Connection", (_HiredisEncoder, _Named, pool.connection_class), {"name": name})
    return Redis.from_pool(pool)


def is_named_after(client_name: str, model: str) -> bool | None:
    """Whether a connection of this name is one of nbstream with ``model``; None for one that does not say."""
    if not client_name.startswith(_CLIENT):
        return None
    return client_name.partition(":")[2] == model


class _HiredisEncoder:
    """Packs commands in C, as redis-py does in its blocking client only.

    A third of the time for a look-up of thousands of tokens, a fifth for a lesson.
    """

    def pack_command(self, name: str, *arguments: str | bytes | float) -> list[bytes]:
        """A command as it goes out; its name may be of two words."""
        return [hiredis.pack_command((*name.split(), *arguments))]  # type: ignore[arg-type]  # its stub means tuples of one


class _Named:
    """Tells the server its name. redis-py would not connect where a user may not do that."""

    name: str | None = None

    async def on_connect(self) -> None:
        """As the connection does, then name it."""
        await super().on_connect()  # type: ignore[misc]  # of the connection's class beside this one
        if self.name is not None:
            await self.send_command("CLIENT", "SETNAME", self.name)  # type: ignore[attr-defined]  # likewise
            with suppress(ResponseError):
                await self.read_response()  # type: ignore[attr-defined]  # likewise


async def durability_warnings(client: Redis) -> list[str]:
    """What could be lost on this server, one sentence each; empty when an acknowledged learn is durable.

    A server that does not allow CONFIG is given the benefit of the doubt in a sentence of its own.
    """
    found: dict[Any, Any] = {}
    with store_errors():
        try:
            for name in ("append*", "save", "maxmemory-policy"):  # one each: Redis 6.2 takes no more
                found |= await client.config_get(name)
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
