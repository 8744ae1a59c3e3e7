"""SMTP and LMTP, on TCP and unix sockets, with and without TLS: hostile clients, and faults of what is around."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.listeners.smtp.settings import TlsMode
from tests.harness.redis.redis_server import RedisServer
from tests.harness.runtimes import SPAM_ADDRESS, make_runtime
from tests.harness.smtp_listener import Dialogue, RunningSmtp, Way, open_smtp_listener
from tests.harness.waiting import until

MESSAGE = b"From: a@example.org\r\nSubject: hello\r\n\r\nHow are you?\r\n"
SESSION = b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n" + MESSAGE + b".\r\n"


async def greeted(smtp: RunningSmtp) -> Dialogue:
    dialogue = await smtp.talk()
    await dialogue.hello()
    return dialogue


async def nothing_is_left(smtp: RunningSmtp) -> None:
    await until(lambda: not smtp.listener.connections)
    assert smtp.listener.service.bytes_in_flight.reserved == 0
    assert smtp.metric("nbstream_connections_open", listener=smtp.way.listener_name) == 0


async def test_mail_is_delivered_with_its_verdict_and_counted_by_the_name_of_the_listener(
    reached: RunningSmtp,
) -> None:
    assert await reached.send(MESSAGE) == "250 2.0.0 Delivered to the Maildir"

    (delivered,) = reached.delivered()
    assert b"X-Nbstream: unsure;" in delivered
    assert delivered.endswith(MESSAGE.replace(b"\r\n", b"\n"))
    name = reached.way.listener_name
    assert reached.metric("nbstream_messages_total", listener=name, verdict="unsure") == 1
    assert reached.metric("nbstream_connections_total", listener=name, outcome="accepted") == 1


async def test_a_client_may_go_away_at_any_byte(reached: RunningSmtp, caplog: pytest.LogCaptureFixture) -> None:
    for end in range(0, len(SESSION), 4 if reached.way.tls is TlsMode.OFF else 24):
        dialogue = await greeted(reached)
        dialogue.writer.write(SESSION[:end])
        await dialogue.writer.drain()
        dialogue.writer.transport.abort()

    await nothing_is_left(reached)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert (await reached.send(MESSAGE)).startswith("250 ")


async def test_bytes_may_come_one_by_one(reached: RunningSmtp) -> None:
    dialogue = await greeted(reached)
    for position in range(len(SESSION)):
        dialogue.writer.write(SESSION[position : position + 1])
        await asyncio.sleep(0)

    assert [(await dialogue.reply())[:3] for _ in range(4)] == ["250", "250", "354", "250"]
    assert reached.delivered()[0].endswith(MESSAGE.replace(b"\r\n", b"\n"))


@pytest.mark.parametrize("garbage", [bytes(range(256)) * 8, b"\x16\x03\x01\x02\x00\x01\x00" * 40, b"x" * 300_000])
async def test_garbage_and_long_lines_end_in_refusals_or_in_the_end_of_the_connection(
    reached: RunningSmtp, garbage: bytes
) -> None:
    dialogue = await greeted(reached)
    dialogue.writer.write(garbage + b"\r\n\r\nQUIT\r\n")

    replies = (await dialogue.ended()).split(b"\r\n")

    assert replies.pop() == b""
    assert {reply[:1] for reply in replies[:-1]} == {b"5"}
    assert replies[-1][:3] in {b"221", b"502"}  # after 25 unknown commands aiosmtpd has heard enough
    await nothing_is_left(reached)


async def test_hundreds_of_connections_are_served_or_turned_away(
    client: Redis, tmp_path: Path, request: pytest.FixtureRequest, way: Way
) -> None:
    async with open_way(way, client, tmp_path, request, max_connections=40) as smtp:
        outcomes = await asyncio.gather(*(_greeting(smtp) for _ in range(200)))

        assert outcomes.count("220") >= 40
        assert set(outcomes) <= {"220", "421", "closed"}
        assert smtp.metric("nbstream_connections_total", listener=way.listener_name, outcome="refused") > 0
    await nothing_is_left(smtp)


async def _greeting(smtp: RunningSmtp) -> str:
    try:
        dialogue = await smtp.talk()
        return (await dialogue.reply())[:3]
    except (OSError, EOFError):
        return "closed"


async def test_while_redis_is_away_mail_is_scored_and_feedback_put_off(
    own_redis: RedisServer, own_client: Redis, tmp_path: Path, request: pytest.FixtureRequest, way: Way
) -> None:
    async with open_way(way, own_client, tmp_path, request) as smtp:
        own_redis.stop()

        assert (await smtp.send(MESSAGE, SPAM_ADDRESS)).startswith("451 4.3.0")
        assert (await smtp.send(MESSAGE)).startswith("250 ")
        assert b"X-Nbstream: unsure;" in smtp.delivered()[0]


async def test_reloads_and_a_drain_under_load_lose_and_double_nothing(reached: RunningSmtp) -> None:
    accepted: list[int] = []

    async def deliver(client: int) -> None:
        with suppress(OSError, EOFError):
            dialogue = await greeted(reached)
            for number in range(client * 100, client * 100 + 100):
                for line in ("MAIL FROM:<a@b>", "RCPT TO:<c@d>", "DATA"):
                    if (await dialogue.say(line))[0] not in "23":
                        return
                if (await dialogue.content(b"Subject: n%d.\r\n\r\n" % number + MESSAGE)).startswith("250"):
                    accepted.append(number)

    clients = [asyncio.create_task(deliver(client)) for client in range(5)]
    await until(lambda: len(accepted) > 10)
    for _ in range(20):
        reached.listener.apply(make_runtime(reached.spam_filter, tls_contexts=reached.tls_contexts))
        await asyncio.sleep(0)
    await until(lambda: len(accepted) > 30)
    await reached.listener.drain(20)
    await asyncio.gather(*clients)

    assert 30 < len(accepted) < 500
    subjects = sorted(int(mail.partition(b"Subject: n")[2].partition(b".")[0]) for mail in reached.delivered())
    assert subjects == sorted(accepted)


async def test_draining_finishes_the_message_in_flight_and_closes_the_rest(reached: RunningSmtp) -> None:
    busy, idle = await greeted(reached), await greeted(reached)
    for line in ("MAIL FROM:<a@b>", "RCPT TO:<c@d>", "DATA"):
        await busy.say(line)

    draining = asyncio.create_task(reached.listener.drain(20))

    assert (await idle.ended()).startswith(b"421 4.3.2")
    assert (await busy.content(MESSAGE)).startswith("250 2.0.0")
    assert (await busy.ended()).startswith(b"421 4.3.2")
    await draining
    assert len(reached.delivered()) == 1


@pytest.fixture(params=[Way.SMTP_UNIX, Way.SMTP_STARTTLS, Way.LMTP])
def way(request: pytest.FixtureRequest) -> Way:
    """The ways beside plain SMTP, for which test_listener.py and test_feedback.py test the same."""
    return Way(request.param)


@asynccontextmanager
async def open_way(
    way: Way, client: Redis, tmp_path: Path, request: pytest.FixtureRequest, **options: Any
) -> AsyncIterator[RunningSmtp]:
    certificates = None if way.tls is TlsMode.OFF else request.getfixturevalue("certificates")
    async with open_smtp_listener(
        client, tmp_path / "Maildir", way=way, certificates=certificates, **options
    ) as smtp:
        yield smtp
