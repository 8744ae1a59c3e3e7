"""The SMTP door: what goes in comes out, with the verdict on top and nothing else changed."""

from __future__ import annotations

import asyncio
import math
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.listeners.smtp.session import SmtpSession
from nbstream.mail import header_fields
from nbstream.mail.lines import normalize_line_ends
from nbstream.relay.smtp_connections import NextHopLimits
from nbstream.relay.smtp_next_hop import SmtpNextHop
from tests.listeners.conftest import Door, open_door
from tests.relay.scripted_server import ScriptedServer
from tests.waiting import DEADLINE_SECONDS, until

MESSAGE = b"From: a@example.org\r\nSubject: hello\r\n\r\nHow are you?\r\n"


def body(delivered: bytes) -> bytes:
    return delivered.partition(b"\n\n")[2]


def names(delivered: bytes) -> list[str]:
    raw = normalize_line_ends(delivered)
    return [each.name for each in header_fields.parse_fields(raw, header_fields.body_offset(raw))]


async def test_a_message_is_delivered_with_the_verdict_on_top_and_told_to_a_trusted_peer(door: Door) -> None:
    reply = await door.send(MESSAGE)

    (delivered,) = door.delivered()
    assert reply.startswith("250 2.0.0 Delivered to the Maildir nbstream id=")
    assert "verdict=unsure probability=0.500000" in reply
    assert names(delivered) == [
        *["return-path", "x-envelope-to", "x-spam-status", "x-spam-level", "x-nbstream", "from", "subject"]
    ]
    assert b'X-Nbstream: unsure; probability=0.500000; reason="learning 0/2";\n\tmodel=test; id=' in delivered
    assert delivered.endswith(b"From: a@example.org\nSubject: hello\n\nHow are you?\n")
    assert door.metric("nbstream_messages_total", listener="smtp", verdict="unsure") == 1
    assert door.metric("nbstream_relay_replies_total", code="250") == 1


async def test_forged_verdicts_do_not_pass(door: Door) -> None:
    await door.send(
        b"x-SPAM-flag: NO\r\nX-Nbstream: ham;\r\n id=x\r\nX-Spam-Status: No\r\nX-Spam-Status: No\r\n" + MESSAGE
    )

    (delivered,) = door.delivered()
    assert names(delivered).count("x-spam-status") == names(delivered).count("x-nbstream") == 1
    assert "x-spam-flag" not in names(delivered)


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
async def test_every_content_passes_and_only_crlf_dot_crlf_ends_it(door: Door, content: bytes) -> None:
    dialogue = await door.talk()
    await dialogue.begin()
    stuffed = (b"\r\n" + content).replace(b"\r\n.", b"\r\n..")[2:]
    end = b".\r\n" if not content or content.endswith(b"\r\n") else b"\r\n.\r\n"

    dialogue.writer.write(stuffed + end)

    assert (await dialogue.reply()).startswith("250 ")
    (delivered,) = door.delivered()
    expected = normalize_line_ends(content).replace(b"\r\n", b"\n")
    assert delivered.rstrip(b"\n").endswith(expected.rstrip(b"\n"))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([b".", b"\r\n", b"a", b"\r", b"\n", b"\0", b"X-Nbstream: x"]), max_size=30).map(
        b"".join
    )
)
async def test_any_body_arrives_as_it_was_sent(door: Door, content: bytes) -> None:
    dialogue = await door.talk()
    await dialogue.begin()
    whole = b"Subject: x\r\n\r\n" + content
    dialogue.writer.write((b"\r\n" + whole).replace(b"\r\n.", b"\r\n..")[2:] + b"\r\n.\r\n")

    assert (await dialogue.reply()).startswith("250 ")
    expected = normalize_line_ends(content).replace(b"\r\n", b"\n")
    assert body(door.delivered()[-1]) in {expected, expected + b"\n"}
    dialogue.writer.close()


