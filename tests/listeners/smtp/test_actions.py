"""The SMTP listener acts on verdicts: over real sockets, before a Maildir and before an SMTP server."""

from __future__ import annotations

import errno
import os
import pathlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.delivery import quarantine
from nbstream.delivery.quarantine import Quarantine, QuarantineNote
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.mail.message import Message
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.header import FilterMarks
from nbstream.policy.recipient_rules import RecipientRule
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.policy.verdict import Action
from tests.harness.scripted import relay_at
from tests.harness.sink import Sink, open_sink
from tests.harness.smtp_listener import HAM, SPAM, RunningSmtp, open_smtp_listener

SPAMMY = b"From: w@offers.example\r\nSubject: prize\r\n\r\nClaim your free prize now, this offer ends today.\r\n"
HAMMY = b"From: ann@example.org\r\nSubject: lunch\r\n\r\nShall we have lunch on Friday? Ben will come too.\r\n"
UNSURE, LOW = 0.51, 0.52  # a model of one message of each class is sure of little


def actions(**chosen: str) -> ActionsSettings:
    return ActionsSettings(**{verdict: Action.parse(text) for verdict, text in chosen.items()})


def rule(position: int, match: str, spam: str, threshold: float = LOW) -> RecipientRule:
    return RecipientRule.at_position(
        position, AddressPattern(match), ThresholdPolicy(UNSURE, threshold), actions(spam=spam)
    )


@asynccontextmanager
async def taught(client: Redis, folder: pathlib.Path, **options: Any) -> AsyncIterator[RunningSmtp]:
    """An SMTP listener whose model has learned one spam and one ham."""
    async with open_smtp_listener(client, folder / "Maildir", **options) as smtp:
        assert (await smtp.send(SPAMMY, SPAM)).startswith("250 2.0.0 learned")
        assert (await smtp.send(HAMMY, HAM)).startswith("250 2.0.0 learned")
        yield smtp


@asynccontextmanager
async def before_server(
    client: Redis, folder: pathlib.Path, sink: Sink, *, lmtp: bool = False, **options: Any
) -> AsyncIterator[RunningSmtp]:
    """Such a listener whose next hop is an SMTP server, or an LMTP server."""
    async with open_sink(sink, lmtp=lmtp) as port:
        next_hop = SmtpNextHop(relay_at(port, lmtp=lmtp))
        async with taught(client, folder, next_hop=next_hop, **options) as smtp:
            yield smtp


async def send(smtp: RunningSmtp, *recipients: str, content: bytes = SPAMMY) -> str:
    """Send one message to several recipients, and return the last reply."""
    dialogue = await smtp.talk()
    await dialogue.hello()
    await dialogue.say("MAIL FROM:<from@example.org> BODY=8BITMIME")
    for recipient in recipients:
        assert (await dialogue.say(f"RCPT TO:<{recipient}>")).startswith("250")
    assert (await dialogue.say("DATA")).startswith("354")
    dialogue.writer.write(content + b".\r\n")
    reply = await dialogue.reply()
    dialogue.writer.close()
    return reply


def quarantined(smtp: RunningSmtp) -> list[tuple[QuarantineNote, bytes]]:
    waiting = Quarantine(smtp.maildir.with_name("Quarantine"))
    return [quarantine.read_message(message) for message in waiting.messages()]


def envelopes(smtp: RunningSmtp) -> dict[str, str]:
    """Return the own field of each delivered file, up to its model, by recipients."""
    return {" ".join(to): own(raw) for raw in smtp.delivered() for to in [field_texts(raw, "x-envelope-to")]}


def field_texts(raw: bytes, name: str) -> list[str]:
    canonical = normalize_line_ends(raw)
    fields = header_fields.parse_fields(canonical, header_fields.body_offset(canonical))
    return [field.text for field in fields if field.name == name]


def own(raw: bytes) -> str:
    (value,) = field_texts(raw, "x-nbstream")
    match = re.match(r'(\w+); probability=[\d.]+; reason="[^"]*";(?:\s*(policy="[^"]*");)?\s*model=', value)
    assert match, value
    return " ".join(filter(None, match.groups()))


