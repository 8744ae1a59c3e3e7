"""Redis and what is stored there, from settings."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from nbstream.correspondents.facts import FactHasher, KnownTime
from nbstream.correspondents.store import CorrespondentStore
from nbstream.engine.choice import PYTHON, Engine
from nbstream.filter.own_models import store as own_models
from nbstream.filter.own_models.store import OwnModelKeys, OwnModels
from nbstream.store import connection
from nbstream.store.embedded import EmbeddedRedis
from nbstream.store.mirror.follower import SAME_SERVER_BLOCK_SECONDS, Followed, Follower
from nbstream.store.model.commit import ReplicaWaitOptions
from nbstream.store.model.keys import ModelKeys
from nbstream.store.model.model import Model, temporary_model, temporary_name
from nbstream.store.private_key import read_or_make_key
from nbstream.store.recent.checked_messages import RecentMessages
from nbstream.store.recent.message_rows import normalize_address
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.store.transfer import archive
from nbstream.store.user_labels import UserLabels
from nbstream.tokens.private_tokens import TokenHasher

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import SecretStr
    from redis.asyncio import Redis

    from nbstream.addresses import TcpAddress
    from nbstream.correspondents.facts import CorrespondentFacts
    from nbstream.correspondents.settings import CorrespondentsSettings
    from nbstream.daemon.config import Settings


_log = logging.getLogger(__name__)

_DAY_SECONDS = 86_400
_PRIVATE_KEY_FILE = "private-tokens.key"  # in ``state_dir``
_CORRESPONDENTS_KEY_FILE = "correspondents.key"
_OWN_PREQUENTIAL_SCORES = 1000  # of each class: budgets are those of the common model


@dataclass(frozen=True, slots=True)
class RedisClients:
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
        embedded, options, waits_seconds = None, connection_options(settings), 0.0
        if settings.redis.is_embedded:
            embedded, waits_seconds = EmbeddedRedis(settings.state_dir), 2 * SAME_SERVER_BLOCK_SECONDS
            stack.push_async_callback(asyncio.to_thread, embedded.close)
            options = replace(options, server=f"unix://{quote(embedded.open())}")
        primary = connection.open_primary(options, report_loss)
        client = connection.open_client(options, primary=primary)
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
        login = connection.Login(redis.sentinel_user, _revealed(redis.sentinel_password))
        server = connection.SentinelNodes(_addresses(redis.sentinels), redis.service, login)
    elif redis.cluster:
        server = connection.ClusterNodes(_addresses(redis.cluster))
    files = [str(file) if file else None for file in (redis.ca_file, redis.cert_file, redis.key_file)]
    return connection.ConnectionOptions(
        server,
        _revealed(redis.password),
        redis.timeout_seconds,
        settings.model.name,
        redis.user,
        connection.TlsOptions(*files) if redis.tls or any(files) else None,
    )


def _revealed(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _addresses(addresses: Sequence[TcpAddress]) -> tuple[tuple[str, int], ...]:
    return tuple((address.host, address.port) for address in addresses)


@asynccontextmanager
async def open_running_redis(settings: Settings) -> AsyncIterator[RedisClients]:
    """Do what ``open_redis`` does, and wait until the embedded server runs.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_redis(settings) as clients:
        if clients.embedded:
            await clients.embedded.ensure_running()
        yield clients


def make_hasher(settings: Settings, engine: Engine = PYTHON) -> TokenHasher | None:
    """Return what makes the names of private tokens; None where the model stores words.

    Raises ``ConfigError`` where there is no key.
    """
    if not settings.model.private_tokens:
        return None
    return TokenHasher(_key_in(private_key_file(settings), "model.private_tokens"), engine.native_library)


def private_key_file(settings: Settings) -> Path:
    """Return the file with the key of private tokens."""
    return settings.model.private_tokens_key_file or settings.state_dir / _PRIVATE_KEY_FILE


@lru_cache
def _key_in(file: Path, setting: str) -> bytes:
    """Return the key, which is read once: models are opened later too, and must not get another than messages."""
    return read_or_make_key(file, setting)


def make_correspondent_store(settings: Settings, client: Redis) -> CorrespondentStore | None:
    """Return what is stored of correspondents; None where they are off. Raises ``ConfigError`` without a key."""
    section = settings.correspondents
    if section is None:
        return None
    known = KnownTime(_DAY_SECONDS * section.answer_days, _DAY_SECONDS * section.sender_days)
    hasher = FactHasher(_key_in(correspondents_key_file(settings, section), "correspondents"))
    return CorrespondentStore(client, ModelKeys(settings.model.name).correspondents, hasher, known)


