"""The milter listener on messages: what is changed in them, and what becomes of them."""

from __future__ import annotations

import asyncio
import logging
import re
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.listeners.milter import codec
from nbstream.listeners.milter.answers import MAX_DELETED_FIELDS
from nbstream.listeners.milter.message import MAX_ADDRESS_CHARACTERS, MAX_FIELDS, MAX_RECIPIENTS, MilterContent
from nbstream.mail.message import Message
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.header import HeaderPolicy, MessageReader, parse_own_id
from nbstream.policy.recipient_rules import RecipientRule, RecipientRules
from nbstream.policy.settings import OWN_FIELD, ActionsSettings, HeadersSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.policy.verdict import Action
from nbstream.server.connections import Teachers
from tests.harness import milter_frames as wire
from tests.harness.milter_frames import Reply
from tests.harness.milter_listener import HAM, SPAM, RunningMilter, edited, open_milter
from tests.harness.runtimes import HAM_ADDRESS, LOOPBACK, SPAM_ADDRESS

UNSURE, LOW = 0.51, 0.52  # a model of one message of each class is sure of little
STRANGER = "192.0.2.7"
RECEIVED = b"Received: from a.example by b.example\r\n"


def verdict_of(answer: list[Reply]) -> str:
    """The verdict in our own field, of which there is one."""
    (value,) = [reply.words[1] for reply in answer if reply.words[0] == OWN_FIELD.encode()]
    return value.decode().partition(";")[0].strip()


def commands(answer: list[Reply]) -> bytes:
    return b"".join(reply.command for reply in answer)


def actions(**chosen: str) -> ActionsSettings:
    return ActionsSettings(**{verdict: Action.parse(text) for verdict, text in chosen.items()})


def spam_action(action: str, *rules: RecipientRule) -> dict[str, Any]:
    """Options by which spam is called spam, and gets this action."""
    policy = ThresholdPolicy(UNSURE, LOW)
    return {"policy": policy, "runtime": {"rules": RecipientRules.build(policy, actions(spam=action), rules)}}


@pytest.fixture
async def milter(client: Redis) -> AsyncIterator[RunningMilter]:
    async with open_milter(client) as running:
        yield running


# What is asked for


async def test_only_what_is_needed_is_asked_for(milter: RunningMilter) -> None:
    reply = await (await milter.connect()).negotiate()

    version, actions_, steps = struct.unpack("!III", reply.data[:12])
    assert version == 6
    assert actions_ == 0x1 | 0x4 | 0x8 | 0x10 | 0x20 | 0x100
    not_sent = 0x2 | 0x40 | 0x100 | 0x200  # HELO, the end of the header, unknown commands, DATA
    no_reply = 0x80 | 0x1000 | 0x4000 | 0x8000  # header fields, client, MAIL, RCPT
    assert steps == not_sent | no_reply | 0x400 | 0x100000
    assert reply.data[12:].split(b"\0\0\0")[0] == b""
    for macro in (b"{client_addr}", b"{auth_authen}", b"{rcpt_addr}", b"i"):
        assert macro + b"\0" in reply.data[12:]


# The header


async def test_fields_go_below_the_received_field_of_the_mail_server(milter: RunningMilter) -> None:
    await milter.teach()
    server = await milter.server()

    delivered = edited(HAM, await server.deliver(HAM))

    names = [line.partition(b":")[0] for line in delivered.split(b"\r\n") if line[:1] not in b"\t "]
    assert names[:3] == [b"Received", b"X-Spam-Status", b"X-Spam-Level"]
    assert names[3] == b"X-Nbstream"
    assert delivered.endswith(HAM)


async def test_a_delivered_message_is_taught_as_it_was_checked(milter: RunningMilter) -> None:
    await milter.teach()
    message = b"Received: from other.example\r\n" + SPAM

    answer = await (await milter.server()).deliver(message)

    taught = MessageReader().read_taught(edited(message, answer))
    assert taught.raw == message
    (own,) = [reply.words[1].decode() for reply in answer if reply.words[0] == OWN_FIELD.encode()]
    assert parse_own_id(own) == taught.key


