"""Redis and what is stored there, from settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from nbstream.daemon.assembly.filter import key_fingerprint
from nbstream.filter.own_models import store as own_models
from nbstream.filter.own_models.index import OwnModelKeys
from nbstream.store import connection
from nbstream.store.embedded import EmbeddedRedis
from nbstream.store.follower.follower import WATCHED_BLOCK_SECONDS
from nbstream.store.model.commit import ReplicaWaitOptions
from nbstream.store.model.keys import ModelKeys
from nbstream.store.model.model import Model
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.store.transfer import archive

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.addresses import TcpAddress
    from nbstream.daemon.config import Settings


DAY_SECONDS = 86_400
_OWN_PREQUENTIAL_SCORES = 1000  # of each class: budgets are those of the common model


class RedisClients(NamedTuple):
    """A client to work with, one that waits for the change stream, and ``embedded`` where that is the server.

    Both clients lead to the same server.
    """

    client: Redis
    blocking_client: Redis
    embedded: EmbeddedRedis | None = None

    @property
    def primary(self) -> connection.Primary:
        """What is known of the server of both clients."""
        return connection.primary_of(self.client)


@asynccontextmanager
async def open_redis(
    settings: Settings, report_loss: Callable[[str], object] = lambda _: None
) -> AsyncIterator[RedisClients]:
    """Open two clients; at the end they are closed, and an embedded server that this process has started ends.

    ``report_loss`` is called with the reason each time that all connections are dropped, because another server
    answers or the server is not the primary any more. No server is contacted or started here. Raises
    ``ConfigError`` for a state folder that cannot be used.
    """
    async with AsyncExitStack() as stack:
        embedded, options = None, connection_options(settings)
        if settings.redis.is_embedded:
            embedded = EmbeddedRedis(settings.state_dir)
            stack.push_async_callback(asyncio.to_thread, embedded.close)
            options = replace(options, server=f"unix://{quote(embedded.open())}")
        primary = connection.open_primary(options, report_loss)
        client = connection.open_client(options, primary=primary)
        waits_seconds = WATCHED_BLOCK_SECONDS + options.timeout_seconds
        blocking_client = connection.open_client(options, 0, primary, waits_seconds)
        stack.push_async_callback(client.aclose)
        stack.push_async_callback(blocking_client.aclose)
        yield RedisClients(client, blocking_client, embedded)


def connection_options(settings: Settings) -> connection.ConnectionOptions:
    """Return where Redis is, and how to log in there; the URL of the embedded server is known when it runs."""
    redis = settings.redis
    server: str | connection.SentinelNodes | connection.ClusterNodes = redis.url.get_secret_value()
    if redis.sentinels:
        assert redis.service is not None
        server = connection.SentinelNodes(_addresses(redis.sentinels), redis.service)
    elif redis.cluster:
        server = connection.ClusterNodes(_addresses(redis.cluster))
    files = [str(file) if file else None for file in (redis.ca_file, redis.cert_file, redis.key_file)]
    return connection.ConnectionOptions(
        server,
        redis.password.get_secret_value() if redis.password else None,
        redis.timeout_seconds,
        settings.model.name,
        redis.user,
        connection.TlsOptions(*files) if redis.tls or any(files) else None,
    )


def _addresses(addresses: Sequence[TcpAddress]) -> tuple[tuple[str, int], ...]:
    return tuple((address.host, address.port) for address in addresses)


@asynccontextmanager
async def open_running_redis(settings: Settings) -> AsyncIterator[RedisClients]:
    """Do what ``open_redis`` does, and wait until the embedded server runs.

    Whoever started it may end before this does: then the next command that needs a connection starts another one.
    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_redis(settings) as clients:
        if clients.embedded:
            await clients.embedded.ensure_running()
            clients.primary.before_connect = clients.embedded.ensure_running
        yield clients


def make_model(settings: Settings, client: Redis) -> Model:
    """Return the model that the settings name."""
    return Model(
        client,
        settings.model.name,
        settings.model.ledger_days * DAY_SECONDS,
        replica_wait=ReplicaWaitOptions(settings.redis.wait_replicas, settings.redis.timeout_seconds / 2),
        key_fingerprint=key_fingerprint(settings),
    )


def make_own_model(settings: Settings, client: Redis, name: str) -> Model:
    """Return the own model of this name, below the model that the settings name."""
    keys = OwnModelKeys(settings.model.name, name)
    return Model(
        connection.client_of(client, keys.totals),
        keys,
        settings.model.ledger_days * DAY_SECONDS,
        prequential_scores=_OWN_PREQUENTIAL_SCORES,
        replica_wait=ReplicaWaitOptions(settings.redis.wait_replicas, settings.redis.timeout_seconds / 2),
        key_fingerprint=key_fingerprint(settings),
        max_changes=own_models.MAX_CHANGES,
        max_history_records=own_models.MAX_HISTORY_RECORDS,
    )


def make_archived_model(settings: Settings, client: Redis, name: str) -> Model:
    """Return the model of the site that has this name in the file of an export."""
    if name == archive.COMMON:
        return make_model(settings, client)
    return make_own_model(settings, client, name.removeprefix(archive.OWN_PREFIX))


@asynccontextmanager
async def open_sender_lists(settings: Settings) -> AsyncIterator[StoredSenderLists]:
    """Open the sender lists that are stored beside the model.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_running_redis(settings) as clients:
        yield StoredSenderLists(clients.client, ModelKeys(settings.model.name))
