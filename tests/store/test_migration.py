"""Migration keeps the model of an older tokenizer: its counts, its ledger and what is remembered.

The tokenizer of 0.7.0 is that of this version. What migration will do after the next change of the tokenizer is
shown with that model, to a program that says that its own tokenizer is the next one.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream import config
from nbstream.assembly.filter import make_filter
from nbstream.assembly.store import make_autolearn_model, make_model, make_recent_messages
from nbstream.errors import DaemonRunning, StoreIncompatible, StoreUnavailable
from nbstream.filter import AutolearnLayer, Filter, FilterPolicy, LessonOutcome
from nbstream.mail.message import Message
from nbstream.policy.lesson_source import Insistence
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.migration import migrate, migrate_back
from nbstream.store.model import signature
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_import import ModelImport, finish_import
from nbstream.store.transfer.model_snapshot import ModelSnapshot
from tests.conftest import RedisServer
from tests.store.released_models import TOKENIZER, restore, taught

MODEL = "default"
SETTINGS = config.load_settings(None)


@pytest.fixture(autouse=True)
def next_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has the tokenizer after that of 0.7.0, and can migrate models of that one."""
    monkeypatch.setattr(signature, "TOKENIZER_VERSION", TOKENIZER + 1)
    monkeypatch.setattr(signature, "FORMER_TOKENIZERS", (str(TOKENIZER),))


@pytest.fixture
async def old(client: Redis) -> Redis:
    """A Redis with the model of 0.7.0."""
    await restore(client)
    return client


async def opened(client: Redis) -> Filter:
    model = make_model(SETTINGS, client)
    await model.open(sign=False)
    layer = make_autolearn_model(SETTINGS, client)
    await layer.open(sign=False)
    recent = make_recent_messages(SETTINGS, model)
    return make_filter(
        SETTINGS, model, model, checked_messages=recent, autolearn_layer=AutolearnLayer(layer, layer)
    )


async def learned_messages(client: Redis) -> int:
    totals: Any = await client.hmget("nbstream:{default}:totals", "messages:ham", "messages:spam")
    return sum(int(count or 0) for count in totals)


async def content(client: Redis) -> dict[bytes, Any]:
    """All keys but the signatures, byte by byte."""
    keys = sorted([key async for key in client.scan_iter("*") if not key.endswith(b":schema")])
    return {key: await client.dump(key) for key in keys}


async def test_an_old_model_is_refused_with_the_command_that_keeps_it(old: Redis) -> None:
    with pytest.raises(StoreIncompatible, match=r"tokenizer 5 \(this is 6\).*stop all.*`nbstream migrate`"):
        await make_model(SETTINGS, old).open()


async def test_migrating_signs_and_changes_nothing_else(old: Redis) -> None:
    before = await content(old)

    assert await migrate(old, MODEL, 1000.5)

    assert await content(old) == before
    for schema in ("nbstream:{default}:schema", "nbstream:{default}:auto:0:schema"):
        assert await old.hmget(schema, "schema", "tokenizer", "migrated") == [b"3", b"6", b"5 1000.5"]
    await opened(old)


async def test_migrating_again_changes_nothing(old: Redis) -> None:
    await migrate(old, MODEL, 1000.5)

    assert not await migrate(old, MODEL, 2000.5)

    assert await old.hget("nbstream:{default}:schema", "migrated") == b"5 1000.5"


async def test_lessons_of_the_older_version_are_unlearned_exactly(client: Redis) -> None:
    await restore(client)
    await migrate(client, MODEL, time.time())
    spam_filter = await opened(client)

    for label, raw in taught():
        lesson = await spam_filter.unlearn(Message.parse(raw), "cli")
        assert (lesson.outcome, lesson.label) == (LessonOutcome.UNLEARNED, label)

    totals = await client.hgetall("nbstream:{default}:totals")
    assert not any(map(int, totals.values()))
    assert await client.exists("nbstream:{default}:counts:ham", "nbstream:{default}:counts:spam") == 0


async def test_a_lesson_of_the_older_version_is_insisted_on_and_taken_back_exactly(client: Redis) -> None:
    await restore(client)
    await migrate(client, MODEL, time.time())
    nearly_all_is_spam = FilterPolicy(ThresholdPolicy(unsure=1e-12), {"spam": 1, "ham": 1})
    spam_filter = (await opened(client)).with_policy(nearly_all_is_spam)
    messages = [(label, Message.parse(raw)) for label, raw in taught()]
    learned = await learned_messages(client)

    for label, message in messages:
        lesson = await spam_filter.learn(message, label, "smtp", "ann", Insistence.AFTER_PAUSE)
        assert lesson.outcome is (LessonOutcome.INSISTED if label == "ham" else LessonOutcome.ALREADY)
    assert await learned_messages(client) == learned
    for _, message in messages:
        await spam_filter.unlearn(message, "smtp")

    assert await learned_messages(client) == 0
    assert await client.exists("nbstream:{default}:counts:ham", "nbstream:{default}:counts:spam") == 0


async def test_back_and_forth_leaves_the_signature_of_the_older_version(client: Redis) -> None:
    await restore(client)
    before = await client.hgetall("nbstream:{default}:schema"), await content(client)
    await migrate(client, MODEL, time.time())

    assert await migrate_back(client, MODEL)
    assert not await migrate_back(client, MODEL)

    assert (await client.hgetall("nbstream:{default}:schema"), await content(client)) == before