def correspondents_key_file(settings: Settings, section: CorrespondentsSettings) -> Path:
    """Return the file with the key of the hashes of correspondents."""
    return section.key_file or settings.state_dir / _CORRESPONDENTS_KEY_FILE


def make_correspondent_reader(settings: Settings, client: Redis) -> CorrespondentStore | None:
    """Return what is stored of correspondents, for a command; None where there is no key that it can read."""
    return make_correspondent_store(settings, client) if _can_read_correspondents(settings) else None


def _can_read_correspondents(settings: Settings) -> bool:
    section = settings.correspondents
    return section is not None and os.access(correspondents_key_file(settings, section), os.R_OK)


async def read_correspondents(settings: Settings) -> CorrespondentFacts | None:
    """Return what is known of correspondents now, for a command; None where nothing is.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    if not _can_read_correspondents(settings):  # no server is started for nothing
        return None
    async with open_running_redis(settings) as clients:
        store = make_correspondent_reader(settings, clients.client)
        return await store.load() if store else None


def key_fingerprint(settings: Settings) -> str:
    """Return the fingerprint of the key of private tokens; empty where the model stores words.

    Raises ``ConfigError`` where there is no key.
    """
    hasher = make_hasher(settings)
    return hasher.fingerprint if hasher else ""


def make_model(settings: Settings, client: Redis) -> Model:
    """Return the model that the settings name."""
    return Model(
        client,
        settings.model.name,
        settings.model.ledger_days * _DAY_SECONDS,
        replica_wait=ReplicaWaitOptions(settings.redis.wait_replicas, settings.redis.timeout_seconds / 2),
        key_fingerprint=key_fingerprint(settings),
    )


def make_own_model(settings: Settings, client: Redis, name: str) -> Model:
    """Return the own model of this name, below the model that the settings name."""
    return Model(
        client,
        OwnModelKeys(settings.model.name, name),
        settings.model.ledger_days * _DAY_SECONDS,
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


def make_own_models(settings: Settings, clients: RedisClients, engine: Engine = PYTHON) -> OwnModels:
    """Return the own models in the memory of this process, none in the beginning."""
    return OwnModels(
        lambda name: make_own_model(settings, clients.client, name),
        clients.client,
        settings.model.name,
        library=engine.native_library,
    )


def followed_of(settings: Settings, own_models: OwnModels) -> Sequence[Followed]:
    """Return what a follower keeps equal to Redis of own models.

    That is nothing with a cluster, which has no own models: their streams are in many slots, and one XREAD over
    several of them is refused.
    """
    return () if settings.redis.cluster else own_models.followed


def make_user_labels(settings: Settings, client: Redis) -> UserLabels:
    """Return which messages users have labelled in their own models."""
    return UserLabels(client, ModelKeys(settings.model.name), settings.model.ledger_days * _DAY_SECONDS)


def make_follower(clients: RedisClients, followed: Sequence[Followed]) -> Follower:
    """Return what keeps all of this equal to Redis."""
    embedded = clients.embedded
    if embedded is None:
        return Follower(clients.blocking_client, followed)
    return Follower(clients.blocking_client, followed, embedded.ensure_running, SAME_SERVER_BLOCK_SECONDS)


def make_recent_messages(
    settings: Settings,
    model: Model,
    report_dropped: Callable[[int], None] = lambda _: None,
    user_of: Callable[[str], str] = normalize_address,
) -> RecentMessages:
    """Return the memory of the model's checked messages.

    ``report_dropped`` is called with the number of messages that could not be remembered. ``user_of``
    returns the address of the user to whom mail for an address belongs.
    """
    memory = settings.memory.model_copy(update={"envelope": settings.remembers_envelopes})
    rows = settings.remembers_rows
    accepted = model.note_writes_accepted
    return RecentMessages(model.client, model.keys, memory, report_dropped, accepted, rows=rows, user_of=user_of)


@asynccontextmanager
async def open_sender_lists(settings: Settings) -> AsyncIterator[StoredSenderLists]:
    """Open the sender lists that are stored beside the model.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    async with open_running_redis(settings) as clients:
        yield StoredSenderLists(clients.client, ModelKeys(settings.model.name))


@asynccontextmanager
async def open_temporary_model(settings: Settings, purpose: str) -> AsyncIterator[Model]:
    """Make a model in the Redis of ``settings``, named after its ``purpose`` and removed at the end.

    Raises ``ConfigError`` or ``StoreUnavailable`` where Redis cannot be used.
    """
    name = temporary_name(purpose)
    model_settings = settings.model.model_copy(update={"name": name})
    ledger_seconds = settings.model.ledger_days * _DAY_SECONDS
    async with (
        open_running_redis(settings.model_copy(update={"model": model_settings})) as clients,
        temporary_model(clients.client, name, ledger_seconds) as model,
    ):
        yield model
