"""``nbstream.listeners.http.page.login``: what a process knows of sessions, and what proves one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.listeners.http.access import Passwords
from nbstream.listeners.http.page import login
from nbstream.listeners.http.page.login import PageSessions, csrf_token, seal, unseal
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.logins import PageSessionStore, StoredLogin
from nbstream.store.model.keys import ModelKeys
from tests.conftest import RedisServer

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=100)


@dataclass
class Known:
    """The sessions of a process that has seen some tokens before Redis went away."""

    sessions: PageSessions
    tokens: list[str] = field(default_factory=list)


async def known_sessions(own_redis: RedisServer, count: int) -> Known:
    client = open_client(ConnectionOptions(own_redis.url))
    store = PageSessionStore(client, ModelKeys("m"))
    known = Known(PageSessions(store, Passwords()))
    for _ in range(count):
        known.tokens.append(await store.create_session("teach", "ann"))
        session = await known.sessions.find(known.tokens[-1])
        assert session is not None
        assert session.is_verified
    await client.aclose()  # it connects again
    own_redis.stop()
    return known


async def test_a_session_is_trusted_for_some_minutes_only(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await known_sessions(own_redis, 1)
    session = await known.sessions.find(known.tokens[0])
    assert session is not None
    assert not session.is_verified
    monkeypatch.setattr(login, "_TRUSTED_SECONDS", 0.0)
    with pytest.raises(StoreUnavailable):
        await known.sessions.find(known.tokens[0])


async def test_a_session_that_has_ended_is_not_trusted(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await known_sessions(own_redis, 1)
    later = time.time() + 12 * 3600
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(StoreUnavailable):
        await known.sessions.find(known.tokens[0])


async def test_a_process_remembers_the_last_hundred_sessions(own_redis: RedisServer) -> None:
    known = await known_sessions(own_redis, 101)
    with pytest.raises(StoreUnavailable):
        await known.sessions.find(known.tokens[0])
    assert await known.sessions.find(known.tokens[1]) is not None


async def test_a_session_that_another_process_ended_is_forgotten(client: Redis) -> None:
    class Away(PageSessionStore):
        is_away = False

        async def find_session(self, token: str) -> StoredLogin | None:
            if self.is_away:
                raise StoreUnavailable("away")
            return await super().find_session(token)

    store = Away(client, ModelKeys("m"))
    known, token = PageSessions(store, Passwords()), await store.create_session("read", "ann")
    assert await known.find(token) is not None
    await store.end_session(token)
    assert await known.find(token) is None
    store.is_away = True
    with pytest.raises(StoreUnavailable):
        await known.find(token)


@given(TEXT, TEXT)
def test_only_a_session_can_seal_for_itself(text: str, forged: str) -> None:
    sealed = seal("a token", text)
    assert unseal("a token", sealed) == text
    assert unseal("another token", sealed) == ""
    assert unseal("a token", forged) == ""
    assert unseal("a token", f"{sealed}0") == ""


def test_what_is_sealed_may_have_a_reply_of_another_server() -> None:
    assert unseal("a token", seal("a token", "550 nicht m\udcf6glich \ud800")) == "550 nicht m?glich ?"


def test_the_token_of_forms_is_not_that_of_the_session() -> None:
    assert csrf_token("a") != csrf_token("b")
    assert "a token" not in csrf_token("a token")
