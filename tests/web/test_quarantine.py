"""``nbstream.web.quarantine``: each user has what is addressed to them, and nothing of anybody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.daemon.metrics import DaemonMetrics
from nbstream.delivery import quarantine
from nbstream.delivery.next_hop import Envelope, NextHop, SmtpPath
from nbstream.delivery.quarantine import Quarantine, QuarantineFile, QuarantineNote
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.engine.choice import PYTHON
from nbstream.filter import FilterPolicy
from nbstream.mail.message import Message
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.server.message_service import MessageHandler
from nbstream.store.recent.message_rows import OutcomeKind, normalize_address
from nbstream.web import quarantine as web_quarantine
from nbstream.web.quarantine import MailOrder, MailOutcome, MailQuery, UserOf, WebQuarantine
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
    """A quarantine for users, and what came of it."""

    quarantine: WebQuarantine
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

    async def release(self, address: str, message_id: str) -> MailOutcome | None:
        """Release what the user finds; None where they find nothing."""
        mail = await self.quarantine.find(address, message_id)
        return (await self.quarantine.release(address, mail, address)).outcome if mail else None

    async def lessons(self) -> list[tuple[str, str]]:
        history = [entry async for entry in self.filter.model.history.changes()]
        return [(entry.note.source, entry.note.actor) for entry in history]


@asynccontextmanager
async def open_quarantine(
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
        waiting, outcomes = Quarantine(folder / "Quarantine", user_of=user_of), []

        async def note(message_id: str, kind: OutcomeKind, actor: str) -> None:
            outcomes.append((message_id, kind, actor))

        quarantine_of_users = WebQuarantine(
            waiting, next_hop, lambda: MessageHandler("digest", runtime, metrics.delivery), note, user_of
        )
        try:
            yield Site(quarantine_of_users, waiting, server, opened, outcomes)
        finally:
            await next_hop.close()


@pytest.fixture
async def site(client: Redis, tmp_path: Path) -> AsyncIterator[Site]:
    async with open_quarantine(client, tmp_path) as opened:
        yield opened


async def test_a_user_finds_what_is_addressed_to_them(site: Site) -> None:
    await site.hold("Ann@Example.ORG", BOB)
    (row,) = (await site.quarantine.list_page(ANN, MailQuery(), 10)).rows
    assert (row.mail.id, row.sender, row.subject) == (ID, "Shop <shop@example.net>", "50 €")
    assert await site.quarantine.find(ANN, ID) == row.mail


@pytest.mark.parametrize(
    ("address", "message_id"),
    [("eve@example.org", ID), ("@example.org", ID), ("example.org", ID), ("", ID), (ANN, ID[:4]), (ANN, "")],
)
async def test_nobody_finds_what_is_not_addressed_to_them(site: Site, address: str, message_id: str) -> None:
    await site.hold(ANN, BOB)
    assert await site.quarantine.find(address, message_id) is None
    listed = await site.quarantine.list_page(address, MailQuery(), 10)
    assert [row.mail.id for row in listed.rows] == ([ID] if address == ANN else [])


@pytest.mark.parametrize("lmtp", [False, True])
async def test_what_a_user_releases_goes_to_them_alone(client: Redis, tmp_path: Path, lmtp: bool) -> None:
    async with open_quarantine(client, tmp_path, lmtp=lmtp) as site:
        await site.hold(BOB, ANN, "carl@example.org")

        assert await site.release(ANN, ID) is MailOutcome.DONE

        (delivered,) = site.server.received
        assert (delivered.sender, delivered.recipients) == ("shop@example.net", [ANN])
        assert b"\r\n\r\nhello" in delivered.content
        assert site.waits_for == [[BOB, "carl@example.org"]]
        assert site.outcomes == []  # it waits for others
        assert await site.quarantine.find(ANN, ID) is None
        assert await site.quarantine.find(BOB, ID)


@pytest.mark.parametrize("lmtp", [False, True])
async def test_mail_for_each_of_their_addresses_is_theirs(client: Redis, tmp_path: Path, lmtp: bool) -> None:
    async with open_quarantine(client, tmp_path, lmtp=lmtp, user_of=without_detail) as site:
        await site.hold("ann+shop@example.org", BOB, ANN)

        assert await site.quarantine.find(ANN, ID)
        assert await site.quarantine.find("ann+shop@example.org", ID) is None
        assert await site.release(ANN, ID) is MailOutcome.DONE

        delivered = [recipient for mail in site.server.received for recipient in mail.recipients]
        assert delivered == ["ann+shop@example.org", ANN]
        assert site.waits_for == [[BOB]]


async def test_who_releases_for_all_releases_to_all(site: Site) -> None:
    await site.hold(ANN, BOB)
    mail = await site.quarantine.find(None, ID)
    assert mail
    assert (await site.quarantine.release(None, mail, "admin")).outcome is MailOutcome.DONE
    assert [mail.recipients for mail in site.server.received] == [[ANN, BOB]]
    assert await site.lessons() == [("digest", "admin")]
    assert site.outcomes == [(ID, OutcomeKind.RELEASED, "admin")]


@pytest.mark.parametrize(("reply", "outcome"), [("550 no", MailOutcome.REFUSED), ("451 later", MailOutcome.LATER)])
async def test_what_the_mail_server_refuses_waits_on(site: Site, reply: str, outcome: MailOutcome) -> None:
    await site.hold(ANN, BOB)
    site.server.reply_to[ANN] = reply
    assert await site.release(ANN, ID) is outcome
    assert site.waits_for == [[ANN, BOB]]


@pytest.mark.parametrize("order", MailOrder)
async def test_a_page_of_a_full_quarantine_opens_a_bounded_number_of_files(
    site: Site, monkeypatch: pytest.MonkeyPatch, order: MailOrder
) -> None:
    """What a page costs, in time and in memory, is bounded by what it opens, whatever waits there.

    Of all else it knows a word a file: to sort a hundred thousand objects, and to look among them for garbage,
    holds the interpreter lock.
    """
    for number in range(12):
        await site.hold(ANN, raw=RAW + b"%d" % number)
    monkeypatch.setattr(web_quarantine, "MAX_READ", 5)
    opened: list[str] = []
    made: list[str] = []
    open_file, message_at = quarantine._open_file, Quarantine.message_at

    def counting_open_file(file: QuarantineFile) -> AbstractContextManager[BufferedReader]:
        opened.append(file.id)
        return open_file(file)

    def counting_message_at(waiting: Quarantine, file: str) -> QuarantineFile:
        made.append(file)
        return message_at(waiting, file)

    monkeypatch.setattr(quarantine, "_open_file", counting_open_file)
    monkeypatch.setattr(Quarantine, "message_at", counting_message_at)
    page = await site.quarantine.list_page(None, MailQuery(sender="nobody@x.example", order=order), 3)
    assert (page.rows, page.total, page.read_to is None) == ([], 12, False)
    assert len(opened) == len(made) == 5
    page = await site.quarantine.list_page(None, MailQuery(sender="shop@example.net", order=order), 3)
    assert len(page.rows) == 3
    assert len(opened) <= 5 + 2 * 5 + 3
