"""What answers at the address of Redis may be something else: mail goes on, lessons are put off, nothing ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from nbstream.daemon.assembly.store import RedisClients
from nbstream.daemon.config import Settings
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.server import open_store
from nbstream.daemon.server_parts import ServerParts
from nbstream.engine.choice import PYTHON
from nbstream.errors import StoreUnavailable
from nbstream.server.background import BackgroundTasks
from nbstream.store.connection import ConnectionOptions, look_for_primary, open_client
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.follower.follower import Follower
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import unpack_reply
from nbstream.store.redis_errors import readable_replies
from tests.harness.waiting import until

STRANGE_REPLIES = [
    b"+OK\r\n",
    b":1\r\n",
    b"$3\r\nabc\r\n",
    b"*0\r\n",
    b"*2\r\n:1\r\n$1\r\nx\r\n",
    b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n",
    b"%1\r\n+a\r\n:1\r\n",
    b"-\xff\xfe\r\n",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
]


class StrangeServer:
    """Gives the same reply to whatever it reads; ``connections`` is how many were opened."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply
        self.connections = 0
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while await reader.read(65536):
            writer.write(self.reply)
        writer.close()


@asynccontextmanager
async def strange_server(reply: bytes) -> AsyncIterator[StrangeServer]:
    strange = StrangeServer(reply)
    server = await asyncio.start_server(strange.answer, "127.0.0.1", 0)
    strange.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    try:
        yield strange
    finally:
        server.close()


@pytest.mark.parametrize("reply", STRANGE_REPLIES)
async def test_a_follower_and_a_watch_go_on(reply: bytes) -> None:
    async with (
        strange_server(reply) as server,
        open_client(ConnectionOptions(server.url, timeout_seconds=0.2), retries=0) as client,
    ):
        followed = FollowedCounts(Model(client, "test", 3600))
        following = asyncio.create_task(Follower(client, [followed]).run())
        background = BackgroundTasks(lambda _name, _failures: None)
        background.every("primary", 0.01, partial(look_for_primary, client))
        await until(lambda: server.connections >= 10 or following.done())

        assert not following.done()
        assert followed.totals is None
        assert background.failing == []
        await background.stop()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@pytest.mark.parametrize("reply", STRANGE_REPLIES)
async def test_a_daemon_starts_without_a_redis_that_cannot_be_understood(
    reply: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        strange_server(reply) as server,
        open_client(ConnectionOptions(server.url, timeout_seconds=0.2), retries=0) as client,
    ):
        settings = Settings.model_validate({"state_dir": str(tmp_path)})
        parts = ServerParts(settings, RedisClients(client, client), DaemonMetrics.create(PYTHON), PYTHON)

        await open_store(parts)

    assert "starting without Redis: Redis: " in caplog.text


@pytest.mark.parametrize(
    "reply", [b"", b"OK", b"17\xef-1", b"17-1-1", b"17-1 ", [b"spam"], [], [[2, []]], [[1, [b"x"]]], 1, None]
)
def test_what_the_script_for_lessons_never_answers_is_no_lesson(reply: object) -> None:
    with pytest.raises(StoreUnavailable):
        unpack_reply(reply, 1)


def test_a_reply_that_cannot_be_read_is_said_with_the_place_that_could_not() -> None:
    place = r"\(test_strange_replies\.py:\d+\)"
    with pytest.raises(StoreUnavailable, match=f"cannot be read {place}: KeyError"), readable_replies():
        raise KeyError("totals")
