"""``page.now``: what the view now shows of real parts, and what it says is wrong."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.assembly.store import RedisClients
from nbstream.config import Settings
from nbstream.daemon import health
from nbstream.daemon.health import HealthCheck
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.model_lookups import ModelLookups
from nbstream.daemon.parts import ServerParts, make_parts
from nbstream.engine.choice import PYTHON
from nbstream.errors import StoreForbids, StoreRefuses
from nbstream.filter import FilterPolicy
from nbstream.findings import Finding, FindingKind
from nbstream.mail.message import Message
from nbstream.page.now import (
    CLOCK_AHEAD,
    NO_NEWS,
    NOT_COUNTED,
    PROCESS_SILENT,
    VERSIONS_DIFFER,
    DaemonFindings,
    Now,
    NowReader,
)
from nbstream.policy.thresholds import FalsePositiveBudget, ThresholdPolicy
from nbstream.policy.verdict import Verdict
from nbstream.store.activity import ActivitySpan, ListenerConnections
from nbstream.store.connection import ConnectionOptions, open_client
from tests.conftest import RedisServer
from tests.doctor.sites import is_of
from tests.waiting import ended, until


@dataclass
class Process:
    """A process with all its parts, which checks messages and writes what it counts when it is told to."""

    settings: Settings
    parts: ServerParts
    reader: NowReader
    is_draining: list[bool]

    async def check(self, count: int = 1) -> None:
        for _ in range(count):
            await self.parts.spam_filter.check(Message(b"Subject: lunch\r\n\r\nhello\r\n"))
        await self.write()

    async def write(self) -> None:
        assert self.parts.activity
        await self.parts.activity.writer.write()

    async def now(self) -> Now:
        return await self.reader.now(ActivitySpan.HOUR)


@asynccontextmanager
async def run_process(
    client: Redis, folder: Path, worker: int | None = None, *, http: bool = True, envelope: bool | None = None
) -> AsyncIterator[Process]:
    listeners = {"smtp": {"listen": "127.0.0.1:0"}, "http": {"listen": "127.0.0.1:8025"} if http else None}
    settings = Settings.model_validate(
        {
            "state_dir": str(folder),
            "listeners": listeners,
            "memory": {"envelope": envelope},
            "relay": {"next_hop": f"maildir:{folder / 'Maildir'}"},
        }
    )
    parts = make_parts(settings, PYTHON, RedisClients(client, client), DaemonMetrics.create(PYTHON), worker=worker)
    is_draining = [False]
    async with AsyncExitStack() as stack:
        mirror = asyncio.create_task(parts.mirror.run())
        stack.push_async_callback(ended, mirror)
        await parts.mirror.loaded.wait()
        check = HealthCheck(parts, lambda: is_draining[0])
        yield Process(settings, parts, make_reader(settings, parts, check), is_draining)


def make_reader(
    settings: Settings,
    parts: ServerParts,
    check: HealthCheck,
    model_findings: Callable[[], Sequence[Finding]] = lambda: [],
) -> NowReader:
    def may_publish() -> bool:
        return parts.activity is None or parts.activity.writer.may_publish

    findings = DaemonFindings(check.redis_findings, check.other_findings, model_findings, may_publish)
    return NowReader(settings, parts.clients, parts.model.keys, parts.mirror, findings)


def of_kind(now: Now, kind: FindingKind) -> list[Finding]:
    return [finding for finding in now.findings if is_of(finding, kind)]


async def test_two_processes_are_summed(client: Redis, tmp_path: Path) -> None:
    async with run_process(client, tmp_path, 1) as first, run_process(client, tmp_path, 2) as second:
        first.parts.metrics.delivery.connected("smtp", accepted=True)
        first.parts.metrics.delivery.connected("smtp", accepted=True)
        first.parts.metrics.delivery.disconnected("smtp")
        second.parts.metrics.delivery.connected("smtp", accepted=True)
        second.parts.metrics.delivery.connected("smtp", accepted=False)
        assert first.parts.activity
        first.parts.activity.report.quarantine_swept(3)
        await first.check(2)
        await second.check(1)

        now = await first.now()

    assert now.activity
    assert now.activity.totals[Verdict.UNSURE] == 3  # the model has learned nothing
    assert [process.status.worker for process in now.processes] == [1, 2]
    assert now.listeners == [
        ("smtp", "127.0.0.1:0", ListenerConnections(open=2, accepted=3, refused=1)),
        ("http", "127.0.0.1:8025", None),
    ]
    assert now.quarantined == 3
    assert now.answer_seconds
    assert (now.is_old, list(now.findings)) == (False, [])


async def test_several_who_look_at_once_all_see_what_is_the_case(client: Redis, tmp_path: Path) -> None:
    async with run_process(client, tmp_path) as process:
        remove_next_hop(process)

        async def look() -> bool:
            seen = await asyncio.gather(*(process.now() for _ in range(3)))
            return all(of_kind(now, health.NEXT_HOP_AWAY) for now in seen)

        await until(look)


async def test_without_the_http_listener_nothing_is_counted(client: Redis, tmp_path: Path) -> None:
    async with run_process(client, tmp_path, http=False) as process:
        await process.parts.spam_filter.check(Message(b"Subject: lunch\r\n\r\nhello\r\n"))
        assert process.parts.activity is None
    assert await client.keys("nbstream:*activity*") == []


async def test_a_host_whose_mail_is_listed_by_the_page_of_another_one_is_counted_there(
    client: Redis, tmp_path: Path
) -> None:
    async with (
        run_process(client, tmp_path, 1) as first,
        run_process(client, tmp_path, 2, http=False, envelope=True) as second,
    ):
        await second.check(2)
        now = await first.now()

    assert now.activity
    assert now.activity.totals[Verdict.UNSURE] == 2


async def test_redis_away_is_said_with_the_numbers_that_were_known(own_redis: RedisServer, tmp_path: Path) -> None:
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1.0), retries=0)
    async with run_process(client, tmp_path) as process:
        await process.check()
        before = await process.now()
        own_redis.stop()
        await until(lambda: not process.parts.mirror.following)
        await process.check()

        now = await process.now()

        assert now.is_old
        assert now.activity == before.activity
        assert now.answer_seconds is None
        assert of_kind(now, health.NOT_FOLLOWED)
        assert not of_kind(now, PROCESS_SILENT)
        own_redis.start()
        await until(lambda: process.parts.mirror.following)

        async def is_said() -> bool:
            await process.write()  # the first one may find that its connection is closed
            sentence = "The numbers of verdicts of the last hour lack up to 1 messages"
            return any(each.what.startswith(sentence) for each in of_kind(await process.now(), NOT_COUNTED))

        await until(is_said)
    await client.aclose()


async def test_a_process_that_is_silent_or_of_another_version_is_said(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_process(client, tmp_path, 1) as first, run_process(client, tmp_path, 2) as second:
        await first.write()
        monkeypatch.setattr("nbstream.daemon.parts.__version__", "9.9.9")
        assert second.parts.activity
        await second.parts.activity.writer.write((await first.now()).at - 60)

        now = await first.now()

    (silent,) = of_kind(now, PROCESS_SILENT)
    assert ", worker 2 has said nothing for " in silent.what
    assert of_kind(now, VERSIONS_DIFFER)


async def test_a_host_whose_clock_is_ahead_is_said_and_its_messages_show_in_their_time(
    client: Redis, tmp_path: Path
) -> None:
    async with run_process(client, tmp_path, 1) as first, run_process(client, tmp_path, 2) as second:
        await first.check()
        assert second.parts.activity
        second.parts.activity.counter.count(Verdict.SPAM, 0.001)
        await second.parts.activity.writer.write(time.time() + 400)

        now = await first.now()
        later, _ = await first.reader._reader.read(ActivitySpan.HOUR, time.time() + 400)

    (ahead,) = of_kind(now, CLOCK_AHEAD)
    (seconds,) = re.findall(r" is (\d+) s ahead ", ahead.what)
    assert 300 < int(seconds) <= 400
    assert not of_kind(now, PROCESS_SILENT)
    assert now.activity
    assert (now.activity.totals[Verdict.SPAM], later.totals[Verdict.SPAM]) == (0, 1)


async def test_a_message_whose_check_failed_is_shown(client: Redis, tmp_path: Path) -> None:
    async with run_process(client, tmp_path) as process:
        process.parts.metrics.delivery.delivered("smtp", "none")
        await process.check()

        now = await process.now()

    assert now.activity
    assert {name: number for name, number in now.activity.totals.items() if number} == {
        "unsure": 1,
        "unchecked": 1,
    }


async def test_a_user_of_redis_who_may_not_listen_is_said(own_redis: RedisServer, tmp_path: Path) -> None:
    admin = open_client(ConnectionOptions(own_redis.url))
    rights = "~nbstream:* resetchannels +@all -publish"
    await admin.execute_command("ACL", "SETUSER", "few", "on", "nopass", *rights.split())  # type: ignore[no-untyped-call]  # redis-py has no type here
    client = open_client(ConnectionOptions(own_redis.url, password="x", user="few"))
    async with run_process(client, tmp_path) as process:
        assert not of_kind(await process.now(), NO_NEWS)
        with pytest.raises(StoreForbids):
            async with process.reader.open_news():
                pass
        assert of_kind(await process.now(), NO_NEWS)
    await client.aclose()
    await admin.aclose()


def refuse_writes(process: Process) -> None:
    process.parts.model.last_refusal = StoreRefuses("full")


def become_replica(process: Process) -> None:
    process.parts.clients.primary.is_replica = True


def drain(process: Process) -> None:
    process.is_draining[0] = True


def remove_next_hop(process: Process) -> None:
    folder = process.settings.state_dir / "Maildir"
    folder.write_text("a file where a folder should be")


def fill_quarantine(process: Process) -> None:
    # The room is tried with as many bytes as the last message that found none.
    process.parts.quarantine._room._refused_bytes = 1
    process.settings.quarantine_folder.write_text("a file where a folder should be")


@pytest.mark.parametrize(
    ("change", "kind", "sentence", "is_ready"),
    [
        (refuse_writes, health.WRITES_REFUSED, {"redis": "writes are refused; feedback is deferred"}, True),
        (
            become_replica,
            health.ONLY_REPLICA,
            {"redis": "only a replica is reached; feedback is deferred"},
            True,
        ),
        (drain, health.DRAINING, {"smtp": "draining"}, False),
        (remove_next_hop, health.NEXT_HOP_AWAY, {"next_hop": "cannot be written"}, False),
        (fill_quarantine, health.QUARANTINE_AWAY, {"quarantine": "the file system fails"}, True),
    ],
)
async def test_what_is_degraded_is_said_by_readyz_and_the_page_alike(
    client: Redis,
    tmp_path: Path,
    change: Callable[[Process], object],
    kind: FindingKind,
    sentence: dict[str, str],
    is_ready: bool,
) -> None:
    async with run_process(client, tmp_path) as process:
        change(process)

        status = await HealthCheck(process.parts, lambda: process.is_draining[0]).status()

        async def shows() -> bool:
            return bool(of_kind(await process.now(), kind))

        await until(shows)
    assert (status.ready, dict(status.degraded)) == (is_ready, sentence)


async def test_background_work_that_fails_is_said_while_mail_goes_on(client: Redis, tmp_path: Path) -> None:
    async def fail() -> None:
        raise RuntimeError("a fault")

    async with run_process(client, tmp_path) as process:
        process.parts.background.start("restorer", fail)
        check = HealthCheck(process.parts, lambda: False)

        async def is_failing() -> bool:
            return bool(process.parts.background.failing)

        await until(is_failing)
        found = await check.health()
        await process.parts.background.stop()

    assert found.is_ready
    assert [finding.what for finding in found.findings if is_of(finding, health.BACKGROUND_FAILED)] == [
        health.BACKGROUND_FAILED(names="restorer").what
    ]


async def test_what_is_wrong_with_the_model_is_said_as_doctor_says_it(client: Redis, tmp_path: Path) -> None:
    async with run_process(client, tmp_path) as process:
        policy = FilterPolicy(ThresholdPolicy(0.5, FalsePositiveBudget(0.01)), {"spam": 2, "ham": 3})
        lookups = ModelLookups(process.settings, process.parts, lambda: policy)
        check = HealthCheck(process.parts, lambda: False)

        now = await make_reader(process.settings, process.parts, check, lookups.findings).now(ActivitySpan.HOUR)

    assert {finding.what for finding in now.findings} == {
        "Every verdict is unsure until 2 spam and 3 ham more are learned (0 ham and 0 spam so far).",
        "The budget of 0.01 is not guaranteed yet: 299 more labelled ham messages are needed.",
    }
