"""LMTP: each recipient of a message has a reply of its own, whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.delivery.next_hop import DataReplies, SmtpPath, SmtpReply
from nbstream.errors import RelayUnavailable
from nbstream.listeners.smtp.delivery import Delivery
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.recipient_rules import RecipientRule
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.policy.verdict import Action
from tests.harness.smtp_listener import HAM, SPAM, Dialogue, RunningSmtp, Way, open_smtp_listener

SPAMMY = b"Message-ID: <1@x>\r\nSubject: prize\r\n\r\nClaim your free prize now\r\n"
HAMMY = b"Message-ID: <2@x>\r\nSubject: lunch\r\n\r\nShall we have lunch on Friday?\r\n"


class MemoryNextHop:
    """A next hop that speaks LMTP: it has a reply for each recipient, and refuses those without an at sign."""

    answers_each_recipient = True

    def __init__(self, *replies: SmtpReply) -> None:
        self.replies = replies
        self.messages: list[bytes] = []

    async def features(self) -> frozenset[str]:
        return frozenset({"8BITMIME", "PIPELINING", "ENHANCEDSTATUSCODES"})

    async def begin(self, sender: SmtpPath) -> MemoryNextHop:
        return self

    async def rcpt(self, recipient: SmtpPath) -> SmtpReply:
        return SmtpReply(250, "2.1.5 Ok") if "@" in recipient.address else SmtpReply(550, "5.1.1 no")

    async def data(self, content: bytes, fields: bytes = b"") -> DataReplies:
        if not self.replies:
            raise RelayUnavailable("it went away")
        self.messages.append(fields + content)
        return DataReplies(self.replies)

    async def abort(self) -> None:
        """Nothing is open."""

    async def problem(self) -> str | None:
        return None

    def read_authorities_again(self) -> None:
        """There are none."""

    async def close(self) -> None:
        """Nothing is open."""


async def begun(smtp: RunningSmtp, *recipients: str) -> Dialogue:
    """A client after the 354 of DATA."""
    dialogue = await smtp.talk()
    await dialogue.hello()
    await dialogue.say("MAIL FROM:<a@b>")
    for recipient in recipients:
        await dialogue.say(f"RCPT TO:<{recipient}>")
    assert (await dialogue.say("DATA")).startswith("354")
    return dialogue


async def replies(dialogue: Dialogue, content: bytes, count: int) -> list[str]:
    """The replies to a message, and that no further one comes."""
    said = [await dialogue.content(content), *[await dialogue.reply() for _ in range(count - 1)]]
    assert (await dialogue.say("NOOP")) == "250 OK"
    return said


async def test_lhlo_takes_the_place_of_ehlo(client: Redis, tmp_path: Path) -> None:
    async with open_smtp_listener(client, tmp_path / "m", way=Way.LMTP) as smtp:
        dialogue = await smtp.talk()

        assert (await dialogue.reply()).endswith("LMTP nbstream")
        for hello in ("EHLO x", "HELO x"):
            assert (await dialogue.say(hello)).startswith("500 5.5.1")
        assert (await dialogue.say("MAIL FROM:<a@b>")).startswith("503 5.5.1 Send LHLO")
        assert (await dialogue.say("LHLO")).startswith("501")
        assert "250-PIPELINING" in (await dialogue.say("LHLO x")).split("\n")


async def test_each_accepted_recipient_gets_the_reply_of_the_next_hop_in_order(
    client: Redis, tmp_path: Path
) -> None:
    own = (SmtpReply(250, "2.0.0 ann has it"), SmtpReply(452, "4.2.2 full"), SmtpReply(250, "2.0.0 eve has it"))
    async with open_smtp_listener(client, tmp_path / "m", MemoryNextHop(*own), way=Way.LMTP) as smtp:
        dialogue = await begun(smtp, "ann@x", "nobody", "bob@x", "eve@x")

        assert await replies(dialogue, SPAMMY, 3) == [str(reply) for reply in own]
        assert smtp.metric("nbstream_relay_replies_total", code="250") == 2
        assert smtp.metric("nbstream_relay_replies_total", code="452") == 1


async def test_one_reply_of_the_next_hop_is_that_of_each_recipient(client: Redis, tmp_path: Path) -> None:
    async with open_smtp_listener(client, tmp_path / "m", way=Way.LMTP) as smtp:
        dialogue = await begun(smtp, "ann@x", "ann@x", "bob@x")

        assert await replies(dialogue, SPAMMY, 3) == ["250 2.0.0 Delivered to the Maildir"] * 3
        assert len(smtp.delivered()) == 1


@pytest.mark.parametrize(
    ("content", "reply"),
    [(b"x" * 2000 + b"\r\n", "552 5.3.4"), (SPAMMY, "451 4.4.1"), (b"Received: x\r\n" * 51, "554")],
)
async def test_what_fails_fails_for_each_recipient(
    client: Redis, tmp_path: Path, content: bytes, reply: str
) -> None:
    async with open_smtp_listener(
        client, tmp_path / "m", MemoryNextHop(), way=Way.LMTP, max_message_bytes=1500
    ) as smtp:
        dialogue = await begun(smtp, "ann@x", "bob@x")

        assert [said[: len(reply)] for said in await replies(dialogue, content, 2)] == [reply] * 2


async def test_a_fault_of_ours_is_a_temporary_failure_for_each_recipient(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with open_smtp_listener(client, tmp_path / "m", way=Way.LMTP) as smtp:
        dialogue = await begun(smtp, "ann@x", "bob@x")
        monkeypatch.setattr(Delivery, "deliver", fail)

        assert [said[:9] for said in await replies(dialogue, SPAMMY, 2)] == ["451 4.3.0"] * 2


async def test_spam_is_refused_for_one_and_delivered_to_another(client: Redis, tmp_path: Path) -> None:
    actions = ("reject", "pass", "defer", "quarantine")
    rules = [
        RecipientRule.at_position(
            position,
            AddressPattern(f"*@{name}"),
            ThresholdPolicy(),
            ActionsSettings(**dict.fromkeys(("ham", "unsure", "spam"), Action.parse(name))),
        )
        for position, name in enumerate(actions)
    ]
    async with open_smtp_listener(client, tmp_path / "m", way=Way.LMTP, rules=rules) as smtp:
        for content, address in ((SPAMMY, SPAM), (HAMMY, HAM)):
            await smtp.send(content, address)
        dialogue = await begun(smtp, *(f"ann@{name}" for name in actions), "bob@reject")

        said = await replies(dialogue, SPAMMY, 5)

        assert [reply[:9] for reply in said] == ["550 5.7.1", "250 2.0.0", "451 4.7.1", "250 2.0.0", "550 5.7.1"]
        assert said[1] == said[3]  # nobody learns what went into the quarantine
        (delivered,) = smtp.delivered()
        assert b"X-Envelope-To: ann@pass\n" in delivered
        assert delivered.count(b"X-Envelope-To") == 1

        dialogue = await begun(smtp, "ann@reject", "bob@defer")
        assert [reply[:9] for reply in await replies(dialogue, SPAMMY, 2)] == ["550 5.7.1", "451 4.7.1"]
        assert len(smtp.delivered()) == 1
