"""``nbstream.daemon.assembly.store``."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nbstream.daemon.assembly.store import open_running_redis
from nbstream.daemon.config import Settings
from nbstream.store.embedded import EmbeddedRedis


async def test_a_command_goes_on_when_the_one_ends_that_started_the_embedded_server(
    redis_binary: Path, tmp_path: Path
) -> None:
    starter = EmbeddedRedis(tmp_path)
    starter.open()
    await starter.ensure_running()

    async with open_running_redis(Settings(state_dir=tmp_path)) as clients:
        await clients.client.set("key", "value")
        await asyncio.to_thread(starter.close)

        assert await clients.client.get("key") == b"value"
