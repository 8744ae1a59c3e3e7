"""The SMTP smtp: what goes in comes out, with the verdict on top and nothing else changed."""

from __future__ import annotations

import asyncio
import logging
import math
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from nbstream.delivery.smtp_next_hop import SmtpNextHop
from nbstream.listeners.smtp.connection import SmtpConnection
from nbstream.listeners.smtp.session import SmtpSession
from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from tests.harness.scripted import relay_at
from tests.harness.scripted_server import ScriptedServer
from tests.harness.smtp_listener import RunningSmtp, open_smtp_listener
from tests.harness.waiting import DEADLINE_SECONDS, until

MESSAGE = b"From: a@example.org\r\nSubject: hello\r\n\r\nHow are you?\r\n"


def names(delivered: bytes) -> list[str]:
    raw = normalize_line_ends(delivered)
    return [field.name for field in header_fields.parse_fields(raw, header_fields.body_offset(raw))]


async def test_a_message_is_delivered_with_the_verdict_and_the_reply_is_that_of_the_next_hop_alone(
    smtp: RunningSmtp,
) -> None:
    assert await smtp.send(MESSAGE) == "250 2.0.0 Delivered to the Maildir"

    (delivered,) = smtp.delivered()
    assert names(delivered) == [
        *["return-path", "x-envelope-to", "x-spam-status", "x-spam-level", "x-nbstream", "from", "subject"]
    ]
    assert b'X-Nbstream: unsure; probability=0.500000; reason="learning 0/2";\n\tmodel=test; id=' in delivered
    assert delivered.endswith(b"From: a@example.org\nSubject: hello\n\nHow are you?\n")
    assert smtp.metric("nbstream_messages_total", listener="smtp", verdict="unsure") == 1
    assert smtp.metric("nbstream_relay_replies_total", code="250") == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\r\n",
        b".\r\n..\r\n.x\r\n",
        b"Subject: x\r\n\r\n" + b"y" * 200_000 + b"\r\n",
        b"Subject: nul\r\n\r\n\x00\x01\xff\xfe\r\n",
        b"no header at all",
        "Subject: grüße\r\n\r\nöäü\r\n".encode("latin-1"),
        b"Subject: smuggle\r\n\r\none\n.\nMAIL FROM:<x@y>\r\n.\n.\r\r\nend\r\n",
    ],
)
async def test_every_content_passes_and_only_crlf_dot_crlf_ends_it(smtp: RunningSmtp, content: bytes) -> None:
    dialogue = await smtp.talk()
    await dialogue.begin()
    stuffed = (b"\r\n" + content).replace(b"\r\n.", b"\r\n..")[2:]
    end = b".\r\n" if not content or content.endswith(b"\r\n") else b"\r\n.\r\n"

    dialogue.writer.write(stuffed + end)

    assert (await dialogue.reply()).startswith("250 ")
    (delivered,) = smtp.delivered()
    expected = normalize_line_ends(content).replace(b"\r\n", b"\n")
    assert delivered.rstrip(b"\n").endswith(expected.rstrip(b"\n"))


async def test_commands_and_a_message_sent_in_one_go_are_taken(smtp: RunningSmtp) -> None:
    dialogue = await smtp.talk()
    dialogue.writer.write(
        b"EHLO c\r\nMAIL FROM:<> BODY=8BITMIME\r\nRCPT TO:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n"
        + MESSAGE
        + b".\r\nQUIT\r\n"
    )

    replies = (await dialogue.ended()).decode()

    assert [line[:3] for line in replies.splitlines() if line[3] == " "] == [
        *["220", "250"],
        *["250"] * 3,
        "354",
        "250",
        "221",
    ]
    assert smtp.delivered()[0].startswith(b"Return-Path: <>\nX-Envelope-To: a@b\nX-Envelope-To: c@d\n")


async def test_a_declared_or_real_size_over_the_limit_is_552_and_the_limit_itself_passes(
    client: Redis, tmp_path: Path
) -> None:
    async with open_smtp_listener(client, tmp_path / "m", max_message_bytes=1000) as smtp:
        dialogue = await smtp.talk()
        assert "250-SIZE 1000" in await dialogue.hello()
        assert (await dialogue.say("MAIL FROM:<a@b> SIZE=1001")).startswith("552 5.3.4")
        await dialogue.say("MAIL FROM:<a@b> SIZE=1000")
        await dialogue.say("RCPT TO:<a@b>")
        await dialogue.say("DATA")
        dialogue.writer.write(b"x" * 999 + b"\r\n.\r\n")
        assert (await dialogue.reply()).startswith("552 5.3.4")

        assert (await smtp.send(b"x" * 998 + b"\r\n")).startswith("250 ")
        assert len(smtp.delivered()) == 1