async def test_forged_fields_are_deleted_by_index_and_nothing_else_changes(milter: RunningMilter) -> None:
    forged = (
        b"x-spam-flag: NO\r\nFrom: a@b.example\r\nX-SPAM-Flag: NO\r\n\tfolded\r\n"
        b"X-Nbstream: ham; id=x\r\nX-Spam-Flags: stay\r\nX-Spam-Flag:\r\nSubject: x\r\n\r\nX-Spam-Flag: body\r\n"
    )

    answer = await (await milter.server()).deliver(forged)

    deleted = [(reply.words[0], reply.index) for reply in answer if reply.command == b"m"]
    assert deleted == [(b"X-Spam-Flag", 3), (b"X-Spam-Flag", 2), (b"X-Spam-Flag", 1), (b"X-Nbstream", 1)]
    only_deleted = edited(forged, [reply for reply in answer if reply.command == b"m"])
    assert only_deleted.endswith(
        b"\r\nFrom: a@b.example\r\nX-Spam-Flags: stay\r\nSubject: x\r\n\r\nX-Spam-Flag: body\r\n"
    )


@pytest.mark.parametrize(
    ("subject", "tagged"),
    [
        (b"Subject: You have won\r\n", b"Subject: [SPAM] You have won\r\n"),
        (b"Subject:\r\n You have won\r\n", b"Subject: [SPAM]\r\n You have won\r\n"),
        (b"Subject: [SPAM] You have won\r\n", b"Subject: [SPAM] You have won\r\n"),
        (b"Subject: w\xf6n\r\nSubject: two\r\n", b"Subject: [SPAM] w\xf6n\r\nSubject: two\r\n"),
        (b"SUBJECT: won\r\n", b"SUBJECT: [SPAM] won\r\n"),
    ],
)
async def test_the_subject_of_spam_is_changed_and_the_message_stays_the_same(
    client: Redis, subject: bytes, tagged: bytes
) -> None:
    options = spam_action("pass")
    options["runtime"]["header_policy"] = HeaderPolicy("test", HeadersSettings(fields=(), subject_tag="[SPAM]"))
    message = RECEIVED + SPAM.replace(b"Subject: You have won\r\n", subject)
    async with open_milter(client, **options) as milter:
        await milter.teach()

        delivered = edited(message, await (await milter.server()).deliver(message))

        assert delivered.endswith(message.replace(subject, tagged))
        reader = milter.runtime.message_reader
        assert reader.read_taught(delivered).raw == reader.read_incoming(message).raw


@pytest.mark.parametrize("action", ["reject", "quarantine", "redirect:abuse@example.org"])
async def test_in_a_trial_one_field_is_inserted_and_nothing_else_happens(client: Redis, action: str) -> None:
    options = spam_action(action)
    options["runtime"]["header_policy"] = HeaderPolicy(
        "test", HeadersSettings(subject_tag="[SPAM]", mode="observe")
    )
    message = b"X-Spam-Flag: NO\r\n" + SPAM
    async with open_milter(client, **options) as milter:
        await milter.teach()

        answer = await (await milter.server()).deliver(message)

        assert (commands(answer), verdict_of(answer)) == (b"ic", "spam")
        assert edited(message, answer).endswith(message)
        assert milter.metric("nbstream_observed_actions_total", action=action.partition(":")[0]) == 1


async def test_a_message_with_too_many_forged_fields_is_refused(milter: RunningMilter) -> None:
    server = await milter.server()
    forged = b"X-Spam-Flag: NO\r\n"

    assert (
        commands(await server.deliver(forged * MAX_DELETED_FIELDS + HAM))[:MAX_DELETED_FIELDS].strip(b"m") == b""
    )
    (reply,) = await server.deliver(forged * (MAX_DELETED_FIELDS + 1) + HAM)
    assert reply.words == [b"554 5.6.0 Message has too many header fields that filters write"]


