"""The rights of the user ``nbstream`` in ``deploy/redis/redis.conf`` are enough for all that it has in Redis."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.correspondents.store import CorrespondentStore, record_sent
from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.sender_lists import SITE, ListKind
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.logins import AttemptCounts, PageSessionStore
from nbstream.store.recent.message_rows import MessageRow, OutcomeKind, QuarantineOutcomes, RowFilter, RowSearch
from nbstream.store.sender_lists import FollowedSenderLists, StoredSenderLists
from nbstream.store.transfer.model_import import ModelImport
from nbstream.web.users.links import LinkKeys
from nbstream.web.users.preferences import UserPreferences
from tests.correspondents.mail import ANN as ANN_OF_FACTS
from tests.correspondents.mail import HASHER, sent
from tests.filter.own_models.test_filters import news
from tests.harness.followers import following
from tests.harness.lessons import TOKENS, change, entry
from tests.harness.model_archives import export_model, import_model, open_model
from tests.harness.own_model_site import ANN, open_site
from tests.harness.redis.redis_server import RedisServer
from tests.harness.rows import KEYS, NOW, envelope, message_id, write_rows
from tests.harness.waiting import until

CONF = Path(__file__).parents[2] / "deploy" / "redis" / "redis.conf"


@pytest.fixture
async def limited_client(own_redis: RedisServer) -> AsyncIterator[Redis]:
    """A client that has logged in as that user."""
    (line,) = [line for line in CONF.read_text().splitlines() if line.startswith("user nbstream ")]
    async with open_client(ConnectionOptions(own_redis.url)) as admin:
        await admin.execute_command("ACL", "SETUSER", *line.split()[1:])  # type: ignore[no-untyped-call]  # redis-py has no type here
    options = ConnectionOptions(own_redis.url, user="nbstream", password="CHANGE-NBSTREAM")
    async with open_client(options, retries=0) as client:
        yield client


async def test_users_have_links_and_switch_their_digests_off(limited_client: Redis) -> None:
    assert await LinkKeys(limited_client, KEYS).signer()
    preferences = UserPreferences(limited_client, KEYS)
    for wanted in (False, True):
        await preferences.set_digest("ann@example.org", wanted=wanted)
        assert await preferences.wants_digest("ann@example.org") is wanted


async def test_sender_lists_are_changed_and_followed(limited_client: Redis) -> None:
    stored, followed = StoredSenderLists(limited_client, KEYS), FollowedSenderLists(limited_client, KEYS)

    async with following(limited_client, followed):
        for owner in (SITE, "ann@example.org"):
            await stored.add(owner, ListKind.BLOCK, SenderPattern.parse("a.example"), "ann")
        await stored.remove(SITE, SenderPattern.parse("a.example"))
        await until(lambda: list(followed.by_owner) == ["ann@example.org"])

        await stored.forget("ann@example.org")
        await until(lambda: not followed.by_owner)


async def test_people_log_in_and_out(limited_client: Redis) -> None:
    store = PageSessionStore(limited_client, KEYS)

    link = await store.use_link(await store.create_link("teach", "ann"))
    token = await store.create_session("read", "bob", "secret")
    session = await store.find_session(token)
    await store.end_session(token)

    assert link is not None
    assert session is not None
    assert (link.name, session.name, await store.find_session(token)) == ("ann", "bob", None)
    assert [each.count for each in await AttemptCounts(limited_client, KEYS).add(["a", "b"])] == [
        1,
        1,
    ]


async def test_rows_are_written_replaced_forgotten_and_found(limited_client: Redis) -> None:
    rows = [MessageRow(message_id(number), NOW + number, "ham", 0.5, envelope=envelope()) for number in range(3)]
    await write_rows(limited_client, [rows[0], *rows], messages=2)
    search = RowSearch(limited_client, KEYS, 3600, lambda: NOW)

    for wanted in (
        RowFilter(),
        RowFilter(verdict="ham", sender="@x.example"),
        RowFilter(recipient="bob@y.example"),
        RowFilter(id_prefix=rows[1].id[:9]),
    ):
        assert rows[1] in (await search.search(wanted)).rows
    assert await search.count() == 2
    await QuarantineOutcomes(limited_client, KEYS).note(rows[1].id, OutcomeKind.RELEASED, "ann")
    found = await search.rows([rows[1].id])
    assert found[rows[1].id].outcome is not None


async def test_own_models_are_taught_and_followed(limited_client: Redis) -> None:
    async with open_site(limited_client) as site, open_site(limited_client) as other:
        followed = await other.models.load("example.org/ann")

        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")

        await until(lambda: followed.totals is not None and sum(followed.totals.messages) == 1)


async def test_own_models_are_listed_and_removed(limited_client: Redis) -> None:
    index = OwnModelIndex(limited_client, "test")
    await index.add("example.org/ann")

    await index.remove(["example.org/ann"])

    assert await index.names() == []


async def test_models_are_exported_and_imported(limited_client: Redis) -> None:
    source, target = [await open_model(limited_client, name) for name in ("source", "target")]
    await change(source, "m1", entry("spam", TOKENS))
    content = await export_model(source)
    await ModelImport(target).begin()  # one that is killed

    await import_model(target, content)

    assert (await target.totals()).messages == (0, 1)


async def test_correspondents_are_recorded_and_forgotten(limited_client: Redis) -> None:
    store = CorrespondentStore(limited_client, KEYS.correspondents, HASHER)
    await record_sent(store, (await store.load())[0], [sent(at=time.time())])

    assert await store.forget([ANN_OF_FACTS], erase=True) == 1