async def test_the_log_names_a_message_and_its_client_as_the_proxy_does(
    smtp: RunningSmtp, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    talk = await smtp.talk()
    await talk.hello()
    for said in ("XFORWARD IDENT=4Q+3DX ADDR=192.0.2.7", "XFORWARD IDENT=[UNAVAILABLE]", ""):
        for line in filter(None, (said, "MAIL FROM:<a@b>", "RCPT TO:<c@d>", "DATA")):
            assert (await talk.say(line))[0] in "23"
        assert (await talk.content(MESSAGE)).startswith("250 ")

    fields = [vars(record)["fields"] for record in caplog.records if record.message == "message"]
    assert [(each.get("queue_id"), each.get("client")) for each in fields] == [
        ("4Q=X", "192.0.2.7"),
        (None, None),
        (None, None),
    ]


async def test_a_message_that_loops_is_refused(smtp: RunningSmtp) -> None:
    assert (await smtp.send(b"Received: x\r\n" * 50 + MESSAGE)).startswith("250 ")
    assert (await smtp.send(b"Received: x\r\n" * 51 + MESSAGE)).startswith("554 5.4.6")
    large = (b"Received: " + b"x" * 900 + b"\r\n" + b"X: y\r\n" * 1000) * 51  # looked through in pieces
    assert (await smtp.send(large + MESSAGE)).startswith("554 5.4.6")
    assert len(smtp.delivered()) == 1


async def test_memory_for_mail_is_shared_and_given_back(client: Redis, tmp_path: Path) -> None:
    async with open_smtp_listener(
        client, tmp_path / "m", max_message_bytes=200_000, max_bytes_in_flight=200_000
    ) as smtp:
        holding, waiting = await smtp.talk(), await smtp.talk()
        await holding.begin()
        holding.writer.write(b"x" * 150_000)
        await until(lambda: smtp.listener.service.bytes_in_flight.reserved > 60_000)
        await waiting.begin()

        waiting.writer.write(b"y" * 190_000 + b"\r\n.\r\n")

        assert (await waiting.reply()).startswith("452 4.3.1")
        holding.writer.write(b"\r\n.\r\n")
        assert (await holding.reply()).startswith("250 ")
        assert (await smtp.send(b"y" * 190_000)).startswith("250 ")
        assert smtp.listener.service.bytes_in_flight.reserved == 0


@pytest.mark.parametrize("data", [b"x", b"NOOP\r\n"], ids=["message", "commands"])
async def test_a_client_that_is_never_silent_and_sends_no_whole_message_is_disconnected(
    client: Redis, tmp_path: Path, data: bytes
) -> None:
    async with open_smtp_listener(client, tmp_path / "m", message_timeout_seconds=1) as smtp:
        dialogue = await smtp.talk()
        if data == b"x":
            await dialogue.begin()

        end = asyncio.create_task(dialogue.ended())
        with suppress(OSError, RuntimeError):  # uvloop raises this one once the connection is closed
            while not end.done():
                dialogue.writer.write(data)
                await asyncio.sleep(0)  # lets the listener run

        await asyncio.wait([end])
        end.exception()  # it may have been reset
        await until(lambda: not smtp.listener.connections)
        assert smtp.listener.service.bytes_in_flight.reserved == 0


async def test_after_a_message_a_client_has_the_whole_time_for_the_next_one(client: Redis, tmp_path: Path) -> None:
    async with open_smtp_listener(client, tmp_path / "m") as smtp:
        dialogue = await smtp.talk()
        await dialogue.hello()
        (session,) = smtp.listener.connections
        assert isinstance(session, SmtpSession)
        before = session.last_deadline
        for line in ("NOOP", "RSET", "MAIL FROM:<from@example.org>", "RCPT TO:<to@example.org>", "DATA"):
            await dialogue.say(line)
            assert session.last_deadline == before

        assert (await dialogue.say(MESSAGE + b".")).startswith("250 ")

        assert before < session.last_deadline < math.inf


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("RCPT TO:<a@b>", "503"),
        ("DATA", "503"),
        ("MAIL FROM:<a", "501"),
        ("MAIL", "501"),
        ("VRFY x", "252"),
        ("NOOP", "250"),
        ("RSET", "250"),
        ("BDAT 3", "500"),
        ("AUTH PLAIN AGEAYg==", "502"),
        ("STARTTLS", "502"),
        (b"\xff\xfe", "500"),
        ("X" * 5000, "500"),
        ("NOOP " + "x" * 100_000, "500"),
    ],
)
async def test_commands_out_of_order_are_refused_and_the_session_goes_on(
    smtp: RunningSmtp, line: str, code: str
) -> None:
    dialogue = await smtp.talk()
    await dialogue.hello()

    assert (await dialogue.say(line)).startswith(code)
    assert (await dialogue.say("MAIL FROM:<a@b>")).startswith("250")