@pytest.mark.parametrize(
    "message",
    [
        b"Subject: x\r\n\r\n",
        b"Subject: x",
        b"\r\nno header",
        b"Subject:x\r\n\ty\r\n\r\n\r\n\r\nlast\r",
        SPAM * 5000,
    ],
    ids=["no-body", "no-end", "no-header", "odd", "large"],
)
async def test_the_message_is_put_together_again(milter: RunningMilter, message: bytes) -> None:
    server = await milter.server()
    await server.begin()
    frames = wire.content(message) if message[:2] != b"\r\n" else [wire.frame(b"B", message[2:])]
    for frame in frames:
        server.send(frame)
        if frame[4:5] == b"B":
            assert (await server.reply()).command == b"c"
    server.send(wire.END)
    answer = await server.answer()

    (own,) = [reply.words[1].decode() for reply in answer if reply.words[0] == OWN_FIELD.encode()]
    assert parse_own_id(own) == Message.parse(message).key


# What becomes of a message


@pytest.mark.parametrize(
    ("action", "reply"),
    [
        ("reject", b"550 5.7.1 Message refused as spam, id=ID"),
        ("defer", b"451 4.7.1 Message deferred, please try again later"),
    ],
)
async def test_a_refusal_is_ours(client: Redis, action: str, reply: bytes) -> None:
    async with open_milter(client, **spam_action(action)) as milter:
        await milter.teach()
        server = await milter.server()

        (answer,) = await server.deliver(SPAM)
        assert answer.command == b"y"
        assert re.sub(rb"id=[0-9a-z]+", b"id=ID", answer.data) == reply + b"\0"
        assert verdict_of(await server.deliver(HAM)) == "ham"
        assert milter.metric("nbstream_actions_total", action=action) == 1


async def test_quarantine_is_a_hold_of_the_mail_server(client: Redis) -> None:
    async with open_milter(client, **spam_action("quarantine")) as milter:
        await milter.teach()

        answer = await (await milter.server()).deliver(SPAM)

        assert commands(answer).endswith(b"iqc")
        assert answer[-2].words[0].startswith(b"nbstream: spam, id=")
        assert verdict_of(answer) == "spam"


@pytest.mark.parametrize("given", ["abuse@example.org", "Abuse@Example.ORG"])
async def test_a_recipient_to_whom_the_message_is_redirected_stays(client: Redis, given: str) -> None:
    async with open_milter(client, **spam_action("redirect:abuse@example.org")) as milter:
        await milter.teach()
        server = await milter.server()

        alone, with_another = await server.deliver(SPAM, given), await server.deliver(SPAM, "a@b.c", given)

        assert [reply for reply in alone if reply.command in b"+-"] == []
        assert [reply.data for reply in with_another if reply.command in b"+-"] == [b"<a@b.c>\0"]
        assert commands(with_another).endswith(b"i-c")