# Before a Maildir


async def test_spam_waits_in_the_quarantine_with_its_envelope(client: Redis, tmp_path: pathlib.Path) -> None:
    rules = [rule(0, "*", "quarantine")]
    async with taught(client, tmp_path, rules=rules) as smtp:
        assert (await send(smtp, "a@x", "b@y")) == "250 2.0.0 Accepted"
        assert (await send(smtp, "a@x", content=HAMMY)).startswith("250 2.0.0 Accepted")

        ((note, content),) = quarantined(smtp)
        assert (note.verdict, note.policy) == ("spam", "")
        assert (note.envelope.sender.address, note.envelope.sender.parameters) == (
            "from@example.org",
            ("BODY=8BITMIME",),
        )
        assert [path.address for path in note.envelope.recipients] == ["a@x", "b@y"]
        assert content.endswith(SPAMMY)
        assert own(content) == "spam"
        assert field_texts(content, "x-spam-flag") == ["YES"]
        (file,) = (
            tmp_path / "Quarantine" / "new"
        ).iterdir()  # to be learned as it lies there, it is the same message
        stored = header_fields.strip_fields(normalize_line_ends(file.read_bytes()), FilterMarks().names)
        assert Message.parse(stored).key == note.id
        assert stored == SPAMMY
        assert len(smtp.delivered()) == 1
        assert smtp.metric("nbstream_actions_total", action="quarantine") == 1
        assert smtp.metric("nbstream_actions_total", action="pass") == 1
        assert smtp.metric("nbstream_relay_replies_total", code="250") == 1


async def test_each_recipient_gets_the_decision_of_its_rule(client: Redis, tmp_path: pathlib.Path) -> None:
    rules = [
        rule(0, "*@quarantined.example", "quarantine"),
        rule(1, "boss@*", "redirect:abuse@x"),
        rule(2, "*@strict.example", "reject"),
        rule(3, "*@tolerant.example", "quarantine", threshold=0.999),
    ]
    async with taught(client, tmp_path, rules=rules, actions=actions(unsure="pass")) as smtp:
        reply = await send(
            smtp,
            *(
                "a@quarantined.example",
                "boss@y",
                "c@strict.example",
                "d@tolerant.example",
                "e@quarantined.example",
                "f@y",
            ),
        )

        assert reply.startswith("250 2.0.0 Accepted")
        assert envelopes(smtp) == {
            "c@strict.example d@tolerant.example": 'unsure policy="*@tolerant.example"',
            "f@y": 'unsure policy="default"',
            "abuse@x": 'spam policy="recipients[1]"',
        }
        (redirected,) = (raw for raw in smtp.delivered() if field_texts(raw, "x-envelope-to") == ["abuse@x"])
        assert field_texts(redirected, "x-nbstream-recipient") == ["boss@y"]
        ((note, content),) = quarantined(smtp)
        assert [path.address for path in note.envelope.recipients] == [
            "a@quarantined.example",
            "e@quarantined.example",
        ]
        assert note.policy == "*@quarantined.example"
        assert own(content) == 'spam policy="*@quarantined.example"'


@pytest.mark.parametrize(
    ("action", "reply"),
    [
        ("reject", "550 5.7.1 Message refused as spam"),
        ("defer", "451 4.7.1 Message deferred, please try again later"),
    ],
)
async def test_a_refused_message_gets_a_reply_and_leaves_nothing(
    action: str, reply: str, client: Redis, tmp_path: pathlib.Path
) -> None:
    async with taught(client, tmp_path, rules=[rule(0, "*", action)]) as smtp:
        assert (await send(smtp, "a@x")).startswith(reply)
        assert (smtp.delivered(), quarantined(smtp)) == ([], [])
        assert smtp.metric("nbstream_actions_total", action=action) == 1


# Before an SMTP server


