"""Feedback by mail: it is learned durably, or the client has to send it again."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.server.connections import Teachers
from nbstream.server.runtime import FeedbackAddresses, Runtime
from tests.harness.delivered import DELIVERED, assert_learned_as_it_was_checked
from tests.harness.disputes import DISPUTED, teach_dispute
from tests.harness.runtimes import LOOPBACK, make_runtime
from tests.harness.scripted import relay_at
from tests.harness.smtp_listener import HAM, SPAM, RunningSmtp, open_smtp_listener

PRIZE = b"Message-ID: <1@x>\r\nFrom: win@example.com\r\nSubject: prize\r\n\r\nClaim your free prize now\r\n"
LUNCH = b"Message-ID: <2@x>\r\nFrom: ann@example.org\r\nSubject: lunch\r\n\r\nShall we have lunch on Friday?\r\n"


def wrap_as_forward(content: bytes) -> bytes:
    """A forward with ``content`` attached, as mail programs send it."""
    head = (
        b"From: <ann@example.org>\r\nSubject: Fwd\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/mixed; boundary="b1"\r\n\r\n--b1\r\n'
        b"Content-Type: text/plain\r\n\r\nThis one.\r\n--b1\r\n"
        b"Content-Type: message/rfc822\r\nContent-Disposition: attachment\r\n\r\n"
    )
    return head + content + b"\r\n--b1--\r\n"


async def test_a_correction_is_learned_and_the_next_check_knows_it(smtp: RunningSmtp) -> None:
    assert (await smtp.send(wrap_as_forward(PRIZE), SPAM)).startswith("250 2.0.0 learned as spam: P 0.50 -> ")
    await smtp.send(wrap_as_forward(LUNCH), HAM)

    reply = await smtp.send(PRIZE.replace(b"<1@x>", b"<3@x>"), parameters=["XVERDICT"])

    assert float(reply.split("probability=")[1]) > 0.5
    assert smtp.metric("nbstream_feedback_total", source="smtp", label="spam", outcome="learned") == 1
    assert smtp.metric("nbstream_model_messages", **{"class": "ham"}) == 1


async def test_a_delivered_message_is_learned_as_it_was_checked(smtp: RunningSmtp, client: Redis) -> None:
    await smtp.send(wrap_as_forward(DELIVERED), SPAM)
    await assert_learned_as_it_was_checked(client)


async def test_several_messages_are_learned_one_by_one(smtp: RunningSmtp) -> None:
    two = wrap_as_forward(PRIZE).replace(
        b"Content-Type: text/plain\r\n\r\nThis one.", b"Content-Type: message/rfc822\r\n\r\n" + LUNCH
    )

    reply = await smtp.send(two, SPAM)

    assert reply.startswith("250 2.0.0 2 learned as spam; ")
    assert (await smtp.model.totals()).messages == (0, 2)


async def test_a_mail_with_several_messages_reinforces_on_none_of_them(smtp: RunningSmtp) -> None:
    await teach_dispute(smtp.spam_filter, actor="192.0.2.1")
    before = await smtp.model.entry(DISPUTED.key)
    two = wrap_as_forward(DISPUTED.raw).replace(
        b"Content-Type: text/plain\r\n\r\nThis one.", b"Content-Type: message/rfc822\r\n\r\n" + LUNCH
    )

    reply = await smtp.send(two, HAM)

    assert reply.startswith("250 2.0.0 1 already learned as ham, 1 learned as ham; ")
    assert await smtp.model.entry(DISPUTED.key) == before


async def test_a_stranger_teaches_nothing_and_is_named_in_the_log(
    client: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_smtp_listener(
        client, tmp_path / "m", allow_from=(ipaddress.ip_network("10.0.0.0/8"),)
    ) as smtp:
        assert (await smtp.send(wrap_as_forward(PRIZE), SPAM)).startswith("550 5.7.1")
        assert (await smtp.model.totals()).messages == (0, 0)
        assert smtp.metric("nbstream_feedback_total", source="smtp", label="spam", outcome="refused") == 1
    (refused,) = [line for line in caplog.records if "feedback refused" in line.message]
    assert vars(refused)["fields"] == {"peer": "127.0.0.1"}


@pytest.mark.parametrize(
    ("first", "second"), [(SPAM, "to@example.org"), ("to@example.org", SPAM), (SPAM, HAM), (HAM.upper(), SPAM)]
)
async def test_feedback_travels_alone(smtp: RunningSmtp, first: str, second: str) -> None:
    dialogue = await smtp.talk()
    await dialogue.hello()
    await dialogue.say("MAIL FROM:<a@b>")

    assert (await dialogue.say(f"RCPT TO:<{first}>")).startswith("250")
    assert (await dialogue.say(f"RCPT TO:<{second}>")).startswith("452 4.5.3")


async def test_feedback_is_learned_while_the_next_hop_is_away(client: Redis, tmp_path: Path) -> None:
    away = SmtpNextHop(relay_at(1))
    async with open_smtp_listener(client, tmp_path / "m", away) as smtp:
        assert (await smtp.send(wrap_as_forward(PRIZE), SPAM)).startswith("250 2.0.0 learned")


async def test_a_mail_server_names_who_teaches_through_it(smtp: RunningSmtp) -> None:
    talk = await smtp.talk()
    assert "250-XFORWARD NAME ADDR PORT PROTO HELO IDENT SOURCE" in (await talk.hello()).splitlines()[:-1]
    for number, (said, reply) in enumerate(
        [
            ("NAME=client.example ADDR=192.0.2.7 PORT=1234", "250"),
            ("ADDR=IPV6:2001:db8::7", "250"),
            ("ADDR=\x1b[2J", "501"),
            (None, None),
        ]
    ):
        if said:
            assert (await talk.say(f"XFORWARD {said}")).startswith(str(reply))
        for line in ("MAIL FROM:<a@b>", f"RCPT TO:<{SPAM}>"):
            assert (await talk.say(line)).startswith("250")
        assert (await talk.say("XFORWARD ADDR=192.0.2.9")).startswith("503")
        assert (await talk.say("DATA")).startswith("354")
        await talk.say(PRIZE.replace(b"<1@x>", b"<%d@x>" % number) + b".")

    actors = [record.note.actor async for record in smtp.model.history.records()]
    assert actors == ["127.0.0.1", "127.0.0.1", "2001:db8::7", "192.0.2.7"]  # newest first; good for one mail each


@pytest.mark.parametrize(
    ("attributes", "checked", "unchecked"),
    [
        ("ADDR=192.0.2.7", "550 5.7.1", "250 2.1.5"),
        ("ADDR=192.0.2.7 SOURCE=LOCAL", "550 5.7.1", "250 2.1.5"),
        ("ADDR=[UNAVAILABLE]", "550 5.7.1", "250 2.1.5"),
        ("NAME=client.example", "550 5.7.1", "250 2.1.5"),
        ("ADDR=127.0.0.9", "250 2.1.5", "250 2.1.5"),
        ("SOURCE=LOCAL IDENT=4Q", "250 2.1.5", "250 2.1.5"),  # it began on the proxy's own machine
        (None, "250 2.1.5", "250 2.1.5"),
    ],
)
async def test_a_forwarded_client_needs_the_right_to_teach_only_where_that_is_configured(
    smtp: RunningSmtp, attributes: str | None, checked: str, unchecked: str
) -> None:
    for checks_forwarded, reply in ((False, unchecked), (True, checked)):
        smtp.listener.apply(teaching(smtp, Teachers(LOOPBACK, checks_forwarded)))
        talk = await smtp.talk()
        await talk.hello()
        if attributes:
            assert (await talk.say(f"XFORWARD {attributes}")).startswith("250")
        await talk.say("MAIL FROM:<a@b>")

        assert (await talk.say(f"RCPT TO:<{SPAM}>")).startswith(reply)


@pytest.mark.parametrize("moment", ["RCPT", "DATA"])
async def test_a_right_to_teach_that_a_reload_takes_away_ends_at_once(smtp: RunningSmtp, moment: str) -> None:
    talk = await smtp.talk()
    await talk.hello()
    await talk.say("MAIL FROM:<a@b>")
    if moment == "DATA":
        await talk.say(f"RCPT TO:<{SPAM}>")
        assert (await talk.say("DATA")).startswith("354")

    smtp.listener.apply(teaching(smtp, Teachers()))

    answer = await (talk.say(f"RCPT TO:<{SPAM}>") if moment == "RCPT" else talk.say(PRIZE + b"."))
    assert answer == "550 5.7.1 Feedback is not accepted from here"
    assert (await smtp.model.totals()).messages == (0, 0)


def teaching(smtp: RunningSmtp, teachers: Teachers) -> Runtime:
    """The runtime of the listener, but for who may teach."""
    return replace(make_runtime(smtp.spam_filter), teachers={"smtp": teachers})


async def test_a_peer_that_is_no_trusted_proxy_may_name_nobody(client: Redis, tmp_path: Path) -> None:
    elsewhere = (ipaddress.ip_network("192.0.2.0/24"),)
    async with open_smtp_listener(client, tmp_path / "Maildir", trusted_proxies=elsewhere) as smtp:
        talk = await smtp.talk()
        assert "XFORWARD" not in await talk.hello()
        assert (await talk.say("XFORWARD ADDR=192.0.2.7")).startswith("550")


async def test_a_person_who_says_it_again_is_believed_and_a_retry_is_not(smtp: RunningSmtp) -> None:
    await teach_dispute(smtp.spam_filter, actor="192.0.2.1")
    messages, disagreements = (await smtp.model.totals()).messages, disagreement(smtp)

    reinforced, retry = [await smtp.send(DISPUTED.raw, HAM) for _ in range(2)]

    assert reinforced.startswith("250 2.0.0 reinforced ham: P 0.")
    assert ", was unsure, now ham; " in reinforced
    assert retry.startswith("250 2.0.0 already learned as ham, nothing changed: P 0.")
    assert (await smtp.model.totals()).messages == messages
    for outcome in ("reinforced", "already"):
        assert smtp.metric("nbstream_feedback_total", source="smtp", label="ham", outcome=outcome) == 1
    assert disagreement(smtp) == disagreements + 1


def disagreement(smtp: RunningSmtp) -> float:
    return smtp.metric("nbstream_feedback_disagreement_total", verdict="unsure", label="ham")


async def test_a_kind_has_an_address_of_its_own(client: Redis, tmp_path: Path) -> None:
    async with open_smtp_listener(client, tmp_path / "Maildir") as smtp:
        addresses = FeedbackAddresses({"spam": SPAM, "ham": HAM, "newsletter": "Newsletter@learn.invalid"})
        policy = smtp.spam_filter.policy._replace(kinds=("ham", "newsletter"))
        runtime = make_runtime(smtp.spam_filter.with_policy(policy), feedback_addresses=addresses)
        smtp.listener.apply(runtime)

        reply = await smtp.send(wrap_as_forward(LUNCH), "newsletter@learn.invalid")
        again = await smtp.send(wrap_as_forward(LUNCH), HAM)
        assert (await smtp.send(b" ", "newsletter@learn.invalid")).startswith("5")
        assert smtp.metric("nbstream_feedback_total", source="smtp", label="ham", outcome="refused") == 1

    assert reply.startswith("250 2.0.0 learned as newsletter: ")
    assert again.startswith("250 2.0.0 relearned as ham, was learned as newsletter: ")
