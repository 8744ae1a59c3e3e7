"""``nbstream.store.logins``: links and sessions in a real Redis."""

from __future__ import annotations

import asyncio
import time

import pytest
from redis.asyncio import Redis

from nbstream.store.logins import (
    LINK_SECONDS,
    SESSION_SECONDS,
    PageSessionStore,
    token_hash,
)
from nbstream.store.model.keys import ModelKeys

KEYS = ModelKeys("m")


@pytest.fixture
def store(client: Redis) -> PageSessionStore:
    return PageSessionStore(client, KEYS)


async def test_a_link_is_used_once_by_one_of_many(store: PageSessionStore) -> None:
    token = await store.create_link("teach", "ann")
    used = await asyncio.gather(*(store.use_link(token) for _ in range(10)))
    (login,) = [login for login in used if login]
    assert (login.role, login.name) == ("teach", "ann")


async def test_a_session_is_found_until_it_is_ended(store: PageSessionStore) -> None:
    token, other = await store.create_session("read", "ann"), await store.create_session("teach", "bob")
    login = await store.find_session(token)
    assert login is not None
    assert (login.role, login.name) == ("read", "ann")
    assert time.time() < login.ends_at <= time.time() + SESSION_SECONDS
    await store.end_session(token)
    assert await store.find_session(token) is None
    assert await store.find_session(other) is not None


async def test_everything_expires_and_nothing_is_prolonged(store: PageSessionStore, client: Redis) -> None:
    link, session = await store.create_link("teach", "ann"), await store.create_session("teach", "ann")
    lifetimes = {
        KEYS.login_link(token_hash(link)): LINK_SECONDS,
        KEYS.login_session(token_hash(session)): SESSION_SECONDS,
    }
    for key, seconds in lifetimes.items():
        assert 0 < await client.pttl(key) <= seconds * 1000
        await client.expire(key, 5)

    await store.find_session(session)

    assert [0 < await client.pttl(key) <= 5000 for key in lifetimes] == [True] * 2
    await client.pexpire(KEYS.login_session(token_hash(session)), 0)
    await client.pexpire(KEYS.login_link(token_hash(link)), 0)
    assert await store.find_session(session) is None
    assert await store.use_link(link) is None


async def test_redis_does_not_have_what_a_browser_proves_itself_with(
    store: PageSessionStore, client: Redis
) -> None:
    tokens = [await store.create_link("teach", "ann"), await store.create_session("teach", "ann")]
    stored = str([*await client.keys("*"), *[await client.get(key) for key in await client.keys("*")]])
    assert stored.count("teach") == 2
    assert not [token for token in tokens if token in stored]
    assert all(len(token) == 43 for token in tokens)


@pytest.mark.parametrize("token", ["", "x", "A" * 42, "A" * 44, "A" * 42 + "*", "A" * 42 + "\udc80", "A" * 43])
async def test_what_is_no_token_gives_nothing(store: PageSessionStore, token: str) -> None:
    assert await store.find_session(token) is None
    assert await store.use_link(token) is None


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"[]",
        b"{}",
        b'{"role":"read","name":"a","ends_at":"soon"}',
        b'{"role":"read","name":"a","ends_at":1' + b"0" * 400 + b"}",
        b"[" * 100_000,
        b"\xff",
    ],
)
async def test_what_another_program_wrote_is_no_session(
    store: PageSessionStore, client: Redis, stored: bytes
) -> None:
    token = await store.create_session("read", "ann")
    await client.set(KEYS.login_session(token_hash(token)), stored)
    assert await store.find_session(token) is None
