"""Something before Redis accepts a connection and breaks it: a command then fails as where Redis is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nbstream.errors import StoreUnavailable
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.connection.client import look_for_primary
from nbstream.store.model.model import Model
from tests.harness.lessons import NOTE, entry
from tests.harness.redis.gate import Behaviour, Gate
from tests.harness.redis.redis_server import RedisServer

BREAKING = [behaviour for behaviour in Behaviour if behaviour is not Behaviour.PASS]
SECONDS = 0.1  # until a silent connection is given up
PATIENCE = 60  # until a working connection has answered in time, which a busy machine may miss
PASSING = (0, 3, 30, 2000, 6000)  # bytes of replies: none, within ROLE, within INFO, and behind the set-up


async def read_until_it_fails(model: Model) -> None:
    await model.open()
    while True:
        await model.totals()


async def until_it_works(ask: Callable[[], Awaitable[object]]) -> None:
    """Ask through a gate that passes everything, again where the answer came after ``SECONDS``."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await ask()
            except StoreUnavailable:
                await asyncio.sleep(0)
            else:
                return


@pytest.mark.parametrize("behaviour", BREAKING)
async def test_a_connection_that_breaks_at_any_byte_of_its_replies(
    own_redis: RedisServer, behaviour: Behaviour
) -> None:
    with Gate(own_redis.socket, behaviour) as gate:
        for gate.passing in PASSING:
            async with open_client(ConnectionOptions(gate.url, timeout_seconds=SECONDS), retries=0) as client:
                model = Model(client, "test", 3600)
                for _ in range(2):  # also on a connection that was closed meanwhile
                    with pytest.raises(StoreUnavailable):
                        await read_until_it_fails(model)
                await look_for_primary(client)


@pytest.mark.parametrize("behaviour", BREAKING)
async def test_a_connection_that_breaks_while_it_is_idle(own_redis: RedisServer, behaviour: Behaviour) -> None:
    with Gate(own_redis.socket) as gate:
        async with open_client(ConnectionOptions(gate.url, timeout_seconds=SECONDS), retries=0) as client:
            model = Model(client, "test", 3600)

            async def teach() -> None:
                await model.commit_lesson("a" * 24, None, entry("spam", [b"token:1"]), NOTE)

            await until_it_works(model.open)
            gate.behaviour = behaviour
            gate.cut()
            for _ in range(5):
                with pytest.raises(StoreUnavailable):
                    await teach()
            gate.behaviour = Behaviour.PASS
            await until_it_works(teach)
    assert gate.connections > 2
