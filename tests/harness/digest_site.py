"""A quarantine whose digests go to a real mail server, with a clock that the tests set."""

from __future__ import annotations

import email
import email.policy
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from nbstream.delivery import maildir
from nbstream.delivery.next_hop import Envelope, NextHop, SmtpPath
from nbstream.delivery.quarantine import Quarantine, QuarantineNote
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.mail.message import Message
from nbstream.store.model.keys import ModelKeys
from nbstream.store.recent.message_rows import normalize_address
from nbstream.store.state_file import StateFile
from nbstream.web.quarantine import UserOf
from nbstream.web.users.digest_mail import DigestRenderer
from nbstream.web.users.digest_state import DigestState
from nbstream.web.users.digests import DigestOutcome, Digests
from nbstream.web.users.links import LinkKeys
from nbstream.web.users.preferences import UserPreferences
from nbstream.web.users.settings import DigestSettings
from tests.harness.mail_server import MailServer, open_mail_server
from tests.harness.scripted import relay_at

ANN, BOB = "ann@example.org", "bob@example.org"
SECTION: dict[str, Any] = {
    "recipients": ("*@example.org",),
    "sender": "filter@example.org",
    "base_url": "https://mail.example.org",
}
KEYS = ModelKeys("m")


@dataclass
class DigestSite:
    """The digests, and what they are made of and go to."""

    digests: Digests
    state: DigestState
    waiting: Quarantine
    folder: Path
    server: MailServer
    preferences: UserPreferences
    link_keys: LinkKeys
    outcomes: Counter[DigestOutcome] = field(default_factory=Counter)

    async def hold(
        self,
        at: float,
        *recipients: str,
        subject: str = "Cheap",
        sender: str = "Shop <shop@example.net>",
        probability: float = 0.97,
        by_list: bool = False,
    ) -> str:
        """Put a message into the quarantine that came at this time, and return its id."""
        raw = f"From: {sender}\r\nSubject: {subject}\r\n\r\nhello {at}\r\n".encode()
        message_id = Message.parse(raw).key
        envelope = Envelope(SmtpPath("shop@example.net"), tuple(map(SmtpPath, recipients or (ANN,))))
        note = QuarantineNote(message_id, "spam", probability, "", envelope, by_list)
        (draft,) = self.waiting.make_drafts([(note, b"", raw)])
        assert await maildir.write_drafts([draft]) is None
        (path,) = (self.folder / "new").glob(f"*{draft.name.partition('.')[2]}")
        os.rename(path, path.with_name(f"{int(at)}.{draft.name.partition('.')[2]}"))  # noqa: PTH104 - of a file
        return message_id

    @property
    def mails(self) -> list[tuple[str, EmailMessage]]:
        """Each mail that the server got, with its only recipient."""
        return [
            (mail.recipients[0], email.message_from_bytes(mail.content, policy=email.policy.default))
            for mail in self.server.received
        ]

    @property
    def subjects(self) -> dict[str, list[str]]:
        """The subjects that each recipient was told of, of all his digests in their order."""
        told: dict[str, list[str]] = {}
        for recipient, mail in self.mails:
            lines = body_of(mail, "plain").splitlines()
            told.setdefault(recipient, []).extend(
                line.removeprefix("Subject:  ") for line in lines if line.startswith("Subject:  ")
            )
        return told


def body_of(mail: EmailMessage, kind: str) -> str:
    """The text of one form of the mail."""
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


def without_detail(address: str) -> str:
    """The user of an address such as ``ann+shop@example.org``."""
    local, _, domain = normalize_address(address).rpartition("@")
    return f"{local.partition('+')[0]}@{domain}"


@asynccontextmanager
async def open_digests(
    client: Redis,
    folder: Path,
    *,
    lmtp: bool = False,
    kept_days: int | None = 30,
    user_of: UserOf = normalize_address,
    **section: Any,
) -> AsyncIterator[DigestSite]:
    """Make the digests; ``section`` are values of their section of the configuration."""
    settings = DigestSettings(**{**SECTION, **section})
    quarantine, state = folder / "Quarantine", StateFile(folder)
    async with open_mail_server(lmtp=lmtp) as server:
        next_hop: NextHop = SmtpNextHop(relay_at(server.port, lmtp=lmtp))
        outcomes = Counter[DigestOutcome]()
        digests = Digests(
            section=settings,
            folder=quarantine,
            user_of=user_of,
            kept_days=kept_days,
            state=DigestState(state),
            renderer=DigestRenderer(settings, kept_days),
            preferences=UserPreferences(client, KEYS),
            link_keys=LinkKeys(client, KEYS),
            next_hop=next_hop,
            count=lambda outcome: outcomes.update([outcome]),
        )
        try:
            yield DigestSite(
                digests,
                digests.state,
                Quarantine(quarantine),
                quarantine,
                server,
                digests.preferences,
                digests.link_keys,
                outcomes,
            )
        finally:
            await next_hop.close()
            state.close()
