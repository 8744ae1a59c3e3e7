"""A failover behind an address that moves: the daemon leaves the old server although its connections stay open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.harness.daemon import DaemonProcess
from tests.harness.redis.moving_address import moving_address
from tests.harness.redis.redis_server import RedisServer
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


async def lost(daemon: DaemonProcess, reason: str) -> float:
    return await asyncio.to_thread(daemon.metric, f'nbstream_redis_failovers_total{{reason="{reason}"}}')