async def test_a_message_arrives_whole_one_byte_at_a_time(door: Door) -> None:
    dialogue = await door.talk()
    await dialogue.begin()

    for byte in MESSAGE + b".\r\n":
        dialogue.writer.write(bytes([byte]))
        await dialogue.writer.drain()

    assert (await dialogue.reply()).startswith("250 ")
    assert body(door.delivered()[0]) == b"How are you?\n"


async def test_commands_and_a_message_sent_in_one_go_are_taken(door: Door) -> None:
    dialogue = await door.talk()
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
    assert door.delivered()[0].startswith(b"Return-Path: <>\nX-Envelope-To: a@b\nX-Envelope-To: c@d\n")


async def test_a_declared_or_real_size_over_the_limit_is_552_and_the_limit_itself_passes(
    client: Redis, tmp_path: Path
) -> None:
    async with open_door(client, tmp_path / "m", max_message_bytes=1000) as door:
        dialogue = await door.talk()
        assert "250-SIZE 1000" in await dialogue.hello()
        assert (await dialogue.say("MAIL FROM:<a@b> SIZE=1001")).startswith("552 5.3.4")
        await dialogue.say("MAIL FROM:<a@b> SIZE=1000")
        await dialogue.say("RCPT TO:<a@b>")
        await dialogue.say("DATA")
        dialogue.writer.write(b"x" * 999 + b"\r\n.\r\n")
        assert (await dialogue.reply()).startswith("552 5.3.4")

        assert (await door.send(b"x" * 998 + b"\r\n")).startswith("250 ")
        assert len(door.delivered()) == 1


async def test_a_message_that_loops_is_refused(door: Door) -> None:
    assert (await door.send(b"Received: x\r\n" * 50 + MESSAGE)).startswith("250 ")
    assert (await door.send(b"Received: x\r\n" * 51 + MESSAGE)).startswith("554 5.4.6")
    large = (b"Received: " + b"x" * 900 + b"\r\n" + b"X: y\r\n" * 1000) * 51  # looked through in pieces
    assert (await door.send(large + MESSAGE)).startswith("554 5.4.6")
    assert len(door.delivered()) == 1


async def test_connections_over_the_limit_are_told_to_come_back(client: Redis, tmp_path: Path) -> None:
    async with open_door(client, tmp_path / "m", max_connections=1) as door:
        first = await door.talk()
        await first.hello()

        assert (await (await door.talk()).ended()).startswith(b"421 4.3.2")

        await first.say("QUIT")
        await until(lambda: not door.listener.state.sessions)
        assert (await (await door.talk()).hello()).startswith("250-")
        assert door.metric("nbstream_connections_total", listener="smtp", outcome="accepted") == 2
        assert door.metric("nbstream_connections_total", listener="smtp", outcome="refused") == 1


async def test_memory_for_mail_is_shared_and_given_back(client: Redis, tmp_path: Path) -> None:
    async with open_door(client, tmp_path / "m", max_message_bytes=200_000, max_bytes_in_flight=200_000) as door:
        holding, waiting = await door.talk(), await door.talk()
        await holding.begin()
        holding.writer.write(b"x" * 150_000)
        await until(lambda: door.listener.state.byte_budget.reserved > 60_000)
        await waiting.begin()

        waiting.writer.write(b"y" * 190_000 + b"\r\n.\r\n")

        assert (await waiting.reply()).startswith("452 4.3.1")
        holding.writer.write(b"\r\n.\r\n")
        assert (await holding.reply()).startswith("250 ")
        assert (await door.send(b"y" * 190_000)).startswith("250 ")
        assert door.listener.state.byte_budget.reserved == 0


