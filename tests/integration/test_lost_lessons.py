"""A daemon over a primary and its replica: what a failover loses of what people taught is taught again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from nbstream.store.model.model import Model
from tests.conftest import RedisServer
from tests.integration.daemon import DaemonProcess, command, wait_until
from tests.integration.workers import Site, send
from tests.store.algebra import live_entries, stored, summed
from tests.store.proxy import Proxy
from tests.store.replicas import Pair, replicated
from tests.store.writers import LETTERS

SPAM = "spam@nbstream.invalid"


@dataclass(frozen=True)
class FailingOver:
    """The configuration of a daemon that reaches the primary through a proxy, and the pair of servers."""

    site: Site
    pair: Pair
    proxy: Proxy

    @property
    def promoted(self) -> Model:
        return Model(self.pair.at_replica, "default", 3600)

    def switch(self) -> None:
        """Lead everybody to the promoted replica."""
        self.proxy.target = self.pair.replica.socket
        self.proxy.cut()

    async def teach_promoted(self, letters: int) -> None:
        """Teach the promoted replica other messages, as the hosts that have noticed the failover do."""
        donor = (await live_entries(self.promoted)).values()
        note = (await anext(self.promoted.history.records())).note
        for number, entry in zip(range(letters), [*donor] * letters, strict=False):
            assert await self.promoted.commit_lesson(LETTERS[number].key, None, entry, note)


@pytest.fixture
async def failing_over(own_redis: RedisServer, tmp_path: Path) -> AsyncIterator[FailingOver]:
    async with over(own_redis, tmp_path) as failing_over:
        yield failing_over


@asynccontextmanager
async def over(primary: RedisServer, folder: Path) -> AsyncIterator[FailingOver]:
    async with (
        replicated(primary, folder / "replica") as pair,
        Proxy(primary.socket, folder / "proxy") as proxy,
    ):
        site = Site(folder)
        site.write(f"redis: {{url: '{proxy.url}', timeout_seconds: 2}}")
        yield FailingOver(site, pair, proxy)


def teach(daemon: DaemonProcess, first: int, number: int) -> None:
    for letter in range(first, first + number):
        assert send(daemon, f"prize {letter}", SPAM).startswith("250 2.0.0 learned as spam")


def learn_by_command(site: Site, folder: Path) -> None:
    letter = folder / "lunch.eml"
    letter.write_bytes(b"Message-ID: <lunch@x>\r\nSubject: lunch\r\n\r\nShall we have lunch?\r\n")
    done = command("learn", "ham", letter, "-c", site.file)
    assert done.returncode == 0, done.stderr


async def assert_restored(failing_over: FailingOver, lessons: int) -> None:
    assert sum((await failing_over.promoted.totals()).messages) == lessons
    assert await stored(failing_over.promoted) == await summed(failing_over.promoted)


@pytest.mark.soak
async def test_what_workers_and_commands_taught_the_old_primary_is_taught_again(
    failing_over: FailingOver, tmp_path: Path
) -> None:
    site = failing_over.site

    def run() -> None:
        with site.running() as daemon:
            teach(daemon, 0, 1)
            in_loop(failing_over.pair.promote())
            teach(daemon, 1, 7)
            learn_by_command(site, tmp_path)
            in_loop(failing_over.teach_promoted(12))
            loop.call_soon_threadsafe(failing_over.switch)

            wait_until(lambda: daemon.metric("nbstream_lessons_restored_total") == 8)
            assert daemon.metric("nbstream_lessons_missing_total") == 8
            assert daemon.metric("nbstream_changes_missing_total") == 8
            wait_until(lambda: daemon.metric('nbstream_model_messages{class="spam"}') == 20)
            (said,) = [e for e in daemon.events if "8 lessons that it had acknowledged" in e["event"]]
            assert said["level"] == "error"
        history = command("history", "-c", site.file).stdout
        assert history.count("taught again, as Redis had lost it") == 8

    loop = asyncio.get_running_loop()

    def in_loop(coroutine: object) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)  # type: ignore[arg-type]  # any coroutine

    await asyncio.to_thread(run)
    await assert_restored(failing_over, 1 + 8 + 12)


async def test_what_a_killed_daemon_had_acknowledged_is_taught_again_by_the_next_one(
    failing_over: FailingOver,
) -> None:
    site = failing_over.site
    site.write(f"redis: {{url: '{failing_over.proxy.url}', timeout_seconds: 2}}", workers=1)

    def teach_and_die() -> None:
        with DaemonProcess(site.file) as daemon:
            teach(daemon, 1, 7)
            daemon.kill()

    def restart() -> None:
        with DaemonProcess(site.file) as daemon:
            wait_until(lambda: daemon.metric("nbstream_lessons_restored_total") == 7)

    def teach_one() -> None:
        with DaemonProcess(site.file) as daemon:
            teach(daemon, 0, 1)

    await asyncio.to_thread(teach_one)
    await failing_over.pair.at_primary.wait(1, 5000)
    await failing_over.pair.promote()
    await asyncio.to_thread(teach_and_die)
    await failing_over.teach_promoted(12)
    failing_over.switch()
    await asyncio.to_thread(restart)
    await assert_restored(failing_over, 1 + 7 + 12)
