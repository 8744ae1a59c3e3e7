"""The Dovecot listener over real sockets: a message is in the spool when it is acknowledged, and learned then."""

from __future__ import annotations

import asyncio
import os
import pwd
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.filter import Filter
from nbstream.listeners.dovecot import learner
from nbstream.listeners.dovecot.spool import FAILED, Spool, SpooledFeedback, SpoolEntry
from nbstream.mail.message import Message
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from tests.harness.delivered import DELIVERED, assert_learned_as_it_was_checked
from tests.harness.disputes import DISPUTED, teach_dispute
from tests.harness.own_model_site import ANN, open_site, own_model
from tests.harness.redis.redis_server import RedisServer
from tests.harness.runtimes import make_runtime
from tests.harness.spools import add_all, open_spool
from tests.harness.waiting import DEADLINE_SECONDS, until
from tests.listeners.dovecot.dovecot_listener import (
    PRIZE,
    REFUSED,
    TAKEN,
    RunningDovecotListener,
    open_dovecot,
    report,
)


@pytest.fixture
async def dovecot(client: Redis, tmp_path: Path) -> AsyncIterator[RunningDovecotListener]:
    async with open_dovecot(client, tmp_path) as running:
        yield running
    assert running.bytes_in_flight.reserved == 0


def numbered(number: int) -> bytes:
    return b"Subject: offer %d\r\n\r\nClaim prize %d now.\r\n" % (number, number)


# What is learned


async def test_what_is_reported_is_learned(dovecot: RunningDovecotListener) -> None:
    assert await dovecot.send(report("spam")) == TAKEN
    await dovecot.until_learned()
    assert dovecot.learned == {"spam": 1, "ham": 0}

    assert await dovecot.send(report("ham")) == TAKEN
    await dovecot.until_learned()
    assert dovecot.learned == {"spam": 0, "ham": 1}
    assert dovecot.metric("nbstream_feedback_total", source="dovecot", label="ham", outcome="relearned") == 1
    assert dovecot.metric("nbstream_spool_messages_total", outcome="spooled") == 2
    await until(lambda: dovecot.metric("nbstream_spool_messages_total", outcome="learned") == 2)


async def test_a_delivered_message_is_learned_as_it_was_checked(
    dovecot: RunningDovecotListener, client: Redis
) -> None:
    assert await dovecot.send(report("spam", DELIVERED)) == TAKEN
    await dovecot.until_learned()
    await assert_learned_as_it_was_checked(client)


async def test_what_waits_is_learned_after_a_restart(client: Redis, tmp_path: Path) -> None:
    await add_all(tmp_path, [SpooledFeedback("spam", "user ann", 1, PRIZE)])
    async with open_dovecot(client, tmp_path) as dovecot:
        await dovecot.until_learned()
        assert dovecot.learned == {"spam": 1, "ham": 0}


# Who says it


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_a_user_is_believed_from_a_trusted_peer_alone(
    client: Redis, tmp_path: Path, is_trusted: bool
) -> None:
    trusted = frozenset({os.getuid()} if is_trusted else ())
    async with open_dovecot(client, tmp_path, trusted_users=trusted) as dovecot:
        await dovecot.send(report("spam", user="ann"))
        await dovecot.until_learned()
        entry = await dovecot.opened_filter.model.entry(Message.parse(PRIZE).key)

    assert entry is not None
    assert entry.source == "dovecot"
    own_name = pwd.getpwuid(os.getuid()).pw_name
    assert entry.actor == f"user {'ann' if is_trusted else own_name}"


async def test_where_users_have_own_models_that_of_a_user_without_a_domain_is_refused(
    client: Redis, tmp_path: Path
) -> None:
    async with open_site(client) as site, open_dovecot(client, tmp_path) as dovecot:
        dovecot.listener.apply(make_runtime(site.common, own_filters=site.filters))

        assert await dovecot.send(report("spam", user="ann")) == b"-\n"
        assert await dovecot.send(report("spam", user=ANN)) == b"+\n"
        await dovecot.until_learned()

        assert (await Model(client, "test", 3600).totals()).messages == (0, 0)
        assert (await own_model(client, "example.org/ann").totals()).messages == (0, 1)