async def test_the_recipients_of_one_transaction_are_bounded(client: Redis, tmp_path: Path) -> None:
    async with open_smtp_listener(client, tmp_path / "m", max_recipients=2) as smtp:
        dialogue = await smtp.talk()
        await dialogue.hello()
        await dialogue.say("MAIL FROM:<a@b>")

        replies = [await dialogue.say(f"RCPT TO:<{number}@b>") for number in range(3)]

        assert [reply[:9] for reply in replies] == ["250 2.1.5", "250 2.1.5", "452 4.5.3"]


# Behind it: a next hop with answers of its own


@asynccontextmanager
async def open_smtp_listener_before(transcript: str, client: Redis, maildir: Path) -> AsyncIterator[RunningSmtp]:
    """A door whose next hop plays the transcript, after the question for its features; it must play to the end."""
    server = ScriptedServer(["C: NOOP\nS: 250 ok\n" + textwrap.dedent(transcript).strip()])
    await server.start()
    try:
        next_hop = SmtpNextHop(relay_at(server.port))
        async with open_smtp_listener(client, maildir, next_hop) as smtp:
            yield smtp
            await server.played()
    finally:
        await server.stop()


@asynccontextmanager
async def open_smtp_listener_before_lmtp(
    transcript: str, client: Redis, maildir: Path
) -> AsyncIterator[RunningSmtp]:
    """The same with a next hop that speaks LMTP."""
    server = ScriptedServer(["C: NOOP\nS: 250 ok\n" + textwrap.dedent(transcript).strip()], lmtp=True)
    await server.start()
    try:
        next_hop = SmtpNextHop(relay_at(server.port, lmtp=True))
        async with open_smtp_listener(client, maildir, next_hop) as smtp:
            yield smtp
            await server.played()
    finally:
        await server.stop()


async def test_before_lmtp_each_recipient_has_a_transaction_of_its_own(client: Redis, tmp_path: Path) -> None:
    transcript = """
        C: MAIL FROM:<a@b>
        S: 250 2.1.0 Ok
        C: RCPT TO:<unknown@b>
        S: 550 5.1.1 Unknown
        C: RCPT TO:<one@b>
        S: 250 2.1.5 Ok
        C: DATA
        S: 354 go
        C: some
        S: 250 2.0.0 saved
    """
    async with open_smtp_listener_before_lmtp(transcript, client, tmp_path) as smtp:
        dialogue = await smtp.talk()
        await dialogue.hello()
        await dialogue.say("MAIL FROM:<a@b>")
        replies = [await dialogue.say(f"RCPT TO:<{name}@b>") for name in ("unknown", "one", "two", "three")]
        await dialogue.say("DATA")
        dialogue.writer.write(MESSAGE + b".\r\n")

        assert [reply[:9] for reply in replies] == ["550 5.1.1", "250 2.1.5", "452 4.5.3", "452 4.5.3"]
        assert (await dialogue.reply()).startswith("250 2.0.0 saved")


