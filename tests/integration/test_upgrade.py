"""Two daemons share a model of 0.4.0: it is used as it is, migrated once, and no lesson is lost or doubled."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from nbstream.store.connection import ConnectionOptions, open_client
from tests.conftest import RedisServer
from tests.integration.daemon import DaemonProcess, command, free_port, wait_until
from tests.letters import letters
from tests.store.released_models import restore, taught

MAILS = list(letters(12, seed=41))


@contextmanager
def running(configs: list[Path]) -> Iterator[list[DaemonProcess]]:
    """Daemons with these configurations, until they have stopped at the end of the block."""
    with ExitStack() as stack:
        daemons = [stack.enter_context(DaemonProcess(config)) for config in configs]
        for daemon in daemons:
            wait_until(lambda daemon=daemon: daemon.get("/readyz")[0] == 200)
        yield daemons
        assert [daemon.stop() for daemon in daemons] == [0, 0]


def configure(folder: Path, redis_url: str) -> Path:
    """Write a configuration into a new folder."""
    folder.mkdir()
    config = folder / "nbstream.yaml"
    config.write_text(
        f"redis: {{url: '{redis_url}'}}\nstate_dir: '{folder / 'state'}'\nlog: {{format: json}}\n"
        f"relay: {{next_hop: 'maildir:{folder / 'mail'}'}}\n"
        f"listeners: {{smtp: {{listen: '127.0.0.1:{free_port()}'}}, "
        f"http: {{listen: '127.0.0.1:{free_port()}'}}}}\n"
    )
    return config


def learn(daemon: DaemonProcess, label: str, raw: bytes) -> str:
    """Teach the daemon a message; return what it answers: learned, or already."""
    request = urllib.request.Request(f"http://{daemon.address('http')}/v1/learn?label={label}", data=raw)
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["outcome"])


@pytest.fixture
def server_with_model(shared_redis: RedisServer) -> RedisServer:
    """A Redis with the model that 0.4.0 wrote."""

    async def fill() -> None:
        client = open_client(ConnectionOptions(shared_redis.url))
        await client.flushall()
        await restore(client, "0.4.0")
        await client.aclose()

    asyncio.run(fill())
    return shared_redis


def test_a_model_is_migrated_between_two_lives_of_two_daemons(
    server_with_model: RedisServer, tmp_path: Path
) -> None:
    configs = [configure(tmp_path / name, server_with_model.url) for name in ("one", "other")]
    with running(configs) as (one, other):
        for number, (label, raw) in enumerate(MAILS[:6]):
            first, second = (one, other) if number % 2 else (other, one)
            assert learn(first, label, raw) == "learned"
            assert learn(second, label, raw) == "already"
        assert command("migrate", "-c", configs[0]).returncode == 75

    assert command("migrate", "-c", configs[0]).returncode == 0

    with running(configs) as (one, other):
        for number, (label, raw) in enumerate(MAILS[6:]):
            assert learn((one, other)[number % 2], label, raw) == "learned"
        for label, raw in [*taught(), *MAILS]:
            assert [learn(daemon, label, raw) for daemon in (one, other)] == ["already"] * 2
        assert [json.loads(daemon.get("/stat")[1])["learned"] for daemon in (one, other)] == [24, 24]
