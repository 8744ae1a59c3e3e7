"""The follower ends equal to Redis, whatever happens while it loads and follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.bayes.counts import ChangePosition
from nbstream.errors import StoreUnavailable
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.follower.follower import Follower
from nbstream.store.model.model import Model
from tests.harness.followers import KINDS, counts_of_kind
from tests.harness.lessons import TOKENS, change, entry
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import DEADLINE_SECONDS, until


async def equals_redis(followed: FollowedCounts, model: Model, tokens: list[bytes]) -> bool:
    ours, our_totals = await followed.look_up(tokens)
    theirs, their_totals = await model.look_up(tokens)
    return bool((ours == theirs).all()) and our_totals == their_totals


async def later_than_change(model: Model, change_id: bytes | None) -> bool:
    """Whether the server's clock shows a later millisecond than that of the change."""
    seconds, microseconds = await model.client.time()
    return (seconds * 1000 + microseconds // 1000) > ChangePosition.of(change_id or b"").milliseconds


RunCounts = Callable[..., AbstractAsyncContextManager[FollowedCounts]]


@pytest.fixture(params=KINDS)
def run_counts(request: pytest.FixtureRequest) -> RunCounts:
    """Runs followers of each kind: whatever holds for one holds for the others."""

    def run(model: Model) -> AbstractAsyncContextManager[FollowedCounts]:
        return counts_of_kind(model, request.param)

    return run


@pytest.fixture
def model(client: Redis) -> Model:
    return Model(client, "test", 3600)


async def test_a_follower_loads_the_counts_and_follows_the_changes(run_counts: RunCounts, model: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS[:4]))

    async with run_counts(model) as followed:
        assert await equals_redis(followed, model, TOKENS)
        change_id = await change(model, "m1", entry("ham", TOKENS[2:], weight=5))
        assert change_id is not None
        await followed.wait_until_applied(change_id)

        assert await equals_redis(followed, model, TOKENS)
        assert followed.lag_seconds == 0


async def test_a_follower_that_loads_under_writers_ends_equal(run_counts: RunCounts, model: Model) -> None:
    tokens = [b"w%d" % n for n in range(3000)]
    await change(model, "first", entry("spam", tokens))
    stop = asyncio.Event()

    async def write(number: int) -> bytes:
        last, step = b"", 0
        while not stop.is_set():
            step += 1
            start = (number * 700 + step * 13) % 2500
            label = "spam" if step % 3 else "ham"
            new = entry(label, tokens[start : start + 300], sums=[(b"=x", step), (b"=messages", 1000)])
            last = await change(model, f"{number}-{step % 20}", new) or last
        return last

    writers = [asyncio.create_task(write(number)) for number in range(3)]
    async with run_counts(model) as followed, run_counts(model) as late:
        stop.set()
        last = max(await asyncio.gather(*writers), key=ChangePosition.of)
        await asyncio.gather(followed.wait_until_applied(last), late.wait_until_applied(last))

        for follower in (followed, late):
            assert await equals_redis(follower, model, [*tokens, b"=x", b"=messages"])


async def test_while_redis_is_away_the_old_counts_serve_and_then_it_follows_again(
    run_counts: RunCounts, own_redis: RedisServer
) -> None:
    model = Model(open_client(ConnectionOptions(own_redis.url, timeout_seconds=1)), "test", 3600)
    async with run_counts(model) as followed:
        await followed.wait_until_applied(await change(model, "m1", entry("spam", TOKENS)) or b"")
        own_redis.stop()
        await until(lambda: not followed.is_current)

        assert (await followed.look_up(TOKENS))[0][:, 1].tolist() == [1000] * len(TOKENS)
        assert followed.lag_seconds > 0

        own_redis.start()  # empty: this server saves nothing
        await until(lambda: followed.is_current)
        await followed.wait_until_applied(await change(model, "m2", entry("ham", TOKENS)) or b"")
        assert await equals_redis(followed, model, TOKENS)
    await model.client.aclose()