async def test_answers_of_the_next_hop_pass_through_and_parameters_go_on_verbatim(
    client: Redis, tmp_path: Path
) -> None:
    transcript = """
        C: MAIL FROM:<a@b> BODY=8BITMIME ENVID=QQ+2Bx X-odd
        S: 250 2.1.0 sender fine
        C: RCPT TO:<yes@b> ORCPT=rfc822;Yes@B
        S: 250 2.1.5 yes
        C: RCPT TO:<no@b>
        S: 550 5.1.1 no such user
        C: RCPT TO:<later@b>
        S: 450 4.2.1 later
        C: DATA
        S: 354 go
        C: some
        S: 250 2.0.0 queued as 42
    """
    async with open_smtp_listener_before(transcript, client, tmp_path) as smtp:
        dialogue = await smtp.talk()
        hello = await dialogue.hello()
        replies = [
            await dialogue.say(line)
            for line in (
                "MAIL FROM:<a@b> BODY=8BITMIME ENVID=QQ+2Bx X-odd",
                "RCPT TO:<yes@b> ORCPT=rfc822;Yes@B",
                "RCPT TO:<no@b>",
                "RCPT TO:<later@b>",
                "DATA",
            )
        ]
        dialogue.writer.write(MESSAGE + b".\r\n")

        offered = sorted(hello.split("\n")[1:])
        assert offered == [
            *("250 SIZE 52428800", "250-DSN", "250-PIPELINING"),
            *("250-XFORWARD NAME ADDR PORT PROTO HELO IDENT SOURCE", "250-XVERDICT"),
        ]
        assert replies[1:] == ["250 2.1.5 yes", "550 5.1.1 no such user", "450 4.2.1 later", replies[-1]]
        assert await dialogue.reply() == "250 2.0.0 queued as 42"


async def test_a_next_hop_that_goes_away_between_recipients_is_451_to_the_end(
    client: Redis, tmp_path: Path
) -> None:
    begun = "C: MAIL FROM:<a@b>\nS: 250 ok\nC: RCPT TO:<one@b>\nS: 250 ok\nC: RCPT TO:<two@b>\nS: drop"
    server = ScriptedServer(["C: NOOP\nS: 250 ok\n" + begun, "C: MAIL FROM:<a@b>\nS: drop"])
    await server.start()
    try:
        next_hop = SmtpNextHop(relay_at(server.port))
        async with open_smtp_listener(client, tmp_path / "m", next_hop) as smtp:
            dialogue = await smtp.talk()
            await dialogue.hello()
            lines = ("MAIL FROM:<a@b>", "RCPT TO:<one@b>", "RCPT TO:<two@b>", "RCPT TO:<three@b>", "DATA")

            replies = [await dialogue.say(line) for line in lines]

            assert [reply[:3] for reply in replies] == ["250", "250", "451", "451", "451"]
            await server.played()
    finally:
        await server.stop()


async def test_a_client_that_leaves_ends_the_transaction_at_the_next_hop(client: Redis, tmp_path: Path) -> None:
    transcript = (
        "C: MAIL FROM:<from@example.org>\nS: 250 ok\nC: RCPT TO:<to@example.org>\nS: 250 ok\nC: RSET\nS: 250 ok"
    )
    async with open_smtp_listener_before(transcript, client, tmp_path) as smtp:
        dialogue = await smtp.talk()
        await dialogue.hello()
        await dialogue.say("MAIL FROM:<from@example.org>")
        await dialogue.say("RCPT TO:<to@example.org>")

        dialogue.writer.close()


@pytest.mark.parametrize("name", ["idle_timeout_seconds", "message_timeout_seconds"])
async def test_the_next_hop_may_take_longer_than_a_client_may(client: Redis, tmp_path: Path, name: str) -> None:
    message = ("MAIL FROM:<from@example.org>", "RCPT TO:<to@example.org>", "DATA")
    envelope_steps = "".join(f"C: {line}\nS: 250 ok\n" for line in message[:2])
    server = ScriptedServer(
        ["C: NOOP\nS: 250 ok\n" + envelope_steps + "C: DATA\nS: 354 go\nC: some\nS: nothing\nS: 250 queued"]
    )
    await server.start()
    try:
        next_hop = SmtpNextHop(relay_at(server.port))
        async with open_smtp_listener(client, tmp_path / "m", next_hop, **{name: 0.2}) as smtp:
            dialogue = await smtp.talk()
            await dialogue.begin()
            dialogue.writer.write(MESSAGE + b".\r\n")
            await asyncio.wait_for(server.silent.wait(), DEADLINE_SECONDS)
            since = time.monotonic()
            await until(lambda: time.monotonic() > since + 0.5)

            server.go_on.set()

            assert (await dialogue.reply()).startswith("250 queued")
            assert await dialogue.ended() == b""  # now it is the client who is silent
    finally:
        await server.stop()


# When the filter fails


