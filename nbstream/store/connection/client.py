"""A client of one Redis server, wherever the primary is, and its pool, which drops connections to a former one.

Rules: every command has a deadline; a cancelled command drops its connection (redis-py disconnects it), so no
caller reads the reply to another; the password of a URL never reaches a log or an error. Connections know which
server they lead to. A watch looks again and again which server is reached: a failover is noticed without any
traffic. On a cluster there is a client for each hash tag, made from the first one when its keys are wanted.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import hiredis
from redis import exceptions
from redis.asyncio import Connection, ConnectionPool, Redis, SSLConnection
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import EqualJitterBackoff
from redis.exceptions import RedisError, ResponseError
from redis.maint_notifications import MaintNotificationsConfig

from nbstream import __version__
from nbstream.errors import StoreUnavailable
from nbstream.store.connection.options import ClusterNodes, ConnectionOptions, tls_connection_class
from nbstream.store.connection.primary import Primary, open_primary
from nbstream.store.redis_errors import loss_reason, readable_replies, store_errors

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.1  # the longest wait; the shortest is half of it
_MAX_CONNECTIONS = 32
_UNSENT_BYTES = 32 << 10  # less than what may be unsent before ``drain`` waits: only then is a timer needed
_CLIENT = "nbstream-"


class PrimaryPool(ConnectionPool):
    """A pool whose connections all lead to ``primary``, and tell the server their ``name`` if they have one.

    It has at most ``_MAX_CONNECTIONS``, and who needs one more waits for at most ``timeout`` seconds. It does no
    more for a command than that: the pools of redis-py lock and measure besides, in twice the time.
    """

    def __init__(
        self, primary: Primary, name: str | None, connection_class: type, *, timeout: float, **options: Any
    ) -> None:
        self.primary = primary
        self.name = name
        self.clients: dict[str, Redis] = {}
        """On a cluster the clients of all hash tags in use; the pools of all of them share it."""
        self.open_for_tag: Callable[[str], Redis] | None = None
        """What opens the client of another hash tag of a cluster."""
        self._free = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._timeout = timeout
        following = type("Connection", (_PrimaryConnection, connection_class), {"primary": primary, "name": name})
        super().__init__(connection_class=following, **options)

    async def get_connection(self, *_arguments: Any, **_options: Any) -> Any:
        """Return a connection that is ready for use; an obsolete one is closed and opened anew."""
        try:
            async with asyncio.timeout(self._timeout) if self._free.locked() else nullcontext():
                await self._free.acquire()
        except TimeoutError as error:
            raise exceptions.ConnectionError("no connection is free") from error
        try:
            connection = self.get_available_connection()  # type: ignore[no-untyped-call]  # redis-py has no type here
        except BaseException:
            self._free.release()
            raise
        try:
            await self._close_obsolete(connection)
            await self.ensure_connection(connection)
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def release(self, connection: Any) -> None:
        """Take a connection back; an obsolete one is closed, so that the server may forget it."""
        try:
            await self._close_obsolete(connection)
        finally:
            self._in_use_connections.remove(connection)
            self._available_connections.append(connection)
            self._free.release()

    async def disconnect(self, inuse_connections: bool = True) -> None:
        """Close all connections; on a cluster those for other hash tags too."""
        await super().disconnect(inuse_connections)
        while self.clients:
            await self.clients.popitem()[1].aclose()

    async def look_anew(self) -> None:
        """Open one more connection and close it: the primary then knows which server is reached now.

        Raises what redis-py raises.
        """
        self.primary.ask_again()
        connection = self.make_connection()  # type: ignore[no-untyped-call]  # redis-py has no type here
        try:
            await connection.connect()
        finally:
            await connection.disconnect(nowait=True)

    async def _close_obsolete(self, connection: Any) -> None:
        if connection.is_connected and connection.generation != self.primary.generation:
            await connection.disconnect(nowait=True)


class PrimaryClient(Redis):
    """A client of a ``PrimaryPool`` that does for a command what it is for, where redis-py measures it besides."""

    async def execute_command(self, *arguments: Any, **options: Any) -> Any:
        """Send a command, and return the reply as redis-py reads it."""
        pool = self.connection_pool
        connection = await pool.get_connection()  # type: ignore[no-untyped-call]  # redis-py has no type here

        async def ask() -> Any:
            await connection.send_command(*arguments)
            return await self.parse_response(connection, arguments[0], **options)

        try:
            return await connection.retry.call_with_retry(ask, lambda _: connection.disconnect())
        finally:
            await pool.release(connection)


class _PrimaryConnection:
    """What a connection of redis-py does besides: it asks the server who it is, and reads what replies mean.

    It also packs commands in C, as redis-py does only in its blocking client. That copies
    all arguments; a last one that is large therefore comes as a memoryview, which redis-py sends without a copy.
    """

    primary: Primary
    name: str | None
    host: str
    port: int
    is_connected: bool
    socket_timeout: float
    generation = 0
    _writer: asyncio.StreamWriter

    def pack_command(self, name: str, *arguments: str | bytes | float | memoryview) -> list[bytes]:
        """The bytes of a command; its name may consist of two words."""
        if arguments and isinstance(arguments[-1], memoryview):
            return super().pack_command(name, *arguments)  # type: ignore[misc, no-any-return]  # of the class beside this one
        return [hiredis.pack_command((*name.split(), *arguments))]  # type: ignore[arg-type]  # its stub means tuples of one

    async def connect_check_health(self, *arguments: Any, **options: Any) -> None:
        """Connect to where the primary is now, unless this is connected."""
        if self.is_connected:
            return
        address = await self.primary.locate()
        if address is not None:
            self.host, self.port = address
        try:
            await super().connect_check_health(*arguments, **options)  # type: ignore[misc]  # likewise
        except (RedisError, OSError):
            self.primary.ask_again()
            raise

    async def send_packed_command(self, command: bytes | list[bytes], check_health: bool = True) -> None:
        """Send a command. A connection that the server has closed is one more way to be disconnected.

        uvloop raises RuntimeError for a write to a transport that is closed, which comes where something stands
        before Redis that accepts connections and closes them. redis-py lets that pass, and makes a task for each
        command.
        """
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        try:
            self._writer.writelines([command] if isinstance(command, bytes) else command)
            if self._writer.transport.get_write_buffer_size() > _UNSENT_BYTES:
                async with asyncio.timeout(self.socket_timeout):
                    await self._writer.drain()
        except BaseException as error:
            await super().disconnect(nowait=True)  # type: ignore[misc]  # likewise
            if isinstance(error, TimeoutError):
                raise exceptions.TimeoutError("the server does not read") from error
            if isinstance(error, (OSError, RuntimeError)):
                raise exceptions.ConnectionError(f"the connection was closed: {error}") from error
            raise

    async def on_connect(self) -> None:
        """Do nothing: for unix sockets redis-py calls this besides ``on_connect_check_health``."""

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        """Log in, set the name, and note which server this is."""
        self.generation = self.primary.generation
        await super().on_connect_check_health(check_health)  # type: ignore[misc]  # likewise
        if self.name is not None:
            await self._ask("CLIENT", "SETNAME", self.name)
        role = await self._ask("ROLE")
        is_replica = isinstance(role, list) and role[:1] not in ([], [b"master"], ["master"])
        if is_replica and self.primary.is_located:
            self.primary.refused()
            raise exceptions.ConnectionError(f"{self.host}:{self.port} is a replica: a failover goes on")
        self.primary.reached(_run_id(await self._ask("INFO", "server")), is_replica=is_replica)
        self.generation = self.primary.generation

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        """Read a reply; one that says that this is no working primary makes all connections obsolete."""
        try:
            return await super().read_response(*arguments, **options)  # type: ignore[misc]  # likewise
        except RedisError as error:
            reason = loss_reason(error)
            if reason is not None:
                self.primary.lost(reason, self.generation)
            raise

    async def _ask(self, *command: str) -> Any:
        """The reply to a command that the server may forbid; None where it does."""
        await self.send_command(*command, check_health=False)  # type: ignore[attr-defined]  # likewise
        with suppress(ResponseError):
            return await self.read_response()
        return None


def _run_id(server_section: object) -> str | None:
    """The run id of a server, which is another one after each start, in the reply to INFO."""
    text = server_section.decode(errors="replace") if isinstance(server_section, bytes) else ""
    for line in text.splitlines():
        if line.startswith("run_id:"):
            return line.removeprefix("run_id:").strip()
    return None


async def look_for_primary(client: Redis) -> bool:
    """Open a connection: where it reaches another server than the others, those are dropped.

    Returns whether a server answers, on this connection or, where it accepts no more of them, on an open one.

    An address may move away from a server that still runs, and still calls itself a primary. The connections to it
    stay open then, and nothing but a new connection shows where the address leads now. What cannot be reached is
    not reported: the follower does that.
    """
    try:
        await _pool_of(client).look_anew()
    except (RedisError, OSError) as error:
        _log.debug("the primary cannot be reached: %s", error)
        try:
            with readable_replies(), store_errors():
                await client.ping()
        except StoreUnavailable:
            return False
    return True


def open_client(
    options: ConnectionOptions, retries: int = 1, primary: Primary | None = None, waits_seconds: float = 0.0
) -> Redis:
    """A client that connects at its first command. Clients with the same ``primary`` lead to the same server.

    A reply may take ``waits_seconds`` where that is longer than the deadline of a command. It uses at most
    ``_MAX_CONNECTIONS`` connections; a command that needs one more waits. By default a command is retried once,
    since an idle connection may have died with a restarted server.
    """
    arguments: dict[str, Any] = {
        "timeout": options.timeout_seconds,
        "socket_timeout": max(options.timeout_seconds, waits_seconds),
        "socket_connect_timeout": options.timeout_seconds,
        "retry": Retry(EqualJitterBackoff(_RETRY_SECONDS, _RETRY_SECONDS), retries),
        # Redis Enterprise alone has them. While they are on, redis-py takes a closed connection for a ready one.
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        "driver_info": None,  # no CLIENT SETINFO: a user who may not do that would fill the server's ACL log
        **options.login_arguments(),
    }
    if isinstance(options.server, str):
        arguments |= parse_url(options.server)
    elif options.tls is not None:
        arguments["connection_class"] = SSLConnection
    arguments |= options.tls_arguments()
    name = None if options.model is None else f"{_CLIENT}{__version__}:{options.model}"
    connection_class = arguments.pop("connection_class", Connection)
    if connection_class is SSLConnection:
        connection_class = tls_connection_class()
    pool = PrimaryPool(primary or open_primary(options), name, connection_class, **arguments)
    client = PrimaryClient.from_pool(pool)
    if isinstance(options.server, ClusterNodes) and options.model is not None:

        def open_for_tag(tag: str) -> Redis:
            of_tag = replace(options, model=tag)
            other = open_client(of_tag, retries, pool.primary.other(of_tag))
            _pool_of(other).clients, _pool_of(other).open_for_tag = pool.clients, open_for_tag
            return other

        pool.clients[options.model], pool.open_for_tag = client, open_for_tag
    return client


def client_of(client: Redis, key: str) -> Redis:
    """Return the client that leads to the primary with ``key``: on a cluster another one for each hash tag.

    Its replies take no longer than the deadline of a command. It is closed when ``client`` is.
    """
    pool = _pool_of(client)
    if pool.open_for_tag is None:
        return client
    tag = key.partition("{")[2].partition("}")[0]
    if tag not in pool.clients:
        pool.clients[tag] = pool.open_for_tag(tag)
    return pool.clients[tag]


def _pool_of(client: Redis) -> PrimaryPool:
    pool = client.connection_pool
    assert isinstance(pool, PrimaryPool)
    return pool