async def test_a_cut_connection_loses_no_change(run_counts: RunCounts, model: Model) -> None:
    async with run_counts(model) as followed:
        last = b""
        for number in range(60):
            if number % 7 == 0:
                await model.client.client_kill_filter(_type="normal", skipme=True)
            last = await change(model, f"m{number}", entry("spam", TOKENS[number % 8 :])) or last
        await followed.wait_until_applied(last)

        assert await equals_redis(followed, model, TOKENS)


async def test_an_idle_follower_follows_whatever_the_deadline_of_a_command(
    run_counts: RunCounts, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks: list[int] = []
    xread: Any = Redis.xread

    def count_blocks(*arguments: Any, block: int, **options: Any) -> Any:
        blocks.append(block)
        return xread(*arguments, block=block, **options)

    monkeypatch.setattr(Redis, "xread", count_blocks)
    options = ConnectionOptions(own_redis.url, timeout_seconds=0.8)
    async with open_client(options, retries=0) as client, run_counts(Model(client, "test", 3600)) as followed:
        await until(lambda: len(blocks) > 3)
        await until(lambda: followed.is_current)
    assert 0 < min(blocks) <= max(blocks) < 800


async def test_wait_until_applied_fails_for_a_change_that_never_arrives(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbstream.store.follower.counts._APPLIED_SECONDS", 0.05)

    with pytest.raises(StoreUnavailable, match="the change is stored"):
        await FollowedCounts(model).wait_until_applied(b"1-0")


async def test_a_server_that_goes_on_with_other_changes_behind_the_same_connection_is_scanned_again(
    run_counts: RunCounts, model: Model, own_redis: RedisServer
) -> None:
    """Its changes have the numbers and the stream ids that would come next, but the one before is another one."""
    other_client = open_client(ConnectionOptions(own_redis.url))
    other = Model(other_client, "test", 3600)
    async with run_counts(model) as followed:
        await change(model, "m1", entry("spam", TOKENS[:2]))
        for key in await model.client.keys():
            await other_client.restore(key, 0, await model.client.dump(key) or b"")
        ids = [await change(other, "m2", entry("ham", TOKENS[2:4]))]
        await until(lambda: later_than_change(model, ids[-1]))
        ids.append(await change(model, "m2", entry("spam", TOKENS[4:6])))
        await followed.wait_until_applied(ids[-1] or b"")
        await until(lambda: later_than_change(other, ids[-1]))
        ids.append(await change(other, "m3", entry("ham", TOKENS[6:])))

        dumps = {key: await other_client.dump(key) or b"" for key in await other_client.keys()}
        async with model.client.pipeline(transaction=True) as pipe:
            pipe.flushall()
            for key, dump in dumps.items():
                pipe.restore(key, 0, dump)
            await pipe.execute()

        await until(lambda: followed.loads > 1)
        assert await equals_redis(followed, model, TOKENS)
    await other_client.aclose()


async def test_a_change_that_cannot_be_read_leads_to_a_new_scan(run_counts: RunCounts, model: Model) -> None:
    async with run_counts(model) as followed:
        await model.client.xadd(model.keys.changes, {"sequence": "1"})
        await model.client.incr(model.keys.sequence)

        await followed.wait_until_applied(await change(model, "m1", entry("spam", TOKENS)) or b"")
        assert await equals_redis(followed, model, TOKENS)


async def test_a_cancelled_follower_ends_even_while_redis_comes_and_goes(own_redis: RedisServer) -> None:
    model = Model(open_client(ConnectionOptions(own_redis.url, timeout_seconds=1), retries=0), "test", 3600)
    for _ in range(20):
        task = asyncio.create_task(Follower(model.client, [FollowedCounts(model)]).run())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=DEADLINE_SECONDS)
        assert task.done()
    await model.client.aclose()
