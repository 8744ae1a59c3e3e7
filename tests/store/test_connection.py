"""Connections to Redis, also over TLS, and the warnings about the server."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nbstream.cli.exit_codes import EX_CONFIG, exit_code
from nbstream.errors import StoreForbids, StoreUnavailable
from nbstream.findings import Finding
from nbstream.store.connection import ConnectionOptions, durability, durability_risks, open_client
from nbstream.store.connection.options import TlsOptions
from nbstream.store.embedded import find_servers
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from tests.harness.daemon import free_port
from tests.harness.lessons import NOTE
from tests.harness.programs import missing
from tests.harness.redis.redis_server import RedisServer
from tests.harness.redis.replicas import replicated

TOKENS = tuple(b"body:%d" % n for n in range(300))


@pytest.fixture
def certificate(program: Callable[[str], str], tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody else has signed; its key is beside it."""
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "certificate.pem")]
    subprocess.run([program("openssl"), *words.split(), *files], check=True, capture_output=True, timeout=30)
    return tmp_path / "certificate.pem"


@pytest.fixture
def tls_url(own_redis: RedisServer, certificate: Path) -> str:
    """A server that speaks TLS, and asks clients for no certificate."""
    port, key = free_port(), certificate.with_name("key.pem")
    own_redis.stop()
    try:
        own_redis.start(
            *("--tls-port", str(port), "--tls-auth-clients", "no"),
            *(
                "--tls-cert-file",
                str(certificate),
                "--tls-key-file",
                str(key),
                "--tls-ca-cert-file",
                str(certificate),
            ),
        )
    except AssertionError:
        missing("a Redis server that was built with TLS")
    return f"rediss://127.0.0.1:{port}/0"


async def test_counts_go_to_a_server_behind_tls_and_come_back(tls_url: str, certificate: Path) -> None:
    async with open_client(ConnectionOptions(tls_url, tls=TlsOptions(str(certificate)))) as client:
        model = Model(client, "test", 3600)
        await model.open()
        entry = LedgerEntry("v1", "spam", 1000, TOKENS, 1.5, "test", "nobody", 0.25)
        assert isinstance(await model.commit_lesson("m1", None, entry, NOTE), bytes)
        assert (await model.look_up(TOKENS))[0].tolist() == [[0, 1000]] * len(TOKENS)


async def test_a_server_with_an_untrusted_certificate_is_refused(tls_url: str) -> None:
    async with open_client(ConnectionOptions(tls_url)) as client:
        with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await Model(client, "test", 3600).totals()


@pytest.mark.parametrize("server", find_servers(), ids=lambda path: path.parent.as_posix())
async def test_each_version_of_redis_gets_warnings_about_what_it_could_lose(server: Path, tmp_path: Path) -> None:
    redis = RedisServer(server, tmp_path)
    redis.start("--maxmemory-policy", "allkeys-lru")
    try:
        async with open_client(ConnectionOptions(redis.url)) as client:
            not_persistent, may_evict = [found.what for found in await durability_risks(client)]
            await client.config_set("appendonly", "yes")
            await client.config_set("maxmemory-policy", "noeviction")
            (synced_too_seldom,) = [found.what for found in await durability_risks(client)]
            await client.config_set("appendfsync", "always")
            assert await durability_risks(client) == []
    finally:
        redis.stop()
    assert "a restart loses everything learned" in not_persistent
    assert "Redis may evict keys (maxmemory-policy allkeys-lru)" in may_evict
    assert "everysec" in synced_too_seldom


@pytest.mark.parametrize(
    ("wait_replicas", "risks"),
    [
        (0, [durability.REPLICATED_LATE(value=1), durability.WRITES_ALONE()]),
        (1, []),
    ],
)
async def test_a_failover_may_lose_what_a_replica_has_not_confirmed(
    own_redis: RedisServer, tmp_path: Path, wait_replicas: int, risks: list[Finding]
) -> None:
    async with replicated(own_redis, tmp_path / "replica") as pair:
        await pair.catch_up()
        await pair.at_primary.config_set("appendonly", "yes")
        await pair.at_primary.config_set("maxmemory-policy", "noeviction")

        assert await durability_risks(pair.at_primary, wait_replicas) == [
            *risks,
            durability.SYNCED_LATE(value="everysec"),
        ]


async def test_a_server_that_hides_its_settings_still_says_how_many_replicas_it_has(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    async with replicated(own_redis, tmp_path / "replica") as pair:
        await pair.catch_up()
        await pair.at_primary.acl_setuser("default", enabled=True, commands=["-config"])

        found = await durability_risks(pair.at_primary)

    assert found == [durability.REPLICATED_LATE(value=1), durability.UNKNOWN()]


@pytest.mark.parametrize("password", [None, "wrong"])
async def test_a_refused_password_has_an_error_of_its_own(own_redis: RedisServer, password: str | None) -> None:
    own_redis.stop()
    own_redis.start("--requirepass", "right")

    async with open_client(ConnectionOptions(own_redis.url, password)) as client:
        # A daemon waits, as for any StoreUnavailable; a command ends with the exit code of a wrong configuration.
        with pytest.raises(StoreForbids, match="refuses the password, or wants one") as refused:
            await Model(client, "test", 3600).open()

    assert isinstance(refused.value, StoreUnavailable)
    assert exit_code(refused.value) == EX_CONFIG
