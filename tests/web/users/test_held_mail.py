"""``nbstream.web.users.held_mail``: each user has what is addressed to him, and nothing of anybody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.daemon.metrics import DaemonMetrics
from nbstream.delivery import quarantine
from nbstream.delivery.next_hop import Envelope, NextHop, SmtpPath
from nbstream.delivery.quarantine import Quarantine, QuarantineNote
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.engine.choice import PYTHON
from nbstream.filter import FilterPolicy
from nbstream.mail.message import Message
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.recent.message_rows import OutcomeKind, normalize_address
from nbstream.web.users.held_mail import (
    DIGEST_SOURCE,
    HeldMail,
    HeldMessage,
    HeldOutcome,
    UserOf,
    UserTeacher,
)
from tests.harness.digest_site import without_detail
from tests.harness.listener_filters import OpenFilter, open_filter
from tests.harness.mail_server import MailServer, open_mail_server
from tests.harness.runtimes import make_runtime
from tests.harness.scripted import relay_at

ANN, BOB = "ann@example.org", "bob@example.org"
RAW = b"From: Shop <shop@example.net>\r\nSubject: =?utf-8?q?50_=E2=82=AC?=\r\n\r\nhello\r\n"
ID = Message.parse(RAW).key


@dataclass
class Site:
    """The held mail of a quarantine, and what came of it."""

    held: HeldMail
    waiting: Quarantine
    server: MailServer
    filter: OpenFilter
    outcomes: list[tuple[str, OutcomeKind, str]] = field(default_factory=list)

    async def hold(self, *recipients: str, raw: bytes = RAW) -> str:
        message_id = Message.parse(raw).key
        envelope = Envelope(SmtpPath("shop@example.net"), tuple(map(SmtpPath, recipients)))
        note = QuarantineNote(message_id, "spam", 0.97, "", envelope)
        assert await self.waiting.write([(note, b"", raw)]) is None
        return message_id

    @property
    def waits_for(self) -> list[list[str]]:
        notes = map(quarantine.read_note, self.waiting.messages())
        return [[path.address for path in note.envelope.recipients] for note in notes]

    async def lessons(self) -> list[tuple[str, str]]:
        history = [entry async for entry in self.filter.model.history.changes()]
        return [(entry.note.source, entry.note.actor) for entry in history]


@asynccontextmanager
async def open_held_mail(
    client: Redis, folder: Path, *, lmtp: bool = False, user_of: UserOf = normalize_address
) -> AsyncIterator[Site]:
    metrics = DaemonMetrics.create(PYTHON)
    async with (
        open_filter(
            client, metrics, FilterPolicy(ThresholdPolicy(), {"spam": 1, "ham": 1}), follow=True
        ) as opened,
        open_mail_server(lmtp=lmtp) as server,
    ):
        next_hop: NextHop = SmtpNextHop(relay_at(server.port, lmtp=lmtp))
        runtime = make_runtime(opened.spam_filter)
        waiting, outcomes = Quarantine(folder / "Quarantine"), []

        async def note(message_id: str, kind: OutcomeKind, actor: str) -> None:
            outcomes.append((message_id, kind, actor))

        teacher = UserTeacher(DIGEST_SOURCE, lambda: runtime)
        held = HeldMail(
            waiting=waiting,
            next_hop=next_hop,
            runtime=lambda: runtime,
            teacher=teacher,
            note_outcome=note,
            user_of=user_of,
        )
        try:
            yield Site(held, waiting, server, opened, outcomes)
        finally:
            await next_hop.close()


@pytest.fixture
async def site(client: Redis, tmp_path: Path) -> AsyncIterator[Site]:
    async with open_held_mail(client, tmp_path) as opened:
        yield opened


async def test_a_user_finds_what_is_addressed_to_him(site: Site) -> None:
    await site.hold("Ann@Example.ORG", BOB)
    found = await site.held.find(ANN, ID)
    assert found
    assert found == HeldMessage(ID, found.at, "spam", 0.97, "Shop <shop@example.net>", "50 €")


@pytest.mark.parametrize(
    ("address", "message_id"),
    [("eve@example.org", ID), ("@example.org", ID), ("example.org", ID), ("", ID), (ANN, ID[:4]), (ANN, "")],
)
async def test_nobody_finds_or_moves_what_is_not_addressed_to_him(
    site: Site, address: str, message_id: str
) -> None:
    await site.hold(ANN, BOB)
    assert await site.held.find(address, message_id) is None
    assert await site.held.release(address, message_id) is HeldOutcome.GONE
    assert await site.held.learn_ham(address, message_id) is HeldOutcome.GONE
    assert (site.waits_for, site.server.received, await site.lessons()) == ([[ANN, BOB]], [], [])


@pytest.mark.parametrize("lmtp", [False, True])
async def test_what_a_user_releases_goes_to_him_alone(client: Redis, tmp_path: Path, lmtp: bool) -> None:
    async with open_held_mail(client, tmp_path, lmtp=lmtp) as site:
        await site.hold(BOB, ANN, "carl@example.org")

        assert await site.held.release(ANN, ID) is HeldOutcome.DONE

        (delivered,) = site.server.received
        assert (delivered.sender, delivered.recipients) == ("shop@example.net", [ANN])
        assert b"\r\n\r\nhello" in delivered.content
        assert site.waits_for == [[BOB, "carl@example.org"]]
        assert site.outcomes == []  # it waits for others
        assert await site.held.find(ANN, ID) is None
        assert await site.held.find(BOB, ID)


@pytest.mark.parametrize("lmtp", [False, True])
async def test_mail_for_each_of_his_addresses_is_his(client: Redis, tmp_path: Path, lmtp: bool) -> None:
    async with open_held_mail(client, tmp_path, lmtp=lmtp, user_of=without_detail) as site:
        await site.hold("ann+shop@example.org", BOB, ANN)

        assert await site.held.find(ANN, ID)
        assert await site.held.find("ann+shop@example.org", ID) is None
        assert await site.held.release(ANN, ID) is HeldOutcome.DONE

        delivered = [recipient for mail in site.server.received for recipient in mail.recipients]
        assert delivered == ["ann+shop@example.org", ANN]
        assert site.waits_for == [[BOB]]


async def test_a_lesson_is_the_users_and_leaves_the_message_where_it_is(site: Site) -> None:
    await site.hold(ANN)
    assert [await site.held.learn_ham(ANN, ID) for _ in range(2)] == [HeldOutcome.DONE] * 2
    assert await site.lessons() == [("digest", ANN)]
    assert (site.waits_for, site.server.received) == ([[ANN]], [])


@pytest.mark.parametrize(("reply", "outcome"), [("550 no", HeldOutcome.REFUSED), ("451 later", HeldOutcome.LATER)])
async def test_what_the_mail_server_refuses_waits_on(site: Site, reply: str, outcome: HeldOutcome) -> None:
    await site.hold(ANN, BOB)
    site.server.reply_to[ANN] = reply
    assert await site.held.release(ANN, ID) is outcome
    assert site.waits_for == [[ANN, BOB]]
