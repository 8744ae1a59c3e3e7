"""Facts in Redis: each process follows them, and what is forgotten is forgotten by all."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.correspondents.facts import DAY_SECONDS, FactHasher
from nbstream.correspondents.sent_mail import SentMail
from nbstream.correspondents.store import MAX_QUEUED, Correspondents, CorrespondentStore, record_sent
from nbstream.store.connection import ConnectionOptions, open_client
from tests.correspondents.mail import ANN, BOB, HASHER, OURS, READER, answer, message, sent
from tests.harness.followers import following
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until

KEY = "{m}:correspondents"


@pytest.fixture
def store(client: Redis) -> CorrespondentStore:
    return CorrespondentStore(client, KEY, HASHER)


def mail(*recipients: str, days: float = 1, **other: Any) -> SentMail:
    return sent(*recipients, at=time.time() - days * DAY_SECONDS, **other)


def process(store: CorrespondentStore, counts: dict[str, int] | None = None) -> Correspondents:
    def report(outcome: str, messages: int) -> None:
        if counts is not None:
            counts[outcome] = counts.get(outcome, 0) + messages

    return Correspondents(store, report)


async def record(store: CorrespondentStore, *mails: SentMail) -> int:
    return await record_sent(store, (await store.load())[0], mails)


def knows(follower: Correspondents) -> bool:
    return bool(follower.known_now().tokens(answer(at=time.time()), READER, time.time()))


async def test_a_process_follows_what_others_record(client: Redis, store: CorrespondentStore) -> None:
    follower = process(store)
    async with following(client, follower):
        assert not knows(follower)

        await record(store, mail())

        await until(lambda: knows(follower))
        assert knows_of(follower) == (2, 1)


def knows_of(follower: Correspondents) -> tuple[int, int]:
    facts = follower.known_now()
    return len(facts.answers), len(facts.senders)


async def test_nothing_is_stored_but_hashes(client: Redis, store: CorrespondentStore) -> None:
    await record(store, mail())

    dump = str(await client.xrange(KEY)).encode()
    for secret in (b"ann", b"bob", b"partner", OURS[:12]):
        assert secret not in dump


async def test_a_letter_found_later_moves_the_first_time_back(store: CorrespondentStore) -> None:
    await record(store, mail(days=1))
    await record(store, mail(days=200, message_id=b"another.message@example.org"))

    times = (await store.load())[0].senders.find(HASHER.sender(BOB))
    assert times
    assert times[1] - times[0] == pytest.approx(199 * DAY_SECONDS, abs=60)


async def test_the_stream_is_trimmed_by_age(client: Redis, store: CorrespondentStore) -> None:
    for number in range(300):
        await client.xadd(KEY, {"old": "entry"}, id=f"1000-{number + 1}")
    for message_id in (OURS, b"another.message@example.org"):
        await record(store, mail(message_id=message_id))

    assert await store.count() <= 102  # whole nodes of 100 entries go


async def test_a_forgotten_user_is_forgotten_by_all_processes(client: Redis, store: CorrespondentStore) -> None:
    follower = process(store)
    await record(store, mail())
    await record(store, mail("carol@a.example", user="bea@example.org", message_id=b"another.message@example.org"))
    async with following(client, follower):
        assert await store.forget([ANN.upper()], erase=False) == 1
        assert await store.forget([ANN], erase=True) == 1
        assert await store.forget([ANN], erase=True) == 0

        await until(lambda: not knows(follower))
        assert knows_of(follower) == (2, 1)


async def test_hashes_under_another_key_are_left_out_and_said_once(
    client: Redis, store: CorrespondentStore, caplog: pytest.LogCaptureFixture
) -> None:
    await record(store, mail(), mail("carol@a.example", message_id=b"another.message@example.org"))
    other = process(CorrespondentStore(client, KEY, FactHasher(b"other key".ljust(32))))
    async with following(client, other):
        await other.load()

    assert knows_of(other) == (0, 0)
    assert caplog.text.count("every machine needs the same key") == 1


async def test_while_redis_is_away_the_last_copy_holds_and_nobody_waits(own_redis: RedisServer) -> None:
    counts: dict[str, int] = {}
    async with open_client(ConnectionOptions(own_redis.url, timeout_seconds=1), retries=0) as client:
        store = CorrespondentStore(client, KEY, HASHER)
        follower = process(store, counts)
        await record(store, mail())
        async with following(client, follower):
            own_redis.stop()

            await until(lambda: not follower.is_current)
            assert knows(follower)
        for _ in range(MAX_QUEUED + 3):
            follower.note_sent(message(), ANN, [BOB])

    assert counts == {"dropped": 3}


async def test_what_is_erased_while_a_process_reads_all_is_not_known_to_it(
    client: Redis, store: CorrespondentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbstream.correspondents.store._READ_COUNT", 1)  # the erasure comes with a later page

    class ErasedMeanwhile(CorrespondentStore):
        async def read(self) -> AsyncIterator[tuple[bytes, Mapping[bytes, bytes]]]:
            async for entry in super().read():
                yield entry
                await store.forget([ANN], erase=True)

    await record(store, mail())
    follower = process(ErasedMeanwhile(client, KEY, HASHER))
    async with following(client, follower):
        assert not knows(follower)