@pytest.mark.parametrize(
    "data",
    [
        report("someone@example.org"),
        report("spam", b""),
        report("spam", b"\r\n \r\n"),
        report("spam", option="noreply"),
        b"VERSION\tscript\t4\t0\n-\n\n" + PRIZE,
        b"\0" * 100_000,
        b"EHLO client\r\n",
    ],
    ids=range(7),
)
async def test_what_says_nothing_is_refused_and_the_listener_goes_on(
    dovecot: RunningDovecotListener, data: bytes
) -> None:
    assert await dovecot.send(data) == REFUSED
    assert await dovecot.send(report("spam")) == TAKEN
    await dovecot.until_learned()
    assert dovecot.learned == {"spam": 1, "ham": 0}


# A repetition is no person who reinforces


async def test_a_person_reinforces_by_saying_it_again(dovecot: RunningDovecotListener) -> None:
    await teach_dispute(dovecot.opened_filter.spam_filter, source="smtp")

    for _ in range(2):
        assert await dovecot.send(report("ham", DISPUTED.raw)) == TAKEN
    await dovecot.until_learned()

    assert dovecot.metric("nbstream_feedback_total", source="dovecot", label="ham", outcome="reinforced") == 1
    assert dovecot.metric("nbstream_feedback_total", source="dovecot", label="ham", outcome="already") == 1


async def test_what_may_be_a_repetition_of_the_spool_does_not_reinforce(client: Redis, tmp_path: Path) -> None:
    async with open_dovecot(client, tmp_path) as dovecot:
        await teach_dispute(dovecot.opened_filter.spam_filter, source="smtp")
    await add_all(tmp_path, [SpooledFeedback("ham", "user ann", 1, DISPUTED.raw)])
    async with open_spool(tmp_path) as spool:
        await spool.take()  # a process that learned it, and died before it wrote that down

    async with open_dovecot(client, tmp_path) as dovecot:
        await dovecot.until_learned()
        assert dovecot.metric("nbstream_feedback_total", source="dovecot", label="ham", outcome="already") == 1


# Redis, faults, disks