async def test_an_idle_client_is_closed(client: Redis, tmp_path: Path) -> None:
    async with open_door(client, tmp_path / "m", idle_timeout_seconds=0.2) as door:
        dialogue = await door.talk()
        await dialogue.begin()

        assert await dialogue.ended() == b""
        await until(lambda: not door.listener.state.sessions)


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
        ("AUTH PLAIN AGEAYg==", "5"),
        ("STARTTLS", "454"),
        (b"\xff\xfe", "500"),
        ("X" * 5000, "500"),
        ("NOOP " + "x" * 100_000, "500"),
    ],
)
async def test_commands_out_of_place_are_refused_and_the_session_goes_on(door: Door, line: str, code: str) -> None:
    dialogue = await door.talk()
    await dialogue.hello()

    assert (await dialogue.say(line)).startswith(code)
    assert (await dialogue.say("MAIL FROM:<a@b>")).startswith("250")


async def test_the_recipients_of_one_transaction_are_bounded(client: Redis, tmp_path: Path) -> None:
    async with open_door(client, tmp_path / "m", max_recipients=2) as door:
        dialogue = await door.talk()
        await dialogue.hello()
        await dialogue.say("MAIL FROM:<a@b>")

        replies = [await dialogue.say(f"RCPT TO:<{number}@b>") for number in range(3)]

        assert [reply[:9] for reply in replies] == ["250 2.1.5", "250 2.1.5", "452 4.5.3"]


async def test_a_peer_outside_the_trusted_networks_is_not_told_the_verdict(client: Redis, tmp_path: Path) -> None:
    async with open_door(client, tmp_path / "m", allow_from=()) as door:
        assert await door.send(MESSAGE) == "250 2.0.0 Delivered to the Maildir"


# Behind it: a next hop with answers of its own


@asynccontextmanager
async def open_door_before(transcript: str, client: Redis, maildir: Path) -> AsyncIterator[Door]:
    """A door whose next hop plays the transcript, after the question for its features; it must play to the end."""
    hop = ScriptedServer(["C: NOOP\nS: 250 ok\n" + textwrap.dedent(transcript).strip()])
    await hop.start()
    try:
        next_hop = SmtpNextHop(hop.host, hop.port, NextHopLimits(connect_timeout_seconds=5))
        async with open_door(client, maildir, next_hop) as door:
            yield door
            await hop.played()
    finally:
        await hop.stop()


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
    async with open_door_before(transcript, client, tmp_path) as door:
        dialogue = await door.talk()
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
        assert offered == ["250 SIZE 52428800", "250-DSN", "250-PIPELINING", "250-XFORWARD ADDR"]
        assert replies[1:] == ["250 2.1.5 yes", "550 5.1.1 no such user", "450 4.2.1 later", replies[-1]]
        assert (await dialogue.reply()).startswith("250 2.0.0 queued as 42 nbstream id=")


async def test_a_sender_refused_by_the_next_hop_is_refused_at_mail(client: Redis, tmp_path: Path) -> None:
    transcript = "C: MAIL FROM:<a@b>\nS: 553 5.1.8 go away"
    async with open_door_before(transcript, client, tmp_path) as door:
        dialogue = await door.talk()
        await dialogue.hello()

        assert await dialogue.say("MAIL FROM:<a@b>") == "553 5.1.8 go away"
        assert (await dialogue.say("RCPT TO:<a@b>")).startswith("503")


async def test_a_message_refused_by_the_next_hop_is_refused(client: Redis, tmp_path: Path) -> None:
    transcript = """
        C: MAIL FROM:<from@example.org>
        S: 250 ok
        C: RCPT TO:<to@example.org>
        S: 250 ok
        C: DATA
        S: 354 go
        C: some
        S: 554 5.7.0 not wanted
    """
    async with open_door_before(transcript, client, tmp_path) as door:
        assert (await door.send(MESSAGE)).startswith("554 5.7.0 not wanted")
        assert door.metric("nbstream_relay_replies_total", code="554") == 1


async def test_a_next_hop_that_is_away_is_451_at_the_recipient_and_says_no_host(
    client: Redis, tmp_path: Path
) -> None:
    away = SmtpNextHop("127.0.0.1", 1, NextHopLimits(connect_timeout_seconds=1))
    async with open_door(client, tmp_path / "m", away) as door:
        reply = await door.send(MESSAGE)

        assert reply.startswith("451 4.4.1")
        assert "127.0.0.1" not in reply


