"""A failover behind an address that moves: the daemon leaves the old server although its connections stay open."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.harness.daemon import DaemonProcess
from tests.harness.redis.moving_address import moving_address
from tests.harness.redis.redis_server import RedisServer
from tests.integration.test_life import send

SPAM = "spam@nbstream.invalid"
LESSONS = 20
WORKERS = 2


def letter(number: int) -> bytes:
    words = " ".join(f"word{number}x{n}" for n in range(50))
    return f"Subject: letter {number}\r\n\r\n{words}\r\n".encode()


def configure(folder: Path, url: str) -> Path:
    path = folder / "nb.yaml"
    path.write_text(
        f"state_dir: {folder / 'state'}\nworkers: {WORKERS}\nredis: {{url: '{url}'}}\n"
        f"relay: {{next_hop: 'maildir:{folder / 'mail'}'}}\nlog: {{format: json}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}, metrics: {listen: 127.0.0.1:0}}\n"
    )
    return path


async def teach(daemon: DaemonProcess, number: int) -> str:
    return await asyncio.to_thread(send, daemon, letter(number), SPAM)


async def test_lessons_go_to_the_promoted_server_although_the_old_connections_stay_open(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    async with moving_address(own_redis, tmp_path) as address:
        daemon = DaemonProcess(configure(tmp_path, address.url))
        try:
            await asyncio.to_thread(daemon.ready)
            for number in range(2 * WORKERS):
                assert (await teach(daemon, number)).startswith("250 ")

            await address.fail_over()
            replies = [await teach(daemon, 100 + number) for number in range(LESSONS)]

            refused = [reply for reply in replies if not reply.startswith("250 ")]
            assert {reply[:4] for reply in refused} <= {"451 "}
            assert len(refused) <= WORKERS, "each process learns of it by one refusal at most"
            assert replies[-1].startswith("250 ")
            messages = await address.pair.at_replica.hget("nbstream:{default}:totals", "messages:spam")
            assert int(messages or 0) == 2 * WORKERS + LESSONS - len(refused)
        finally:
            await asyncio.to_thread(daemon.kill)
