"""The running listeners that several tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.conftest import RedisServer
from tests.listeners.smtp.smtp_listener import RunningSmtp, open_smtp_listener
from tests.listeners.stream.stream_worker import Worker, working


@pytest.fixture
async def smtp(client: Redis, tmp_path: Path) -> AsyncIterator[RunningSmtp]:
    """An SMTP listener in front of a Maildir."""
    async with open_smtp_listener(client, tmp_path / "Maildir") as running:
        yield running


@pytest.fixture
async def worker(client: Redis, shared_redis: RedisServer) -> AsyncIterator[Worker]:
    """A worker of the stream listener."""
    async with working(client, shared_redis.url) as worker:
        yield worker
