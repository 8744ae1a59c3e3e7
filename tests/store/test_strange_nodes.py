"""What Sentinels and nodes answer is not to be trusted, and asking them costs one deadline, however many wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis import exceptions

from nbstream.errors import StoreUnavailable
from nbstream.store.connection import ClusterNodes, ConnectionOptions, SentinelNodes, open_client
from nbstream.store.connection.locators import SentinelLocator
from nbstream.store.connection.options import NodeAddress
from nbstream.store.connection.primary import Primary
from nbstream.store.model.model import Model


@asynccontextmanager
async def node_that_answers(reply: bytes) -> AsyncIterator[NodeAddress]:
    """A server that gives the same reply to whatever it reads."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            writer.write(reply)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()


@pytest.mark.parametrize("kind", [SentinelNodes, ClusterNodes])
@pytest.mark.parametrize(
    "reply",
    [
        b":1\r\n",
        b"$-1\r\n",
        b"*0\r\n",
        b"*1\r\n$1\r\nh\r\n",
        b"*2\r\n$1\r\nh\r\n$-1\r\n",
        b"*2\r\n:1\r\n:2\r\n",
        b"$4\r\n\xff\xff\xff\xff\r\n",
        b"$9\r\na b c d e\r\n",
        b"+OK\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
async def test_a_node_that_is_something_else_is_an_unavailable_store(kind: type, reply: bytes) -> None:
    async with node_that_answers(reply) as address:
        nodes = kind((address,), *(["mymaster"] if kind is SentinelNodes else []))
        async with open_client(ConnectionOptions(nodes, timeout_seconds=1, model="test"), retries=0) as client:
            with pytest.raises(StoreUnavailable):
                await Model(client, "test", 3600).totals()


class SilentNodes(SentinelLocator):
    """A locator that nobody answers; ``questions`` counts how often it was asked."""

    def __init__(self) -> None:
        nodes = SentinelNodes((), "mymaster")
        super().__init__(nodes, ConnectionOptions(nodes))
        self.questions = 0
        self.deadline = asyncio.Event()

    async def locate(self) -> NodeAddress:
        self.questions += 1
        await self.deadline.wait()
        raise exceptions.ConnectionError("nobody answers")


async def test_connections_that_wait_for_the_same_question_do_not_ask_one_after_the_other() -> None:
    nodes = SilentNodes()
    primary = Primary(locator=nodes)
    waiting = [asyncio.create_task(primary.locate()) for _ in range(32)]
    await asyncio.sleep(0)
    nodes.deadline.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert {type(result) for result in results} == {exceptions.ConnectionError}
    assert nodes.questions == 1
    with pytest.raises(exceptions.ConnectionError):
        await primary.locate()
    assert nodes.questions == 2, "who comes later asks anew"
