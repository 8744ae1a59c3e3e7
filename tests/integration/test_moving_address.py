"""A failover behind an address that moves: the daemon leaves the old server although its connections stay open."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.harness.daemon import DaemonProcess
from tests.harness.redis.moving_address import MovingAddress, moving_address
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until
from tests.integration.test_life import send

SPAM = "spam@nbstream.invalid"
LESSONS = 20


def letter(number: int) -> bytes:
    words = " ".join(f"word{number}x{n}" for n in range(50))
    return f"Subject: letter {number}\r\n\r\n{words}\r\n".encode()


def configure(folder: Path, url: str, workers: int) -> Path:
    path = folder / "nb.yaml"
    path.write_text(
        f"state_dir: {folder / 'state'}\nworkers: {workers}\nredis: {{url: '{url}'}}\n"
        f"relay: {{next_hop: 'maildir:{folder / 'mail'}'}}\nlog: {{format: json}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}, metrics: {listen: 127.0.0.1:0}}\n"
    )
    return path


async def teach(daemon: DaemonProcess, number: int) -> str:
    return await asyncio.to_thread(send, daemon, letter(number), SPAM)


async def readiness(daemon: DaemonProcess) -> dict[str, object]:
    answer: dict[str, object] = json.loads((await asyncio.to_thread(daemon.get, "/readyz"))[1])
    return answer


@pytest.mark.parametrize("workers", [1, 2])
async def test_lessons_go_to_the_promoted_server_although_the_old_connections_stay_open(
    own_redis: RedisServer, tmp_path: Path, workers: int
) -> None:
    async with moving_address(own_redis, tmp_path) as address:
        daemon = DaemonProcess(configure(tmp_path, address.url, workers))
        try:
            await asyncio.to_thread(daemon.ready)
            for number in range(2 * workers):
                assert (await teach(daemon, number)).startswith("250 ")

            await address.fail_over()
            replies = [await teach(daemon, 100 + number) for number in range(LESSONS)]

            refused = [reply for reply in replies if not reply.startswith("250 ")]
            assert {reply[:4] for reply in refused} <= {"451 "}
            assert len(refused) <= workers, "each process learns of it by one refusal at most"
            assert replies[-1].startswith("250 ")
            messages = await address.pair.at_replica.hget("nbstream:{default}:totals", "messages:spam")
            assert int(messages or 0) == 2 * workers + LESSONS - len(refused)
        finally:
            await asyncio.to_thread(daemon.kill)


async def test_the_move_is_counted_and_readiness_tells_while_writes_fail(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    async with moving_address(own_redis, tmp_path) as address:
        daemon = DaemonProcess(configure(tmp_path, address.url, 1))
        try:
            await asyncio.to_thread(daemon.ready)
            assert await readiness(daemon) == {"ready": True, "degraded": {}}

            # Demoted, but the address does not move yet. Nobody teaches: the daemon sees it all the same.
            await address.pair.promote()
            await address.pair.demote()
            await until(lambda: has_problem(daemon, "only a replica is reachable; feedback is deferred"))
            assert await asyncio.to_thread(daemon.metric, "nbstream_redis_up") == 0
            assert (await teach(daemon, 1)).startswith("451 4.3.0 ")
            assert await asyncio.to_thread(daemon.metric, "nbstream_redis_refused_total") == 1
            assert await lost(daemon, "readonly") >= 1  # who connects meanwhile meets the replica as well

            address.proxy.target = address.pair.replica.socket
            await until(lambda: has_problem(daemon, None))
            assert await lost(daemon, "other_server") == 1
            assert (await teach(daemon, 1)).startswith("250 ")
            assert await asyncio.to_thread(daemon.metric, "nbstream_redis_up") == 1
        finally:
            await asyncio.to_thread(daemon.kill)


async def has_problem(daemon: DaemonProcess, problem: str | None) -> bool:
    return await readiness(daemon) == {"ready": True, "degraded": {"redis": problem} if problem else {}}


async def lost(daemon: DaemonProcess, reason: str) -> float:
    return await asyncio.to_thread(daemon.metric, f'nbstream_redis_failovers_total{{reason="{reason}"}}')


@pytest.mark.soak
async def test_an_address_that_leaves_a_server_which_still_takes_writes_is_followed_without_traffic(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    async with moving_address(own_redis, tmp_path) as address:
        daemon = DaemonProcess(configure(tmp_path, address.url, 1))
        try:
            await asyncio.to_thread(daemon.ready)
            assert (await teach(daemon, 1)).startswith("250 ")
            await replica_has(address, 1)

            await address.pair.promote()
            address.proxy.target = address.pair.replica.socket  # the old primary runs on, and would take lessons
            await until(lambda: was_lost(daemon, "other_server"))
            assert (await teach(daemon, 2)).startswith("250 ")

            await replica_has(address, 2)
        finally:
            await asyncio.to_thread(daemon.kill)


async def replica_has(address: MovingAddress, messages: int) -> None:
    async def has() -> bool:
        known = await address.pair.at_replica.hget("nbstream:{default}:totals", "messages:spam")
        return int(known or 0) == messages

    await until(has)


async def was_lost(daemon: DaemonProcess, reason: str) -> bool:
    return await lost(daemon, reason) == 1