async def test_a_next_hop_that_goes_away_between_recipients_is_451_to_the_end(
    client: Redis, tmp_path: Path
) -> None:
    begun = "C: MAIL FROM:<a@b>\nS: 250 ok\nC: RCPT TO:<one@b>\nS: 250 ok\nC: RCPT TO:<two@b>\nS: drop"
    hop = ScriptedServer(["C: NOOP\nS: 250 ok\n" + begun, "C: MAIL FROM:<a@b>\nS: drop"])
    await hop.start()
    try:
        next_hop = SmtpNextHop(hop.host, hop.port, NextHopLimits(connect_timeout_seconds=5))
        async with open_door(client, tmp_path / "m", next_hop) as door:
            dialogue = await door.talk()
            await dialogue.hello()
            lines = ("MAIL FROM:<a@b>", "RCPT TO:<one@b>", "RCPT TO:<two@b>", "RCPT TO:<three@b>", "DATA")

            replies = [await dialogue.say(line) for line in lines]

            assert [reply[:3] for reply in replies] == ["250", "250", "451", "451", "451"]
            await hop.played()
    finally:
        await hop.stop()


async def test_a_client_that_leaves_ends_the_transaction_at_the_next_hop(client: Redis, tmp_path: Path) -> None:
    transcript = (
        "C: MAIL FROM:<from@example.org>\nS: 250 ok\nC: RCPT TO:<to@example.org>\nS: 250 ok\nC: RSET\nS: 250 ok"
    )
    async with open_door_before(transcript, client, tmp_path) as door:
        dialogue = await door.talk()
        await dialogue.hello()
        await dialogue.say("MAIL FROM:<from@example.org>")
        await dialogue.say("RCPT TO:<to@example.org>")

        dialogue.writer.close()


async def test_a_hop_may_take_longer_than_a_client_may_be_silent(client: Redis, tmp_path: Path) -> None:
    message = ("MAIL FROM:<from@example.org>", "RCPT TO:<to@example.org>", "DATA")
    asked = "".join(f"C: {line}\nS: 250 ok\n" for line in message[:2])
    hop = ScriptedServer(
        ["C: NOOP\nS: 250 ok\n" + asked + "C: DATA\nS: 354 go\nC: some\nS: nothing\nS: 250 queued"]
    )
    await hop.start()
    try:
        next_hop = SmtpNextHop(hop.host, hop.port, NextHopLimits(connect_timeout_seconds=5))
        async with open_door(client, tmp_path / "m", next_hop, idle_timeout_seconds=0.2) as door:
            dialogue = await door.talk()
            await dialogue.begin()
            dialogue.writer.write(MESSAGE + b".\r\n")
            await asyncio.wait_for(hop.silent.wait(), DEADLINE_SECONDS)
            since = time.monotonic()
            await until(lambda: time.monotonic() > since + 0.5)

            hop.go_on.set()

            assert (await dialogue.reply()).startswith("250 queued")
            assert await dialogue.ended() == b""  # now it is the client who is silent
    finally:
        await hop.stop()


# When the filter fails


async def test_without_counts_mail_passes_unmarked_and_forged_verdicts_are_still_removed(
    client: Redis, tmp_path: Path
) -> None:
    async with open_door(client, tmp_path / "m", follow=False) as door:
        assert await door.send(b"X-Spam-Flag: NO\r\n" + MESSAGE) == "250 2.0.0 Delivered to the Maildir"

        assert names(door.delivered()[0]) == ["return-path", "x-envelope-to", "from", "subject"]
        assert door.metric("nbstream_filter_failures_total", reason="store") == 1
        assert door.metric("nbstream_messages_total", listener="smtp", verdict="none") == 1


async def test_without_counts_mail_is_deferred_where_that_is_configured(client: Redis, tmp_path: Path) -> None:
    async with open_door(client, tmp_path / "m", follow=False, pass_on_failure=False) as door:
        assert (await door.send(MESSAGE)).startswith("451 4.3.0")
        assert door.delivered() == []


