"""The sets of servers under sentinels do what the tests on them rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.sentinel import Sentinel

from tests.integration.daemon import DEADLINE_SECONDS, wait_until
from tests.redis_servers.access import Access, Certificates
from tests.redis_servers.network import CLIENTS, Network
from tests.redis_servers.sentinel_set import SERVICE, SentinelSet


@pytest.fixture
def servers(server_program: Path, tmp_path: Path) -> Iterator[SentinelSet]:
    with SentinelSet(server_program, tmp_path / "set") as running:
        yield running


def sentinel_client(servers: SentinelSet, **options: object) -> Redis:
    """A client of redis-py that finds the primary by itself."""
    options |= {"socket_timeout": 1.0}
    sentinels = [(sentinel.host, sentinel.public_port) for sentinel in servers.sentinels]
    client: Redis = Sentinel(sentinels, sentinel_kwargs=options, **options).master_for(SERVICE)  # type: ignore[no-untyped-call]  # redis-py has no type here
    return client


def test_a_replica_takes_the_place_of_a_killed_primary_which_then_follows_it(servers: SentinelSet) -> None:
    old = servers.primary()
    with sentinel_client(servers) as client:
        client.set("key", "before")
        assert client.wait(2, 5000) == 2
        old.kill()

        new = servers.wait_for_new_primary(old)
        assert new is not old
        assert client.get("key") == b"before"

        client.set("key", "after")
        old.start()
        servers.wait_until_whole()
        assert servers.primary() is new
        wait_until(lambda: old.ask("GET", "key") == b"after")


def test_a_primary_that_is_stopped_is_replaced_and_follows_when_it_goes_on(servers: SentinelSet) -> None:
    old = servers.primary()
    old.stop()
    new = servers.wait_for_new_primary(old)

    old.resume()
    servers.wait_until_whole()

    assert servers.primary() is new


def test_all_sentinels_restarted_know_the_primary_still(servers: SentinelSet) -> None:
    old = servers.primary()
    old.kill()
    new = servers.wait_for_new_primary(old)
    for sentinel in servers.sentinels:
        sentinel.terminate()
    for sentinel in servers.sentinels:
        sentinel.start()

    old.start()
    servers.wait_until_whole()

    assert servers.primary() is new


def test_an_isolated_primary_takes_writes_of_its_own_side_until_the_network_is_joined(
    server_program: Path, tmp_path: Path
) -> None:
    with Network() as network, SentinelSet(server_program, tmp_path / "set", network=network) as servers:
        old = servers.primary()
        with Redis(host=old.host, port=old.public_port, socket_timeout=1.0) as client:
            client.set("key", "common")
            network.isolate({old.host, CLIENTS})
            client.set("key", "lost")
            new = servers.wait_for_new_primary(old)
            assert client.get("key") == b"lost"
            assert new.ask("GET", "key") == b"common"

        network.join()
        servers.wait_until_whole()

        assert servers.primary() is new
        wait_until(lambda: old.ask("GET", "key") == b"common")


def test_nothing_passes_between_isolated_sides_and_no_connection_breaks(
    server_program: Path, tmp_path: Path
) -> None:
    with Network() as network, SentinelSet(server_program, tmp_path / "set", network=network) as servers:
        primary = servers.primary()
        with Redis(host=primary.host, port=primary.public_port) as client, client.pubsub() as messages:
            messages.subscribe("channel")
            assert messages.get_message(timeout=DEADLINE_SECONDS)["type"] == "subscribe"
            network.isolate({CLIENTS})
            primary.ask("PUBLISH", "channel", "late")
            assert messages.get_message(timeout=0.2) is None

            network.join()

            assert messages.get_message(timeout=DEADLINE_SECONDS)["data"] == b"late"


def test_servers_and_sentinels_want_the_password_and_a_certificate(
    tls_server_program: Path, tmp_path: Path, program: Callable[[str], str]
) -> None:
    certificates = Certificates.make(program("openssl"), tmp_path)
    access = Access("secret", certificates)
    with SentinelSet(tls_server_program, tmp_path / "set", access) as servers:
        old = servers.primary()
        old.kill()
        servers.wait_for_new_primary(old)
        with sentinel_client(servers, **access.client_options()) as client:
            assert client.set("key", "value")
        other = servers.primary()
        options = access.client_options() | {"host": other.host, "port": other.port}
        with Redis(**options | {"password": None}) as client, pytest.raises(AuthenticationError):  # type: ignore[arg-type]  # a mapping of many types
            client.get("key")
        with Redis(host=other.host, port=other.port) as client, pytest.raises(RedisConnectionError):
            client.get("key")


def test_min_replicas_to_write_stops_the_writes_of_a_primary_without_replicas(
    server_program: Path, tmp_path: Path
) -> None:
    lines = ["min-replicas-to-write 1", "min-replicas-max-lag 1"]
    with SentinelSet(server_program, tmp_path / "set", lines=lines) as servers:
        primary = servers.primary()
        primary.ask("SET", "key", "value")
        for sentinel in servers.sentinels:
            sentinel.kill()
        for replica in servers.servers:
            if replica is not primary:
                replica.kill()

        def is_refused() -> bool:
            try:
                primary.ask("SET", "key", "value")
            except ResponseError as error:
                return "NOREPLICAS" in str(error)
            return False

        wait_until(is_refused)
