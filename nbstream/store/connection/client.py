"""A client of one Redis server.

Rules: every command has a deadline; a cancelled command drops its connection (redis-py disconnects it), so no
caller reads the reply to another; the password of a URL never reaches a log or an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.asyncio import Connection, Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

from nbstream import __version__
from nbstream.store.connection.pool import PrimaryPool
from nbstream.store.connection.primary import Primary

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


def open_client(params: ConnectionOptions, retries: int = 1, primary: Primary | None = None) -> Redis:
    """A client that connects at its first command. Clients with the same ``primary`` lead to the same server.

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
    options |= parse_url(params.url)
    name = None if params.model is None else f"{_CLIENT}{__version__}:{params.model}"
    connection_class = options.pop("connection_class", Connection)
    return Redis.from_pool(PrimaryPool(primary or Primary(), name, connection_class, **options))


def is_named_after(client_name: str, model: str) -> bool | None:
    """Whether a connection of this name belongs to an nbstream with ``model``; None where that is unknown."""
    if not client_name.startswith(_CLIENT):
        return None
    return client_name.partition(":")[2] == model