# Draining


async def test_draining_finishes_the_message_in_flight_and_closes_the_rest(door: Door) -> None:
    busy, idle = await door.talk(), await door.talk()
    await busy.begin()
    await idle.hello()

    draining = asyncio.create_task(door.listener.drain(20))

    assert (await idle.ended()).startswith(b"421 4.3.2")
    busy.writer.write(MESSAGE + b".\r\n")
    assert (await busy.reply()).startswith("250 2.0.0")
    assert (await busy.ended()).startswith(b"421 4.3.2")
    await draining
    assert len(door.delivered()) == 1


async def test_draining_does_not_wait_longer_than_it_is_told(door: Door) -> None:
    busy = await door.talk()
    await busy.begin()

    await door.listener.drain(0.05)

    await until(lambda: not door.listener.state.sessions)
    assert door.delivered() == []


# Clients that misbehave


async def test_a_client_that_closes_its_side_after_the_dot_gets_its_answer(door: Door) -> None:
    for number in range(1, 11):
        dialogue = await door.talk()
        await dialogue.begin()

        dialogue.writer.write(MESSAGE + b".\r\n")
        dialogue.writer.write_eof()

        assert (await dialogue.ended()).startswith(b"250 2.0.0")
        assert len(door.delivered()) == number


@pytest.mark.parametrize(
    "said", [b"", b"EHLO x\r\nMAIL FROM:<a@b>\r\n", b"EHLO x\r\nMAIL FROM:<a@b>\r\nRCPT TO:<a@b>\r\nDATA\r\nx"]
)
async def test_a_client_that_closes_its_side_early_is_let_go(door: Door, said: bytes) -> None:
    dialogue = await door.talk()
    dialogue.writer.write(said)
    dialogue.writer.write_eof()

    await dialogue.ended()

    await until(lambda: not door.listener.state.sessions)
    assert door.listener.state.byte_budget.reserved == 0
    assert door.delivered() == []


