"""Sender lists in Redis: what is changed there is followed in memory, and stays while Redis is away."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.sender_lists import SITE, ListKind
from nbstream.store import sender_lists
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.keys import ModelKeys
from nbstream.store.sender_lists import FollowedSenderLists, ListChange, StoredSenderLists
from tests.harness.followers import following
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until

KEYS = ModelKeys("m")
ANN, BOB = "ann@example.org", "bob@example.org"
ALLOW, BLOCK = ListKind


def sender(text: str) -> SenderPattern:
    return SenderPattern.parse(text)


@pytest.fixture
def stored(client: Redis) -> StoredSenderLists:
    return StoredSenderLists(client, KEYS)


@pytest.fixture
async def followed(client: Redis) -> AsyncIterator[FollowedSenderLists]:
    followed = FollowedSenderLists(client, KEYS)
    async with following(client, followed):
        yield followed


def sizes(followed: FollowedSenderLists) -> dict[str, int]:
    return {owner: len(owner_list) for owner, owner_list in followed.by_owner.items()}


async def test_an_entry_says_who_wrote_it(stored: StoredSenderLists) -> None:
    assert await stored.add(SITE, BLOCK, sender("b.example"), "root\nX") is ListChange.ADDED
    assert await stored.add(SITE, ALLOW, sender("a.example"), "bob") is ListChange.ADDED
    assert await stored.add(SITE, ALLOW, sender("a.example"), "eve") is ListChange.ALREADY
    assert await stored.add(SITE, BLOCK, sender("a.example"), "eve") is ListChange.CHANGED

    entries = await stored.entries(SITE)
    assert [(entry.kind, entry.pattern.text, entry.actor) for entry in entries] == [
        (BLOCK, "a.example", "eve"),
        (BLOCK, "b.example", "root?X"),
    ]
    assert await stored.remove(SITE, sender("*@a.example")) is ListChange.REMOVED
    assert await stored.remove(SITE, sender("a.example")) is ListChange.UNKNOWN
    assert await stored.entries(ANN) == []


async def test_a_process_follows_what_is_changed(stored: StoredSenderLists, followed: FollowedSenderLists) -> None:
    await stored.add(ANN, ALLOW, sender("a.example"), "ann")
    await until(lambda: sizes(followed) == {ANN: 1})
    by_owner = followed.by_owner

    await stored.add(BOB, BLOCK, sender("b.example"), "bob")
    await stored.add(ANN, BLOCK, sender("c.example"), "ann")
    await until(lambda: sizes(followed) == {ANN: 2, BOB: 1})

    await stored.remove(BOB, sender("b.example"))
    await until(lambda: sizes(followed) == {ANN: 2})

    assert await stored.forget(ANN) == 2
    await until(lambda: sizes(followed) == {})
    assert by_owner is followed.by_owner


async def test_of_a_forgotten_owner_nothing_is_left(client: Redis, stored: StoredSenderLists) -> None:
    await stored.add(ANN, ALLOW, sender("a.example"), "ann")
    await stored.forget(ANN)
    assert await stored.forget(ANN) == 0

    assert await client.keys("*ann*") == []
    assert await client.zrange(KEYS.sender_list_owners, 0, -1) == []
    assert await client.hget(KEYS.sender_lists, "entries") == b"0"


async def test_the_number_of_entries_is_bounded(
    stored: StoredSenderLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_lists, "MAX_ENTRIES", 2)
    monkeypatch.setattr(sender_lists, "MAX_ALL_ENTRIES", 3)
    for owner, name in ((ANN, "a"), (ANN, "b"), (BOB, "a")):
        assert await stored.add(owner, ALLOW, sender(f"{name}.example"), "") is ListChange.ADDED

    assert await stored.add(ANN, ALLOW, sender("c.example"), "") is ListChange.FULL
    assert await stored.add(ANN, BLOCK, sender("a.example"), "") is ListChange.CHANGED
    assert await stored.add(BOB, ALLOW, sender("b.example"), "") is ListChange.FULL
    await stored.remove(ANN, sender("a.example"))
    assert await stored.add(BOB, ALLOW, sender("b.example"), "") is ListChange.ADDED


async def test_what_another_program_wrote_is_left_out(
    client: Redis, stored: StoredSenderLists, followed: FollowedSenderLists
) -> None:
    for pattern, value in (("no sender", "allow 1 x"), ("b.example", "perhaps 1 x"), ("c.example", b"\xff")):
        await client.hset(KEYS.sender_list(SITE), pattern, value)
    await stored.add(SITE, ALLOW, sender("a.example"), "")

    await until(lambda: sizes(followed) == {SITE: 1})
    assert len(await stored.entries(SITE)) == 1


async def test_while_redis_is_away_the_last_copy_holds_and_afterwards_what_is_there(
    own_redis: RedisServer,
) -> None:
    async with open_client(ConnectionOptions(own_redis.url), retries=0) as client:
        followed = FollowedSenderLists(client, KEYS)
        async with following(client, followed):
            await StoredSenderLists(client, KEYS).add(ANN, ALLOW, sender("a.example"), "ann")
            await until(lambda: sizes(followed) == {ANN: 1})

            own_redis.stop()
            await until(lambda: not followed.is_current)
            with pytest.raises(StoreUnavailable):
                await StoredSenderLists(client, KEYS).add(ANN, ALLOW, sender("b.example"), "ann")
            assert sizes(followed) == {ANN: 1}

            own_redis.start()  # it has kept nothing
            await until(lambda: sizes(followed) == {})