@pytest.mark.parametrize("recipients", [("a@x", "b@y", "c@z"), ("c@z", "b@y", "a@x")])
async def test_before_a_server_the_mildest_holds_for_all(
    recipients: tuple[str, ...], client: Redis, tmp_path: pathlib.Path
) -> None:
    rules = [rule(0, "*@x", "reject"), rule(1, "*@y", "quarantine"), rule(2, "*@z", "pass")]
    sink = Sink()
    async with before_server(client, tmp_path, sink, rules=rules) as smtp:
        assert (await send(smtp, *recipients)).startswith("250 2.0.0 Accepted")

        ((sender, to, content),) = sink.taken
        assert (sender, to) == ("from@example.org", list(recipients))
        assert own(content) == 'spam policy="*@z"'
        assert content.endswith(SPAMMY)
        assert quarantined(smtp) == []


async def test_a_redirected_message_goes_to_the_other_address_and_its_sender_is_not_told(
    client: Redis, tmp_path: pathlib.Path
) -> None:
    sink = Sink()
    async with before_server(client, tmp_path, sink, rules=[rule(0, "*", "redirect:abuse@x.example")]) as smtp:
        assert (await send(smtp, "a@x")).startswith("250 2.0.0 Accepted")
        assert (await send(smtp, "a@x", content=HAMMY)).startswith("250 2.0.0 Accepted")
        sink.taken.pop()
        sink.answer = "554 5.7.0 not here"
        assert (await send(smtp, "a@x", "hidden@y")).startswith("554 5.7.0 not here")

        (one, both) = sink.taken
        assert (one[0], one[1]) == (both[0], both[1]) == ("from@example.org", ["abuse@x.example"])
        assert field_texts(one[2], "x-nbstream-recipient") == ["a@x"]
        assert one[2].endswith(SPAMMY)
        # Passed on to one of them it would tell of the other.
        assert field_texts(both[2], "x-nbstream-recipient") == []
        assert b"hidden" not in both[2]


async def test_no_reply_of_an_lmtp_server_tells_the_address_of_a_redirection(
    client: Redis, tmp_path: pathlib.Path
) -> None:
    sink = Sink(answer="250 2.0.0 <abuse@x.example> Saved")
    rules = [rule(0, "*", "redirect:abuse@x.example")]
    async with before_server(client, tmp_path, sink, lmtp=True, rules=rules) as smtp:
        assert await send(smtp, "a@x") == "250 2.0.0 Accepted"
        sink.answer = "552 5.2.2 <abuse@x.example> Quota exceeded"
        refusal = await send(smtp, "a@x")

        assert refusal.startswith("451 4.4.1")
        assert "abuse" not in refusal


async def test_at_the_recipient_the_server_has_the_word(client: Redis, tmp_path: pathlib.Path) -> None:
    sink = Sink(refuse={"no@x": "550 5.1.1 no such user"})
    async with before_server(client, tmp_path, sink, rules=[rule(0, "*", "quarantine")]) as smtp:
        dialogue = await smtp.talk()
        await dialogue.hello()
        await dialogue.say("MAIL FROM:<from@example.org>")
        assert await dialogue.say("RCPT TO:<no@x>") == "550 5.1.1 no such user"
        await dialogue.say("RCPT TO:<yes@x>")
        await dialogue.say("DATA")
        dialogue.writer.write(SPAMMY + b".\r\n")

        assert (await dialogue.reply()).startswith("250")
        assert [path.address for path in quarantined(smtp)[0][0].envelope.recipients] == ["yes@x"]


async def test_a_full_disk_under_the_quarantine_is_452_and_the_server_gets_nothing(
    client: Redis, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink()
    async with before_server(client, tmp_path, sink, rules=[rule(0, "*", "quarantine")]) as smtp:

        def fail(_descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "full")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            reply = await send(smtp, "a@x")

        assert reply.startswith("452 4.3.1")
        assert (sink.taken, quarantined(smtp)) == ([], [])
        assert (await send(smtp, "a@x")).startswith("250")
        assert len(quarantined(smtp)) == 1
