"""The view now: what it says of real parts, and that it can be read whatever the state is."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.daemon import health
from nbstream.daemon.assembly.store import RedisClients
from nbstream.daemon.config import Settings
from nbstream.daemon.health import HealthCheck
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.model_lookups import ModelLookups
from nbstream.daemon.server_parts import ServerParts
from nbstream.engine.choice import PYTHON
from nbstream.errors import StoreRefuses
from nbstream.filter import FilterPolicy
from nbstream.findings import Finding
from nbstream.mail.message import Message
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.server.http.access import Role
from nbstream.store.model.history import RecentChanges
from nbstream.store.recent.message_rows import MessageRow, RowSearch
from nbstream.web.admin.now_view import NowView
from tests.harness.filters import make_filter
from tests.harness.rows import envelope, message_id, write_rows
from tests.harness.samples import samples
from tests.harness.waiting import ended, until
from tests.web.admin.page_listener import open_page

SPAM = next(raw for label, raw in samples(60, seed=9) if label == "spam")


@dataclass
class Process:
    """A process with all its parts, and the view of its page."""

    settings: Settings
    parts: ServerParts
    is_draining: list[bool]
    client: Redis
    findings: Callable[[], Sequence[Finding]] = lambda: []

    async def show(self, query: str = "") -> str:
        """The page, as a reader gets it."""
        check = HealthCheck(self.parts, lambda: self.is_draining[0])

        async def findings() -> Sequence[Finding]:
            return [*check.redis_findings(), *await check.other_findings(), *self.findings()]

        model, rows = self.parts.model, RowSearch(self.client, self.parts.model.keys, 3600)
        view = NowView(findings, rows, model.labels, RecentChanges(model.history))
        async with open_page(self.client, view) as page, page.browser(Role.READ) as browser:
            answer = await browser.get(f"/ui/{query}")
        assert answer.status == 200
        return answer.text

    async def words(self) -> str:
        """The words of the page."""
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", await self.show())).split())


@asynccontextmanager
async def run_process(client: Redis, folder: Path) -> AsyncIterator[Process]:
    settings = Settings.model_validate(
        {
            "state_dir": str(folder),
            "model": {"name": "test"},
            "listeners": {"smtp": {"listen": "127.0.0.1:0"}, "http": {"listen": "127.0.0.1:8025"}},
            "relay": {"next_hop": f"maildir:{folder / 'Maildir'}"},
        }
    )
    parts = ServerParts(settings, RedisClients(client, client), DaemonMetrics.create(PYTHON), PYTHON)
    async with AsyncExitStack() as stack:
        follower = asyncio.create_task(parts.follower.run())
        stack.push_async_callback(ended, follower)
        await parts.counts.loaded.wait()
        yield Process(settings, parts, [False], client)


async def test_it_asks_for_labels_and_shows_what_people_corrected(client: Redis, tmp_path: Path) -> None:
    async with run_process(client, tmp_path) as process:
        assert "Nothing is wrong." in await process.words()
        spam_filter = make_filter(client)
        learn = spam_filter.learn
        await asyncio.gather(*(learn(Message.parse(raw), label, "test") for label, raw in samples(300)))
        lesson = await spam_filter.learn(Message.parse(SPAM), "ham", "smtp", "ben")
        rows = [
            MessageRow(
                message_id(number),
                time.time() - number,
                verdict,
                0.6,
                envelope=envelope("a@x.org", subject=verdict),
            )
            for number, verdict in enumerate(("unsure", "spam"))
        ]
        await write_rows(client, rows, now=time.time())

        page, words = await process.show(), await process.words()

    assert page.count('name="action" value="ham"') == 0  # who may only read
    assert f'href="/ui/messages/{message_id(0)}"' in page
    assert f'href="/ui/messages/{message_id(1)}"' not in page
    assert f'href="/ui/messages/{lesson.after.id}"' in page
    assert "ben" in words.partition("Corrected last")[2]


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
    process.settings.quarantine_folder.symlink_to(process.settings.quarantine_folder)


@pytest.mark.parametrize(
    ("change", "kind", "sentence", "is_ready"),
    [
        (refuse_writes, health.WRITES_REFUSED, {"redis": "writes are refused; feedback is deferred"}, True),
        (
            become_replica,
            health.ONLY_REPLICA,
            {"redis": "only a replica is reachable; feedback is deferred"},
            True,
        ),
        (drain, health.DRAINING, {"smtp": "draining"}, False),
        (remove_next_hop, health.NEXT_HOP_AWAY, {"next_hop": "cannot be written"}, False),
        (fill_quarantine, health.QUARANTINE_AWAY, {"quarantine": "a file system error"}, True),
    ],
)
async def test_what_is_degraded_is_said_by_readyz_and_the_page_alike(
    client: Redis,
    tmp_path: Path,
    change: Callable[[Process], object],
    kind: Finding,
    sentence: dict[str, str],
    is_ready: bool,
) -> None:
    async with run_process(client, tmp_path) as process:
        change(process)

        status = await HealthCheck(process.parts, lambda: process.is_draining[0]).status()

        async def shows() -> bool:
            return kind.what.partition("{")[0] in await process.words()

        await until(shows)
    assert (status.ready, dict(status.degraded)) == (is_ready, sentence)


async def test_background_work_that_fails_is_said_while_mail_goes_on(client: Redis, tmp_path: Path) -> None:
    async def fail() -> None:
        raise RuntimeError("a fault")

    async with run_process(client, tmp_path) as process:
        process.parts.background.start("evictor", fail)
        check = HealthCheck(process.parts, lambda: False)

        async def is_failing() -> bool:
            return bool(process.parts.background.failing)

        await until(is_failing)
        status, found = await check.status(), await check.other_findings()
        await process.parts.background.stop()

    assert status.ready
    assert status.degraded == {"background": "evictor failed and will be retried"}
    assert found == [health.BACKGROUND_FAILED(names="evictor")]


async def test_what_is_wrong_with_the_model_is_said_as_doctor_says_it(client: Redis, tmp_path: Path) -> None:
    async with run_process(client, tmp_path) as process:
        policy = FilterPolicy(ThresholdPolicy(0.5, max_false_positive_rate=0.01), {"spam": 2, "ham": 3})
        process.findings = ModelLookups(process.settings, process.parts, lambda: policy).findings

        words = await process.words()

    assert (
        "Every verdict is unsure until the model has learned 2 spam and 3 ham more (0 ham and 0 spam so far)."
        in words
    )
    assert "The budget of 0.01 is not guaranteed yet: it needs 299 more labelled ham." in words
