"""Fixtures for the commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis

from tests.cli.taught import Taught
from tests.harness.redis.redis_server import RedisServer


@pytest.fixture
def taught(shared_redis: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Taught:
    """An empty model."""
    with Redis(unix_socket_path=str(shared_redis.socket)) as client:
        client.flushall()
    return Taught(shared_redis.url, tmp_path, capsys)