async def test_a_client_may_go_away_at_any_byte(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    whole = b"EHLO c\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n" + MESSAGE + b".\r\nQUIT\r\n"
    for end in range(0, len(whole), 3):
        dialogue = await door.talk()
        dialogue.writer.write(whole[:end])
        await dialogue.writer.drain()
        dialogue.writer.transport.abort()

    await until(lambda: not door.listener.state.sessions)
    assert door.listener.state.byte_budget.reserved == 0
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert (await door.send(MESSAGE)).startswith("250 ")


async def test_a_client_that_reads_nothing_loses_its_place(client: Redis, tmp_path: Path) -> None:
    async with open_door(client, tmp_path / "m", idle_timeout_seconds=0.5) as door:
        dialogue = await door.talk()
        transport = cast("asyncio.Transport", dialogue.writer.transport)
        transport.pause_reading()
        dialogue.writer.write(b"HELP\r\n" * 300_000)

        await until(lambda: bool(door.listener.state.sessions))
        await until(lambda: not door.listener.state.sessions)
        transport.abort()


async def test_a_refused_message_gives_its_memory_back_before_its_end(client: Redis, tmp_path: Path) -> None:
    async with open_door(client, tmp_path / "m", max_message_bytes=200_000, max_bytes_in_flight=200_000) as door:
        dialogue = await door.talk()
        await dialogue.begin()
        dialogue.writer.write(b"x" * 190_000)
        await until(lambda: door.listener.state.byte_budget.reserved > 60_000)

        dialogue.writer.write(b"x" * 100_000)

        await until(lambda: door.listener.state.byte_budget.reserved == 0)
        assert (await door.send(b"y" * 150_000)).startswith("250 ")


async def test_a_message_that_never_ends_is_cut_off(client: Redis, tmp_path: Path) -> None:
    async with open_door(client, tmp_path / "m", max_message_bytes=100_000, max_bytes_in_flight=100_000) as door:
        dialogue = await door.talk()
        await dialogue.begin()

        dialogue.writer.write(b"x" * 1_000_000)

        with suppress(ConnectionError):
            assert (await dialogue.ended()).startswith(b"552 5.3.4")
        await until(lambda: not door.listener.state.sessions)


async def test_while_draining_no_new_message_begins(door: Door) -> None:
    busy = await door.talk()
    await busy.hello()
    await busy.say("MAIL FROM:<a@b>")
    draining = asyncio.create_task(door.listener.drain(20))
    await until(lambda: door.listener.state.draining)

    assert (await busy.say("RSET")).startswith("250")

    assert (await busy.ended()).startswith(b"421 4.3.2")
    await draining


async def test_a_first_line_that_continues_nothing_writes_into_no_field(door: Door) -> None:
    await door.send(b" , boss@corp.example\r\nSubject: x\r\n\r\nbody\r\n")

    (delivered,) = door.delivered()
    assert delivered.startswith(b"Return-Path: <from@example.org>\nX-Envelope-To: to@example.org\nX-Spam-Status:")
    assert b"id=" + delivered.split(b"id=")[1].split(b"\n")[0] + b"\nX-Nbstream-Continued:\n , boss@" in delivered


async def test_a_large_message_of_all_line_ends_arrives_whole(door: Door) -> None:
    lines = b"Subject: large\r\n\r\n" + b"one\ntwo\rthree\r\n.four\r\n" * 100_000

    assert (await door.send(lines)).startswith("250 ")

    assert door.delivered()[0].endswith(b"\n\n" + b"one\ntwo\nthree\n.four\n" * 100_000)


@pytest.mark.parametrize("recipients", [1, 3, 1000])
async def test_commands_that_come_together_are_answered_together(
    door: Door, recipients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbstream.listeners.smtp.connection._TOGETHER_SECONDS", math.inf)
    dialogue = await door.talk()
    await dialogue.hello()
    (session,) = door.listener.state.sessions
    assert isinstance(session, SmtpSession)
    said: list[bytes] = []
    write = session._writer.write

    def noted(data: bytes) -> None:
        said.append(data)
        write(data)

    monkeypatch.setattr(session._writer, "write", noted)
    rcpt = b"".join(b"RCPT TO:<to%d@example.org>\r\n" % number for number in range(recipients))

    dialogue.writer.write(b"MAIL FROM:<from@example.org>\r\n" + rcpt + b"DATA\r\n")
    told = [await dialogue.reply() for _ in range(recipients + 2)]

    assert [reply[:3] for reply in told] == [*["250"] * (recipients + 1), "354"]
    assert len(said) == 1 if recipients < 1000 else 2 < len(said) < 20
    assert max(map(len, said)) < 5000


async def test_a_reply_that_took_its_time_does_not_wait_for_the_next(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbstream.listeners.smtp.connection._TOGETHER_SECONDS", 0.0)
    transcript = (
        "C: NOOP\nS: 250 ok\nC: MAIL FROM:<a@b>\nS: 250 fine\nC: RCPT TO:<c@d>\nS: nothing\nS: 250 fine too"
    )
    hop = ScriptedServer([transcript])
    await hop.start()
    async with open_door(client, tmp_path, SmtpNextHop(hop.host, hop.port)) as door:
        dialogue = await door.talk()
        await dialogue.hello()

        dialogue.writer.write(b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\n")

        assert (await dialogue.reply()).startswith("250")
        hop.go_on.set()
        assert await dialogue.reply() == "250 fine too"
        await hop.played()
    await hop.stop()


async def test_replies_that_were_to_go_together_are_said_before_the_door_closes(door: Door) -> None:
    dialogue = await door.talk()
    await dialogue.hello()
    door.listener.state.draining = True

    dialogue.writer.write(b"RCPT TO:<to@example.org>\r\nMAIL FROM:<from@example.org>\r\nNOOP\r\n")

    assert [line[:3] for line in (await dialogue.ended()).split(b"\r\n")] == [b"503", b"421", b""]