@pytest.mark.parametrize("action", ["quarantine", "redirect:abuse@example.org"])
async def test_in_place_of_an_action_that_the_mail_server_does_not_offer_the_message_passes_like_others(
    client: Redis, action: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = spam_action(action)
    options["runtime"]["header_policy"] = HeaderPolicy("test", HeadersSettings(subject_tag="[SPAM]"))
    async with open_milter(client, **options) as milter:
        await milter.teach()

        answer = await (await milter.server(6, 0x1 | 0x10)).deliver(SPAM)

        assert b"Subject: [SPAM] You have won\r\n" in (delivered := edited(SPAM, answer))
        assert b"X-Nbstream-Recipient" not in delivered
        assert commands(answer).strip(b"im") == b"c"
        assert verdict_of(answer) == "spam"
        assert milter.metric("nbstream_actions_total", action="pass") == 1
    kind = action.partition(":")[0]
    assert f"the action {kind} is not possible here: a message was passed" in caplog.messages


async def test_the_mildest_decision_holds_for_all_recipients(client: Redis) -> None:
    lenient = RecipientRule.at_position(
        0, AddressPattern("*@lenient.example"), ThresholdPolicy(UNSURE, LOW), actions(spam="pass")
    )
    async with open_milter(client, **spam_action("reject", lenient)) as milter:
        await milter.teach()
        server = await milter.server()

        assert commands(await server.deliver(SPAM, "a@strict.example")) == b"y"
        assert commands(await server.deliver(SPAM, "a@strict.example", "b@lenient.example")).strip(b"i") == b"c"


@contextmanager
def counted_by_turn(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> Iterator[Counter[int]]:
    """How many calls of a function there are in each turn of the event loop."""
    turn, calls, function = 0, Counter[int](), getattr(place, name)

    def counted(*arguments: Any) -> Any:
        calls[turn] += 1
        return function(*arguments)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    with monkeypatch.context() as patch:
        patch.setattr(place, name, counted)
        counting = asyncio.create_task(count_turns())
        yield calls
        counting.cancel()


async def test_other_work_goes_on_while_many_recipients_are_looked_up(
    milter: RunningMilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await milter.server()
    with counted_by_turn(monkeypatch, RecipientRules, "rule_of") as lookups:
        answer = await server.deliver(HAM, *(f"user{number}@example.org" for number in range(3000)))

    assert answer[-1] == Reply(b"c")
    assert lookups.total() == 3000
    assert max(lookups.values()) < 600


async def test_other_work_goes_on_while_many_commands_are_parsed(
    milter: RunningMilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await milter.server()
    with counted_by_turn(monkeypatch, codec, "_parse_frame") as parsed:
        server.send(wire.ABORT * 20_000)
        answer = await server.deliver(HAM)

    assert answer[-1] == Reply(b"c")
    assert parsed.total() > 20_000
    assert max(parsed.values()) < 600


async def test_a_message_for_too_many_recipients_is_refused_for_good(milter: RunningMilter) -> None:
    server = await milter.server()

    assert (await server.deliver(HAM, *["ann@example.org"] * MAX_RECIPIENTS))[-1] == Reply(b"c")
    (reply,) = await server.deliver(HAM, *["ann@example.org"] * (MAX_RECIPIENTS + 1))
    assert reply.words == [b"554 5.5.3 Message has too many recipients"]
    assert milter.listener.service.bytes_in_flight.reserved == 0


async def test_the_macro_completes_the_address_of_a_recipient(client: Redis) -> None:
    lenient = RecipientRule.at_position(
        0, AddressPattern("ann@lenient.example"), ThresholdPolicy(UNSURE, LOW), actions(spam="pass")
    )
    async with open_milter(client, **spam_action("reject", lenient)) as milter:
        await milter.teach()
        server = await milter.server()
        for macro, given, command in (
            ("ann@lenient.example", "<ann>", b"c"),  # Postfix
            ("ann", "<ann@lenient.example>", b"c"),  # Sendmail
            ("", "ann@lenient.example", b"c"),
            ("ann", "<ann>", b"y"),
        ):
            server.send(wire.mail(), wire.macros(b"R", {"{rcpt_addr}": macro}), wire.rcpt(given))
            assert commands(await server.finish(SPAM))[-1:] == command


@pytest.mark.parametrize(("passes", "command"), [(True, b"mc"), (False, b"y")])
async def test_a_check_that_fails_passes_or_defers(client: Redis, passes: bool, command: bytes) -> None:
    async with open_milter(client, follow=False, runtime={"passes_on_failure": passes}) as milter:
        answer = await (await milter.server()).deliver(b"X-Spam-Flag: NO\r\n" + SPAM)

        assert commands(answer) == command
        assert milter.metric("nbstream_messages_total", listener="milter", verdict="none") == 1
        if not passes:
            assert answer[0].words == [b"451 4.3.0 Temporary failure, please try again later"]


async def test_the_log_names_the_message_as_the_mail_server_does(
    milter: RunningMilter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = await milter.server()

    await server.deliver(HAM, client="IPv6:2001:db8::7", user="ann\n")
    await server.deliver(HAM)

    first, second = (vars(record)["fields"] for record in caplog.records if record.message == "message")
    assert {name: first[name] for name in ("listener", "verdict", "action", "reply")} == {
        **{"listener": "milter", "verdict": "unsure", "action": "pass", "reply": None},
    }
    assert {name: first[name] for name in ("queue_id", "client", "user")} == {
        **{"queue_id": "4ABC", "client": "2001:db8::7", "user": "ann?"},
    }
    assert (second["client"], second["user"]) == ("127.0.0.1", None)


# Feedback


@pytest.mark.parametrize(
    ("client_address", "user", "check_forwarded", "taken"),
    [
        ("127.0.0.1", "", False, True),
        (STRANGER, "", False, False),
        (STRANGER, "ann", False, True),
        (STRANGER, "ann", True, False),
        ("127.0.0.1", "ann", True, True),
    ],
)
async def test_users_and_known_clients_may_teach(
    client: Redis, client_address: str, user: str, check_forwarded: bool, taken: bool
) -> None:
    teachers = {"milter": Teachers(LOOPBACK, check_forwarded)}
    async with open_milter(client, runtime={"teachers": teachers}) as milter:
        server = await milter.server()

        answer = await server.deliver(SPAM, SPAM_ADDRESS, client=client_address, user=user)

        refusal = Reply(b"y", b"550 5.7.1 Feedback is not accepted from here\0")
        assert answer == [Reply(b"d") if taken else refusal]
        assert milter.learned["spam"] == taken


async def test_no_bounce_and_no_automatic_answer_teaches(milter: RunningMilter) -> None:
    server = await milter.server()

    (without,) = await server.deliver(SPAM, SPAM_ADDRESS, sender="<>")
    (forged,) = await server.deliver(HAM, "ann@example.org", sender=f"<{HAM_ADDRESS}>")

    assert without.words == [b"550 5.7.1 Feedback needs a sender"]
    assert forged.words == [b"550 5.7.1 Feedback addresses send no mail"]
    assert commands(await server.deliver(HAM, "ann@example.org", sender="<>")).endswith(b"c")
    assert milter.learned == {"ham": 0, "spam": 0}


async def test_feedback_that_is_not_durable_stays_with_its_sender(client: Redis) -> None:
    async with open_milter(client) as milter:
        await milter.teach()
        server = await milter.server()
        await client.config_set("maxmemory", 1)
        try:
            (reply,) = await server.deliver(SPAM + b"more\r\n", SPAM_ADDRESS)
        finally:
            await client.config_set("maxmemory", 0)

        assert reply.command == b"y"
        assert reply.data.startswith(b"451 4.3.0 Learning is not possible")
        assert milter.learned["spam"] == 1


# Limits of a message


async def test_a_message_beyond_the_limit_is_judged_by_its_beginning(client: Redis) -> None:
    async with open_milter(client, max_message_bytes=1000) as milter:
        server = await milter.server()
        await server.begin()
        server.send(wire.header(b"Subject", b" x"))

        assert (await server.ask(wire.frame(b"B", b"b" * 500))).command == b"c"
        assert (await server.ask(wire.frame(b"B", b"c" * 65535))).command == b"s"
        assert milter.listener.service.bytes_in_flight.reserved < 2000
        server.send(wire.END)
        assert verdict_of(await server.answer()) == "unsure"

        old = await milter.server(*wire.SENDMAIL_8_12)
        for frame in (wire.connect(), wire.mail(), wire.rcpt(), wire.header(b"Subject", b"x")):
            assert await old.ask(frame) == Reply(b"c")
        assert [(await old.ask(wire.frame(b"B", b"c" * 900))).command for _ in range(3)] == [b"c"] * 3


async def test_a_header_beyond_the_limit_is_refused(client: Redis) -> None:
    async with open_milter(client, max_message_bytes=1000) as milter:
        server = await milter.server()

        (reply,) = await server.deliver(b"X: x\r\n" * 500 + HAM)

        assert reply.words == [b"552 5.3.4 Message is larger than is accepted here"]
        assert milter.listener.service.bytes_in_flight.reserved == 0
        assert verdict_of(await server.deliver(HAM)) == "unsure"


@pytest.mark.parametrize(("name", "count"), [(b"A" * 500, (1 << 20) // 502 + 1), (b"A", MAX_FIELDS + 1)])
async def test_a_header_of_too_many_fields_is_refused(milter: RunningMilter, name: bytes, count: int) -> None:
    server = await milter.server()
    await server.begin()
    server.send(wire.header(name, b"") * count)

    reply = await server.ask(wire.END)

    assert reply.words == [b"554 5.6.0 Message has too many header fields"]
    assert verdict_of(await server.deliver(b"A: x\r\n" * (MAX_FIELDS - 2) + HAM)) == "unsure"
    server.close()
    await milter.wait_until_idle()


async def test_the_fields_of_a_refused_message_are_not_even_read(
    milter: RunningMilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Postfix a message of 10 MB may have three million of them."""
    names: list[bytes] = []
    add_field = MilterContent.add_field

    def noted(message: MilterContent, name: bytes, value: bytes) -> None:
        names.append(name)
        add_field(message, name, value)

    monkeypatch.setattr(MilterContent, "add_field", noted)
    server = await milter.server()
    await server.begin()
    server.send(wire.header(b"A", b"") * 20 * MAX_FIELDS)

    reply = await server.ask(wire.END)

    assert reply.words == [b"554 5.6.0 Message has too many header fields"]
    assert MAX_FIELDS < len(names) < 2 * MAX_FIELDS
    assert verdict_of(await server.deliver(HAM)) == "unsure"


@pytest.mark.parametrize("place", ["sender", "recipient"])
async def test_an_address_that_is_longer_than_smtp_permits_is_refused(milter: RunningMilter, place: str) -> None:
    server = await milter.server()
    domain = "@example.org"
    longest = "l" * (MAX_ADDRESS_CHARACTERS - len(f"<{domain}>")) + domain

    async def deliver(address: str) -> list[Reply]:
        if place == "sender":
            return await server.deliver(HAM, sender=f"<{address}>")
        return await server.deliver(HAM, "ann@example.org", address)

    assert (await deliver(longest))[-1] == Reply(b"c")
    for more in (3, 1_000_000):
        (reply,) = await deliver("l" * more + longest)
        assert reply.words == [b"553 5.1.0 Address is too long"]
    assert milter.listener.service.bytes_in_flight.reserved == 0


async def test_mail_beyond_the_bytes_in_flight_is_deferred(client: Redis) -> None:
    async with open_milter(client, max_message_bytes=1 << 20, max_bytes_in_flight=2 << 20) as milter:
        first, second = await milter.server(), await milter.server()
        for server in (first, second):
            await server.begin()
            server.send(wire.header(b"Subject", b" x"))
        for _ in range(12):
            assert (await first.ask(wire.frame(b"B", b"b" * 65535))).command == b"c"

        replies = [await second.ask(wire.frame(b"B", b"b" * 65535)) for _ in range(5)]

        assert replies[-1].words == [b"452 4.3.1 Too much mail is in flight, please try again later"]
        first.send(wire.END)
        assert (await first.answer())[-1].command == b"c"
        second.send(wire.ABORT)
        assert verdict_of(await second.deliver(HAM)) == "unsure"
