"""A client of one Redis server, wherever the primary is.

Rules: every command has a deadline; a cancelled command drops its connection (redis-py disconnects it), so no
caller reads the reply to another; the password of a URL never reaches a log or an error.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Connection, Redis, SSLConnection
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import EqualJitterBackoff

from nbstream import __version__
from nbstream.store.connection.options import ConnectionOptions, tls_connection_class
from nbstream.store.connection.pool import PrimaryPool
from nbstream.store.connection.primary import Primary, open_primary

_RETRY_SECONDS = 0.1  # the longest wait; the shortest is half of it
_MAX_CONNECTIONS = 32
_CLIENT = "nbstream-"


def open_client(options: ConnectionOptions, retries: int = 1, primary: Primary | None = None) -> Redis:
    """A client that connects at its first command. Clients with the same ``primary`` lead to the same server.

    It uses at most ``_MAX_CONNECTIONS`` connections; a command that needs one more waits. By default a command is
    retried once, since an idle connection may have died with a restarted server.
    """
    arguments: dict[str, Any] = {
        "max_connections": _MAX_CONNECTIONS,
        "timeout": options.timeout_seconds,
        "socket_timeout": options.timeout_seconds,
        "socket_connect_timeout": options.timeout_seconds,
        "retry": Retry(EqualJitterBackoff(_RETRY_SECONDS, _RETRY_SECONDS), retries),
        "driver_info": None,  # no CLIENT SETINFO: a user who may not do that would fill the server's ACL log
        **options.login.arguments(),
    }
    if isinstance(options.server, str):
        arguments |= parse_url(options.server)
    elif options.tls is not None:
        arguments["connection_class"] = SSLConnection
    if options.tls is not None:
        arguments |= options.tls.arguments()
    name = None if options.model is None else f"{_CLIENT}{__version__}:{options.model}"
    connection_class = arguments.pop("connection_class", Connection)
    if connection_class is SSLConnection:
        connection_class = tls_connection_class()
    return Redis.from_pool(PrimaryPool(primary or open_primary(options), name, connection_class, **arguments))


def is_named_after(client_name: str, model: str) -> bool | None:
    """Whether a connection of this name belongs to an nbstream with ``model``; None where that is unknown."""
    if not client_name.startswith(_CLIENT):
        return None
    return client_name.partition(":")[2] == model