async def test_without_counts_mail_passes_unmarked_and_forged_verdicts_are_still_removed(
    client: Redis, tmp_path: Path
) -> None:
    async with open_smtp_listener(client, tmp_path / "m", follow=False) as smtp:
        assert await smtp.send(b"X-Spam-Flag: NO\r\n" + MESSAGE) == "250 2.0.0 Delivered to the Maildir"

        assert names(smtp.delivered()[0]) == ["return-path", "x-envelope-to", "from", "subject"]
        assert smtp.metric("nbstream_filter_failures_total", reason="store") == 1
        assert smtp.metric("nbstream_messages_total", listener="smtp", verdict="none") == 1


# Draining


# Clients that misbehave


async def test_a_client_that_closes_its_side_after_the_dot_gets_its_answer(smtp: RunningSmtp) -> None:
    for number in range(1, 11):
        dialogue = await smtp.talk()
        await dialogue.begin()

        dialogue.writer.write(MESSAGE + b".\r\n")
        dialogue.writer.write_eof()

        assert (await dialogue.ended()).startswith(b"250 2.0.0")
        assert len(smtp.delivered()) == number


async def test_a_client_that_reads_nothing_is_dropped(client: Redis, tmp_path: Path) -> None:
    async with open_smtp_listener(client, tmp_path / "m", idle_timeout_seconds=2) as smtp:
        dialogue = await smtp.talk()
        transport = cast("asyncio.Transport", dialogue.writer.transport)
        transport.pause_reading()
        dialogue.writer.write(b"HELP\r\n" * 100_000)

        await until(lambda: bool(smtp.listener.connections))
        await until(lambda: not smtp.listener.connections)
        transport.abort()


async def test_a_message_that_never_ends_is_cut_off(client: Redis, tmp_path: Path) -> None:
    async with open_smtp_listener(
        client, tmp_path / "m", max_message_bytes=100_000, max_bytes_in_flight=100_000
    ) as smtp:
        dialogue = await smtp.talk()
        await dialogue.begin()

        dialogue.writer.write(b"x" * 1_000_000)

        with suppress(ConnectionError):
            assert (await dialogue.ended()).startswith(b"552 5.3.4")
        await until(lambda: not smtp.listener.connections)


class NotingTransport:
    """A transport that notes what is written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.said: list[bytes] = []
        self._transport = transport

    def write(self, data: bytes) -> None:
        self.said.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@pytest.mark.parametrize("recipients", [1, 3, 1000])
async def test_commands_that_come_together_are_answered_together(
    smtp: RunningSmtp, recipients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbstream.listeners.smtp.connection._TOGETHER_SECONDS", math.inf)
    dialogue = await smtp.talk()
    await dialogue.hello()
    (session,) = smtp.listener.connections
    assert isinstance(session, SmtpSession)
    noting = NotingTransport(session._open_transport)
    monkeypatch.setattr(session, "_open_transport", noting)
    rcpt = b"".join(b"RCPT TO:<to%d@example.org>\r\n" % number for number in range(recipients))

    dialogue.writer.write(b"MAIL FROM:<from@example.org>\r\n" + rcpt + b"DATA\r\n")
    codes = [(await dialogue.reply())[:3] for _ in range(recipients + 2)]

    assert codes == [*["250"] * (recipients + 1), "354"]
    assert len(noting.said) == 1 if recipients < 1000 else 2 < len(noting.said) < 20
    assert max(map(len, noting.said)) < 5000


async def test_commands_that_came_together_do_not_hold_up_others(
    smtp: RunningSmtp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One client sends a thousand commands in one go; between two of them every other task may run."""
    in_one_step, most = 0, 0
    answer_noop = SmtpConnection.smtp_NOOP

    async def counted_noop(connection: SmtpConnection, arg: str) -> None:
        nonlocal in_one_step, most
        in_one_step += 1
        most = max(most, in_one_step)
        await answer_noop(connection, arg)

    async def other_work() -> None:
        nonlocal in_one_step
        while True:
            in_one_step = 0
            await asyncio.sleep(0)

    monkeypatch.setattr(SmtpConnection, "smtp_NOOP", counted_noop)
    dialogue = await smtp.talk()
    await dialogue.hello()
    other = asyncio.create_task(other_work())
    dialogue.writer.write(b"NOOP\r\n" * 1000)
    for _ in range(1000):
        assert (await dialogue.reply()).startswith("250")
    other.cancel()

    assert most <= 2
