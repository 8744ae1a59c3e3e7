"""A client of one Redis server.

Rules: every command has a deadline; a cancelled command drops its connection (redis-py disconnects it), so no
caller reads the reply to another; the password of a URL never reaches a log or an error.
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

_RETRY_SECONDS = 0.05
_MAX_CONNECTIONS = 32
_CLIENT = "nbstream-"


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Where Redis is: a ``redis://``, ``rediss://`` or ``unix://`` URL, and the deadline of a command.

    Where ``model`` is set, it becomes part of the connections' name (CLIENT SETNAME).
    """

    url: str
    password: str | None = None
    timeout_seconds: float = 5.0
    model: str | None = None


def open_client(params: ConnectionOptions, retries: int = 1) -> Redis:
    """A client that connects at its first command.

    It uses at most ``_MAX_CONNECTIONS`` connections; a command that needs one more waits. By default a command is
    retried once, since an idle connection may have died with a restarted server.
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
    """Whether a connection of this name belongs to an nbstream with ``model``; None where that is unknown."""
    if not client_name.startswith(_CLIENT):
        return None
    return client_name.partition(":")[2] == model


class _HiredisEncoder:
    """Packs commands in C, as redis-py does only in its blocking client; see docs/experiments.md."""

    def pack_command(self, name: str, *arguments: str | bytes | float) -> list[bytes]:
        """The bytes of a command; its name may consist of two words."""
        return [hiredis.pack_command((*name.split(), *arguments))]  # type: ignore[arg-type]  # its stub means tuples of one


class _Named:
    """Tells the server its name. redis-py itself would fail to connect where the user may not set a name."""

    name: str | None = None

    async def on_connect(self) -> None:
        """Connect, then set the name; a server that forbids that is used without a name."""
        await super().on_connect()  # type: ignore[misc]  # of the connection's class beside this one
        if self.name is not None:
            await self.send_command("CLIENT", "SETNAME", self.name)  # type: ignore[attr-defined]  # likewise
            with suppress(ResponseError):
                await self.read_response()  # type: ignore[attr-defined]  # likewise
