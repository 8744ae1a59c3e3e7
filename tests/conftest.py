"""Fixtures for all tests: a real Redis, and programs that may be missing, see ``tests.harness.programs``."""

from __future__ import annotations

import asyncio
import os
import subprocess
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import uvloop
from redis.asyncio import Redis

from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.embedded import find_servers
from tests.harness.programs import find_program, missing
from tests.harness.redis.programs import is_built_with_tls, server_programs
from tests.harness.redis.redis_server import RedisServer

# Hypothesis would fail an example that takes 200 ms, or whose data take long to draw: busy machines do both. What
# fifteen examples do not find, each run draws others, is found by another run.
hypothesis.settings.register_profile(
    "patient", max_examples=15, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


class Loop(uvloop.Loop):
    """The loop that the daemon runs on; what a test leaves open on it is closed, and told.

    uvloop closes what is open by warning of it first. Where warnings are errors, it warns but does not close, and
    then waits for ever for the end of what is open. A test that had failed before it could clean up hung there,
    unnamed, with all that were to come: pytest-timeout lets go of a test once it has failed.
    """

    def close(self) -> None:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            super().close()
        assert not told, f"left open: {', '.join(str(warning.message) for warning in told)}"


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The daemon's loop: its transports differ from asyncio's."""
    return {"uvloop": Loop}


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """The path of a program that a Debian package brings."""
    return find_program


@pytest.fixture(scope="session")
def redis_binary() -> Path:
    servers = find_servers()
    if not servers:
        missing("a Redis or Valkey server")
    return servers[0]


@pytest.fixture(params=sorted(server_programs()) or ["redis"])
def server_program(request: pytest.FixtureRequest) -> Path:
    """The server program of each family that is on PATH, one after the other: Redis 7 or newer, and Valkey."""
    programs = server_programs()
    if request.param not in programs:
        missing("Redis 7 or newer, or Valkey")
    return programs[request.param]


@pytest.fixture
def tls_server_program(server_program: Path) -> Path:
    """The same, as far as they were built with TLS."""
    if not is_built_with_tls(server_program):
        pytest.skip(f"{server_program} was built without TLS")
    return server_program


@pytest.fixture(scope="session")
def shared_redis(redis_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(redis_binary, tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_redis(redis_binary: Path, tmp_path: Path) -> Iterator[RedisServer]:
    """A server for one test alone, which may stop and start it."""
    server = RedisServer(redis_binary, tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def client(shared_redis: RedisServer) -> AsyncIterator[Redis]:
    """A client of an empty server."""
    redis = open_client(ConnectionOptions(shared_redis.url))
    await redis.flushall()
    yield redis
    await redis.aclose()


@pytest.fixture
def small_disk(tmp_path: Path, program: Callable[[str], str]) -> Iterator[Path]:
    """A file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    options = ["-t", "tmpfs", "-o", "size=4m", "tmpfs"]
    result = subprocess.run([program("mount"), *options, folder], capture_output=True, text=True, check=False)
    if result.returncode:
        missing(f"the right to mount ({result.stderr.strip()})")
    yield folder
    subprocess.run([program("umount"), "--lazy", folder], check=True)
