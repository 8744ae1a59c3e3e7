"""The running listeners that several tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.listeners.smtp.settings import TlsMode
from nbstream.store.connection import ConnectionOptions, open_client
from tests.harness.redis.access import Certificates
from tests.harness.redis.redis_server import RedisServer
from tests.harness.smtp_listener import RunningSmtp, Way, open_smtp_listener
from tests.listeners.stream.stream_worker import Worker, working


@pytest.fixture
async def smtp(client: Redis, tmp_path: Path) -> AsyncIterator[RunningSmtp]:
    """An SMTP listener in front of a Maildir."""
    async with open_smtp_listener(client, tmp_path / "Maildir") as running:
        yield running


@pytest.fixture(scope="session")
def certificates(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A certificate for 127.0.0.1."""
    return Certificates.make(program("openssl"), tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=[Way.SMTP, Way.SMTP_STARTTLS, Way.SMTP_TLS, Way.LMTP_UNIX])
async def reached(request: pytest.FixtureRequest, client: Redis, tmp_path: Path) -> AsyncIterator[RunningSmtp]:
    """A listener in front of a Maildir, reached by SMTP and LMTP, with and without TLS."""
    way: Way = request.param
    certificates = None if way.tls is TlsMode.OFF else request.getfixturevalue("certificates")
    async with open_smtp_listener(client, tmp_path / "Maildir", way=way, certificates=certificates) as running:
        yield running


@pytest.fixture
async def worker(client: Redis, shared_redis: RedisServer) -> AsyncIterator[Worker]:
    """A worker of the stream listener."""
    async with working(client, shared_redis.url) as worker:
        yield worker


@pytest.fixture
async def own_client(own_redis: RedisServer) -> AsyncIterator[Redis]:
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1))
    yield client
    await client.aclose()
