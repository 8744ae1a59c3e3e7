"""Sender lists at the listeners: each recipient has his own, and what they decide is said."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.mail.message import Message
from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.recipient_rules import RecipientRules
from nbstream.policy.sender_lists import SITE, EvidenceReader, ListEntry, ListKind, OwnerList, SenderLists
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.policy.verdict import Action, ActionKind
from tests.harness.http_listener import open_http
from tests.harness.milter_listener import open_milter
from tests.harness.runtimes import make_runtime
from tests.harness.smtp_listener import RunningSmtp, Way, open_smtp_listener

ANN, BOB = "ann@example.org", "bob@example.org"
MX = "mx.example.org"
FORGED = b"Received: from x by mx.example.org\r\nFrom: Boss <boss@partner.example>\r\nSubject: hello\r\n\r\nHi\r\n"
PROVED = b"Authentication-Results: mx.example.org; dkim=pass header.d=partner.example\r\n" + FORGED
READER = EvidenceReader(frozenset({MX}))
REJECT_SPAM = RecipientRules.build(ThresholdPolicy(), ActionsSettings(spam=Action(ActionKind.REJECT)))


def entries(kind: ListKind, *senders: str) -> OwnerList:
    return OwnerList([ListEntry(kind, SenderPattern.parse(sender)) for sender in senders])


ALLOW_PARTNER = entries(ListKind.ALLOW, "partner.example")
BLOCK_PARTNER = entries(ListKind.BLOCK, "partner.example")


def lists(**stored: OwnerList) -> SenderLists:
    owners = {"ann": ANN, "bob": BOB, "site": SITE}
    return SenderLists(OwnerList(), {owners[name]: owner_list for name, owner_list in stored.items()}, READER)


def apply(smtp: RunningSmtp, sender_lists: SenderLists, **changes: Any) -> None:
    smtp.listener.apply(make_runtime(smtp.spam_filter, sender_lists=sender_lists, **changes))


async def send_to_both(smtp: RunningSmtp, content: bytes) -> list[str]:
    """Send a message to Ann and Bob, and return the replies to its content."""
    talk = await smtp.talk()
    await talk.hello()
    for line in ("MAIL FROM:<boss@partner.example>", f"RCPT TO:<{ANN}>", f"RCPT TO:<{BOB}>"):
        assert (await talk.say(line)).startswith("250")
    await talk.say("DATA")
    replies = [await talk.content(content)]
    if smtp.way.listener_name == "lmtp":
        replies.append(await talk.reply())
    return replies


def own_fields(smtp: RunningSmtp) -> list[str]:
    fields = [Message.parse(raw).first_field("x-nbstream") for raw in smtp.delivered()]
    return sorted(field.text.partition('";')[0] for field in fields if field)


async def test_two_recipients_of_one_message_get_different_verdicts(client: Redis, tmp_path: Path) -> None:
    async with open_smtp_listener(client, tmp_path / "Maildir", way=Way.LMTP) as smtp:
        apply(smtp, lists(ann=ALLOW_PARTNER, bob=BLOCK_PARTNER), rules=REJECT_SPAM)

        replies = await send_to_both(smtp, PROVED)

        assert [reply[:3] for reply in replies] == ["250", "550"]
        assert own_fields(smtp) == ['ham; probability=0.500000; reason="list=allow, owner=user']
        for kind in ("allow", "block"):
            assert smtp.metric("nbstream_list_decisions_total", kind=kind, owner="user") == 1


async def test_a_forged_sender_is_not_allowed_and_the_header_says_so(client: Redis, tmp_path: Path) -> None:
    async with open_smtp_listener(client, tmp_path / "Maildir") as smtp:
        apply(smtp, lists(ann=ALLOW_PARTNER))

        await smtp.send(FORGED, ANN)

        (field,) = own_fields(smtp)
        assert field == 'unsure; probability=0.500000; reason="learning 0/2; list=allow-unproved, owner=user'
        assert smtp.metric("nbstream_list_decisions_total", kind="allow-unproved", owner="user") == 1


async def test_a_login_at_the_mail_server_of_a_milter_proves_the_sender(client: Redis) -> None:
    async with open_milter(client, runtime={"sender_lists": lists(site=ALLOW_PARTNER)}) as milter:
        server = await milter.server()
        await server.deliver(FORGED, ANN, user="boss@partner.example")
        await server.deliver(FORGED, ANN, user="other@partner.example")

    assert milter.metric("nbstream_list_decisions_total", kind="allow", owner="site") == 1
    assert milter.metric("nbstream_list_decisions_total", kind="allow-unproved", owner="site") == 1


def with_lists(values: dict[str, Any]) -> None:
    values["lists"] = {"allow": ["192.0.2.0/24", "boss@partner.example"], "block": ["*@evil.example"]}
    values["trusted_authserv_ids"] = [MX]


async def test_programs_are_told_what_a_list_decided(
    client: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_http(client, tmp_path, change=with_lists) as http:
        with caplog.at_level(logging.INFO):
            allowed = (await http.ask("/v1/check", PROVED)).json
        unproved = (await http.ask("/v1/check", FORGED)).json
        blocked = (await http.ask("/v1/check", FORGED.replace(b"partner", b"evil"))).json
        other = (await http.ask("/v1/check", FORGED.replace(b"partner", b"other"))).json

    assert (allowed["verdict"], allowed["reason"]) == ("ham", "list=allow, owner=site")
    assert allowed["listed"] == {"decision": "allow", "owner": "site"}
    assert (unproved["verdict"], unproved["listed"]["decision"]) == ("unsure", "allow-unproved")
    assert (blocked["verdict"], blocked["listed"]["decision"]) == ("spam", "block")
    assert "listed" not in other
    assert allowed["probability"] == other["probability"]
    (line,) = [record.__dict__["fields"] for record in caplog.records if record.message == "message"]
    assert (line["list"], line["list_owner"]) == ("allow", "site")


async def test_a_client_of_rspamd_may_name_the_host_the_login_and_the_sender(
    client: Redis, tmp_path: Path
) -> None:
    async with open_http(client, tmp_path, change=with_lists) as http:
        answers = [
            (await http.ask("/checkv2", FORGED, **headers)).json
            for headers in ({"IP": "192.0.2.7"}, {"User": "boss@partner.example"}, {"From": "x@evil.example"}, {})
        ]

    options = [next(iter(answer["symbols"].values()))["options"][1] for answer in answers]
    assert options == [
        "list=allow, owner=site",
        "list=allow, owner=site",
        "list=block, owner=site",
        "learning 0/2; list=allow-unproved, owner=site",
    ]
    assert [answer["action"] for answer in answers] == ["no action", "no action", "add header", "no action"]