async def test_messages_wait_while_redis_is_away(
    own_redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    async with open_dovecot(client, tmp_path) as dovecot:
        own_redis.stop()
        for number in range(5):
            assert await dovecot.send(report("spam", numbered(number))) == TAKEN
        await until(lambda: "messages are waiting in the spool" in caplog.text)
        assert dovecot.backlog.waiting == 5

        own_redis.start()
        await dovecot.until_learned()
        await until(lambda: dovecot.learned == {"spam": 5, "ham": 0})
        assert dovecot.metric("nbstream_spool_messages_total", outcome="failed") == 0
    await client.aclose()


async def test_a_message_that_cannot_be_learned_is_set_aside_and_the_others_are_learned(
    dovecot: RunningDovecotListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = Filter.learn

    async def learn_unless_poison(self: Filter, message: Message, *arguments: object) -> object:
        if b"poison" in message.raw:
            raise ZeroDivisionError
        return await learn(self, message, *arguments)  # type: ignore[arg-type] # passed on as they came

    monkeypatch.setattr(Filter, "learn", learn_unless_poison)
    poison = b"Subject: poison\r\n\r\ntext\r\n"
    for message in (numbered(1), poison, numbered(2)):
        assert await dovecot.send(report("spam", message)) == TAKEN
    await dovecot.until_learned()

    assert dovecot.learned == {"spam": 2, "ham": 0}
    assert dovecot.metric("nbstream_spool_messages_total", outcome="failed") == 1
    (kept,) = (dovecot.folder / FAILED / "spam").iterdir()
    assert kept.read_bytes() == poison
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


# Clients


@pytest.mark.parametrize("abruptly", [False, True])
async def test_a_client_that_leaves_at_any_byte_has_reported_nothing(
    dovecot: RunningDovecotListener, abruptly: bool
) -> None:
    data = report("spam")
    for length in range(len(data) + 1):
        _, writer = await dovecot.connect()
        writer.write(data[:length])
        await writer.drain()
        writer.transport.abort() if abruptly else writer.close()
    await until(lambda: not dovecot.listener.connections)

    assert dovecot.metric("nbstream_spool_messages_total", outcome="spooled") == 0
    assert await dovecot.send(data) == TAKEN


async def test_a_client_that_never_ends_is_disconnected(client: Redis, tmp_path: Path) -> None:
    async with open_dovecot(client, tmp_path, max_message_bytes=1 << 16) as dovecot:
        _, writer = await dovecot.connect()

        async def send() -> None:
            while True:
                writer.write(b"\0" * (1 << 16))
                await writer.drain()

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send(), DEADLINE_SECONDS)
        writer.close()


async def test_mail_beyond_the_bytes_in_flight_is_refused(client: Redis, tmp_path: Path) -> None:
    async with open_dovecot(client, tmp_path, max_bytes_in_flight=2 << 20) as dovecot:
        data = report("spam", b"m" * (600 << 10))
        reader, writer = await dovecot.connect()
        writer.write(data)
        await writer.drain()
        await until(lambda: dovecot.bytes_in_flight.reserved == len(data))

        assert await dovecot.send(data) == REFUSED
        assert await dovecot.finish(reader, writer, []) == TAKEN
        writer.close()
        await until(lambda: dovecot.bytes_in_flight.reserved == 0)


async def test_draining_finishes_what_is_in_hand_and_keeps_what_waits(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(*_: object) -> None:
        raise StoreUnavailable("away")

    async with open_dovecot(client, tmp_path) as dovecot:
        monkeypatch.setattr(Filter, "learn", unavailable)
        reader, writer = await dovecot.connect()
        writer.write(report("spam"))
        await until(lambda: dovecot.bytes_in_flight.reserved > 0)
        draining = asyncio.create_task(dovecot.drain())
        assert await dovecot.finish(reader, writer, []) == TAKEN
        await draining
        with pytest.raises(ConnectionError):
            await dovecot.connect()
        assert dovecot.backlog.waiting == 1
        writer.close()
    monkeypatch.undo()
    async with open_dovecot(client, tmp_path) as dovecot:
        await dovecot.until_learned()


@pytest.mark.parametrize("disk_hangs", [False, True])
async def test_a_drain_gives_a_lesson_up_that_does_not_end_and_counts_no_attempt(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk_hangs: bool
) -> None:
    begun, disk = asyncio.Event(), threading.Event()
    put_back = Spool.put_back

    async def never_ends(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def put_back_slowly(spool: Spool, entry: SpoolEntry) -> None:
        if disk_hangs:
            await asyncio.to_thread(disk.wait)
        await put_back(spool, entry)

    monkeypatch.setattr(Filter, "learn", never_ends)
    monkeypatch.setattr(Spool, "put_back", put_back_slowly)
    monkeypatch.setattr(learner, "_PUT_BACK_SECONDS", 0.1 if disk_hangs else DEADLINE_SECONDS)
    async with open_dovecot(client, tmp_path) as dovecot:
        assert await dovecot.send(report("spam")) == TAKEN
        await begun.wait()

        async with asyncio.timeout(DEADLINE_SECONDS):
            await dovecot.listener.drain(0)

        dovecot.is_drained = True
        async with open_spool(tmp_path) as spool:
            entry = await spool.take()
        disk.set()
    assert entry is not None
    assert entry.tries == (1 if disk_hangs else 0)