@pytest.mark.parametrize(("field", "value"), [("schema", "999"), ("tokenizer", "1"), ("classes", "a,b")])
async def test_a_model_of_another_kind_is_refused(old: Redis, field: str, value: str) -> None:
    await old.hset("nbstream:{default}:schema", field, value)

    with pytest.raises(StoreIncompatible, match=rf"{field} {value} .*cannot be migrated"):
        await migrate(old, MODEL, 1.0)


async def test_each_migration_leaves_a_record_and_can_be_taken_back(
    old: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(old, MODEL, 1000.5)
    monkeypatch.setattr(signature, "TOKENIZER_VERSION", 7)
    monkeypatch.setattr(signature, "FORMER_TOKENIZERS", ("5", "6"))

    assert await migrate(old, MODEL, 2000.5)

    schema = "nbstream:{default}:schema"
    assert await old.hmget(schema, "tokenizer", "migrated") == [b"7", b"5 1000.5,6 2000.5"]
    assert await migrate_back(old, MODEL)
    assert await old.hmget(schema, "tokenizer", "migrated") == [b"6", b"5 1000.5"]


async def test_a_model_that_was_never_migrated_does_not_go_back(client: Redis) -> None:
    await make_model(SETTINGS, client).open()

    with pytest.raises(StoreIncompatible, match="never migrated"):
        await migrate_back(client, MODEL)


async def test_a_missing_model_is_named_in_the_error(client: Redis) -> None:
    with pytest.raises(StoreIncompatible, match="there is no model 'other'"):
        await migrate(client, "other", 1.0)


async def test_while_an_import_is_under_way_nothing_is_migrated(old: Redis) -> None:
    await old.set("nbstream:{default}:importing", "staging x")

    with pytest.raises(StoreUnavailable, match="import"):
        await migrate(old, MODEL, 1.0)


@asynccontextmanager
async def follower(server: RedisServer, model: str | None) -> AsyncIterator[None]:
    """A client that follows a stream, as a daemon does: of a version that gives no name, or of ``model``."""
    client = open_client(ConnectionOptions(server.url, model=model))
    read: Any = client.xread({"nbstream:{default}:changes": "$"}, block=4000)
    following = asyncio.create_task(read)
    watching = open_client(ConnectionOptions(server.url))
    try:
        for _ in range(1000):
            if any(connection["cmd"] == "xread" for connection in await watching.client_list()):
                break
            await asyncio.sleep(0)
        yield
    finally:
        following.cancel()
        await asyncio.wait([following])
        await client.aclose()
        await watching.aclose()


@pytest.mark.parametrize("model", [None, MODEL])
async def test_while_a_daemon_follows_the_model_nothing_is_migrated(
    old: Redis, shared_redis: RedisServer, model: str | None
) -> None:
    async with follower(shared_redis, model):
        with pytest.raises(DaemonRunning, match="stop all daemons"):
            await migrate(old, MODEL, 1.0)
        assert await old.hget("nbstream:{default}:schema", "tokenizer") == b"5"

        assert await migrate(old, MODEL, 1.0, force=True)


async def test_a_daemon_with_another_model_does_not_hinder(old: Redis, shared_redis: RedisServer) -> None:
    async with follower(shared_redis, "another"):
        assert await migrate(old, MODEL, 1.0)


async def test_where_redis_hides_its_clients_the_answer_is_not_guessed(
    old: Redis, shared_redis: RedisServer
) -> None:
    await old.acl_setuser(
        "narrow", enabled=True, nopass=True, commands=["+@all", "-client|list"], keys=["*"], channels=["*"]
    )
    narrow = open_client(ConnectionOptions(shared_redis.url.replace("unix://", "unix://narrow:x@")))
    try:
        with pytest.raises(DaemonRunning, match="--force"):
            await migrate(narrow, MODEL, 1.0)
        assert await migrate(narrow, MODEL, 1.0, force=True)
    finally:
        await narrow.aclose()
        await old.acl_deluser("narrow")


async def test_an_export_of_the_older_version_can_be_imported(client: Redis) -> None:
    await restore(client)
    await migrate(client, MODEL, time.time())
    file = await exported(client)
    await migrate_back(client, MODEL)
    of_old = await exported(client, {**archive.archive_signature(), "tokenizer": str(TOKENIZER)})

    for stream in (file, of_old):
        await client.flushall()
        await imported(client, stream)
        spam_filter = await opened(client)
        outcomes = [(await spam_filter.learn(Message.parse(raw), label, "cli")).outcome for label, raw in taught()]
        assert outcomes == [LessonOutcome.ALREADY] * 12


async def exported(client: Redis, written: dict[str, str] | None = None) -> io.BytesIO:
    """The model as a file; with the signature ``written``, as the older version wrote it."""
    model = make_model(SETTINGS, client)
    stream = io.BytesIO()
    snapshot = ModelSnapshot(model)
    header = await snapshot.header()
    if written:
        header = archive.new_header(written, header.records)
    writer = archive.ArchiveWriter(stream, header)
    async for record in snapshot.records():
        writer.write(record)
    writer.finish()
    return stream


async def imported(client: Redis, stream: io.BytesIO) -> None:
    model = make_model(SETTINGS, client)
    await model.open()
    layer = make_autolearn_model(SETTINGS, client)
    await layer.open()
    stream.seek(0)
    reader = archive.ArchiveReader(stream, "file", archive.archive_signature())
    into = ModelImport(model, merge=False)
    await into.begin()
    for record in reader:
        await into.stage(record)
    await into.mark_ready()
    await finish_import(model)
