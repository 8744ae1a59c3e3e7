"""Learning is addition: on a real Redis, every sequence of changes ends at the sum over the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible, StoreRefuses, StoreUnavailable
from nbstream.store.compression import compress
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.ledger import LedgerConflict, unpack_tokens
from nbstream.store.model.model import Model
from tests.harness.algebra import stored, summed
from tests.harness.lessons import NOTE, TOKENS, Step, change, entry, steps
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until
from tests.store.bombs import MANY_TOKENS, little_memory, many_bytes


@pytest.fixture
async def model(client: Redis) -> Model:
    opened = Model(client, "test", ledger_seconds=3600)
    await opened.open()
    return opened


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
async def test_any_sequence_of_changes_ends_at_the_sum_over_the_ledger(client: Redis, steps: list[Step]) -> None:
    await client.flushall()
    model = Model(client, "test", ledger_seconds=3600)

    for message, new in steps:
        await change(model, message, entry(*new) if new else None)

    assert await stored(model) == await summed(model)


# Sums


async def test_a_message_of_more_tokens_than_lua_can_unpack_is_learned_whole(model: Model) -> None:
    many = [b"t%d" % n for n in range(9000)]

    await change(model, "m1", entry("spam", many))

    counts, totals = await stored(model)
    assert counts["spam"] == dict.fromkeys(many, 1000)
    assert totals[b"vocabulary"] == 9000


async def test_a_change_of_an_entry_that_is_no_longer_there_changes_nothing(model: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS))
    stale = await model.entry("m1")
    await change(model, "m1", entry("ham", TOKENS))
    before = await stored(model)

    conflict = LedgerConflict(await model.entry("m1"))
    assert conflict.entry is not None
    assert await model.commit_lesson("m1", stale, entry("spam", TOKENS), NOTE) == conflict
    assert await model.commit_lesson("m1", None, entry("spam", TOKENS), NOTE) == conflict
    assert await model.commit_lesson("m2", stale, entry("spam", TOKENS), NOTE) == LedgerConflict(None)
    assert await stored(model) == before


async def test_the_ledger_gives_back_what_was_written_and_expires(model: Model) -> None:
    new = entry("spam", TOKENS, weight=123)

    change_id = await change(model, "m1", new)

    stored_entry = await model.entry("m1")
    assert stored_entry is not None
    assert (stored_entry.version, stored_entry.label, stored_entry.weight, stored_entry.tokens) == (
        new.version,
        "spam",
        123,
        tuple(TOKENS),
    )
    assert (stored_entry.learned_at, stored_entry.source, stored_entry.actor) == (1.5, "test", "nobody")
    assert (stored_entry.score, stored_entry.change) == (0.25, change_id)
    assert 0 < await model.client.ttl(model.keys.ledger("m1")) <= 3600


@pytest.mark.parametrize("make", [many_bytes, lambda: compress(MANY_TOKENS)], ids=["bytes", "tokens"])
async def test_a_bomb_in_the_ledger_is_refused_before_it_takes_memory(
    client: Redis, model: Model, make: Callable[[], bytes]
) -> None:
    tokens = make()
    await change(model, "m1", entry("spam", TOKENS))
    await client.hset(model.keys.ledger("m1"), "tokens", tokens)

    with little_memory():
        with pytest.raises(StoreIncompatible):
            await model.entry("m1")
        with pytest.raises(StoreIncompatible):
            unpack_tokens(tokens)


async def test_a_model_of_another_format_is_refused_with_a_way_forward(model: Model) -> None:
    await model.client.hset(model.keys.schema, "format", "999")

    with pytest.raises(StoreIncompatible, match=r"format 999, .*set model.name to a new name"):
        await model.open()


async def test_all_keys_of_a_model_share_one_hash_tag(model: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS))

    keys: Any = await model.client.keys("*")
    assert keys
    assert all(key.startswith(b"nbstream:{test}:") for key in keys)


async def test_a_server_that_is_away_is_store_unavailable(own_redis: RedisServer) -> None:
    own_redis.stop()
    model = Model(open_client(ConnectionOptions(own_redis.url, timeout_seconds=1)), "test", 60)

    with pytest.raises(StoreUnavailable):
        await model.entry("m1")
    with pytest.raises(StoreUnavailable):
        await model.commit_lesson("m1", None, entry("spam", TOKENS), NOTE)


async def test_a_server_out_of_memory_refuses_and_changes_nothing(own_redis: RedisServer) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    model = Model(client, "test", 3600)
    await change(model, "m1", entry("spam", TOKENS))
    before = await stored(model)
    await client.config_set("maxmemory", "1")

    with pytest.raises(StoreRefuses, match=r"OutOfMemory|OOM"):  # as Redis 7 and 6.2 say it
        await change(model, "m2", entry("spam", TOKENS))

    assert await stored(model) == before
    await client.aclose()


async def test_a_server_that_cannot_write_to_its_disk_refuses_and_can_be_read(
    own_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nbstream")
    own_redis.stop()
    (tmp_path / "removed").mkdir()
    own_redis.start("--dir", str(tmp_path / "removed"))
    client = open_client(ConnectionOptions(own_redis.url))
    await client.config_set("save", "3600 1")
    model = Model(client, "test", 3600)
    await model.open()
    await change(model, "m1", entry("spam", TOKENS))
    before = await stored(model)
    (tmp_path / "removed").rmdir()
    await client.bgsave()
    await until(lambda: _saving_failed(client))

    for _ in range(3):
        with pytest.raises(StoreRefuses, match="MISCONF"):
            await change(model, "m2", entry("spam", TOKENS))
    assert await stored(model) == before
    await model.open()
    assert (await model.position()).people == await model.totals()
    assert (await model.look_up(TOKENS))[0].tolist() == [[0, 1000]] * len(TOKENS)

    await client.config_set("stop-writes-on-bgsave-error", "no")
    await change(model, "m2", entry("spam", TOKENS))
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    await client.aclose()


async def _saving_failed(client: Redis) -> bool:
    info: Any = await client.info("persistence")
    return bool(info["rdb_last_bgsave_status"] == "err")
