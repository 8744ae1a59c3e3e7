"""``nbstream.server.http.access``: how many wrong passwords are compared, and whom that concerns."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from redis.asyncio import Redis

from nbstream.server.connections import Peer
from nbstream.server.http import access as password_check
from nbstream.server.http.access import PasswordCheck, Passwords, Role, TooManyFailures, failure_sources
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.logins import AttemptCounts
from nbstream.store.model.keys import ModelKeys
from tests.harness.redis.redis_server import RedisServer

PASSWORDS = Passwords("for reading", "for teaching")
RIGHT, WRONG = ["for teaching"], ["a guess"]
STRANGER = {"198.51.100.1": 10}


def behind_proxy(number: int) -> dict[str, int]:
    """The sources of a request that a local process sends in the name of somebody."""
    named = ("X-Forwarded-For", f"203.0.{number // 256}.{number % 256}")
    return dict(failure_sources(Peer("127.0.0.1"), [named], ()))


async def outcome(check: PasswordCheck, offered: list[str], sources: dict[str, int] = STRANGER) -> Role | str:
    try:
        return await check.role_of(offered, sources) or "wrong"
    except TooManyFailures:
        return "too many"


@dataclass
class Clock:
    now: float = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(password_check, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


async def test_after_ten_wrong_ones_in_a_minute_a_right_one_is_refused_as_well(clock: Clock) -> None:
    check = PasswordCheck(PASSWORDS)
    assert [await outcome(check, WRONG) for _ in range(12)] == ["wrong"] * 10 + ["too many"] * 2
    assert await outcome(check, RIGHT) == "too many"
    assert await outcome(check, RIGHT, {"198.51.100.2": 10}) is Role.TEACH

    clock.now += 59
    assert await outcome(check, RIGHT) == "too many"
    clock.now += 1
    assert await outcome(check, RIGHT) is Role.TEACH


@pytest.mark.parametrize("offered", [["for teaching", "a guess"], ["for reading", "for teaching"], []])
async def test_a_request_has_one_guess(offered: list[str]) -> None:
    check = PasswordCheck(PASSWORDS)
    assert [await outcome(check, offered) for _ in range(11)] == ["wrong"] * 10 + ["too many"]


async def test_attempts_at_the_same_time_are_not_all_compared(client: Redis) -> None:
    check = PasswordCheck(PASSWORDS, AttemptCounts(client, ModelKeys("m")))
    found = await asyncio.gather(*(outcome(check, WRONG) for _ in range(20)), outcome(check, RIGHT))
    assert found == ["wrong"] * 10 + ["too many"] * 11


async def test_the_processes_count_together(client: Redis) -> None:
    one, other = (PasswordCheck(PASSWORDS, AttemptCounts(client, ModelKeys("m"))) for _ in range(2))
    assert [await outcome(one, WRONG) for _ in range(6)] == ["wrong"] * 6
    assert [await outcome(other, WRONG) for _ in range(5)] == ["wrong"] * 4 + ["too many"]
    assert await outcome(other, RIGHT) == "too many"
    # One process learns of the failures at the other by the next one of its own.
    assert [await outcome(one, offered) for offered in (WRONG, RIGHT)] == ["too many"] * 2


async def test_without_redis_each_process_counts_for_itself(own_redis: RedisServer) -> None:
    async with open_client(ConnectionOptions(own_redis.url, timeout_seconds=1)) as client:
        own_redis.stop()
        check = PasswordCheck(PASSWORDS, AttemptCounts(client, ModelKeys("m")))
        assert await outcome(check, RIGHT) is Role.TEACH
        assert [await outcome(check, WRONG) for _ in range(11)] == ["wrong"] * 10 + ["too many"]
        assert await outcome(check, RIGHT) == "too many"


async def test_a_hanging_redis_is_not_waited_for_long(
    own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_check, "_SHARE_SECONDS", 0.01)
    async with open_client(ConnectionOptions(own_redis.url, timeout_seconds=1)) as client:
        await client.ping()
        own_redis.hang()
        try:
            check = PasswordCheck(PASSWORDS, AttemptCounts(client, ModelKeys("m")))
            assert await outcome(check, RIGHT) is Role.TEACH
            assert [await outcome(check, WRONG) for _ in range(11)] == ["wrong"] * 10 + ["too many"]
        finally:
            own_redis.go_on()


async def test_who_names_many_clients_has_a_hundred_guesses_and_locks_out_no_program_of_this_machine() -> None:
    check = PasswordCheck(PASSWORDS)
    found = [await outcome(check, WRONG, behind_proxy(number)) for number in range(200)]
    assert found == ["wrong"] * 100 + ["too many"] * 100
    assert await outcome(check, RIGHT, behind_proxy(0)) == "too many"
    for address in ("127.0.0.1", None):
        assert await outcome(check, RIGHT, dict(failure_sources(Peer(address), [], ()))) is Role.TEACH


async def test_who_has_given_the_password_is_not_kept_waiting_by_the_other_clients_of_its_proxy(
    clock: Clock,
) -> None:
    check, client = PasswordCheck(PASSWORDS), behind_proxy(999)
    assert await outcome(check, RIGHT, client) is Role.TEACH
    for number in range(100):
        await outcome(check, WRONG, behind_proxy(number))
    assert await outcome(check, RIGHT, client) is Role.TEACH
    assert await outcome(check, RIGHT, behind_proxy(1000)) == "too many"
    assert [await outcome(check, WRONG, client) for _ in range(11)] == ["wrong"] * 10 + ["too many"]
    assert await outcome(check, RIGHT, client) == "too many"

    clock.now += 3600
    for number in range(100):
        await outcome(check, WRONG, behind_proxy(number))
    assert await outcome(check, RIGHT, client) == "too many"
