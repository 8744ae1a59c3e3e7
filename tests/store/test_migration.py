"""Migration keeps the model of an older version: counts, ledger, and messages whose key differs now."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
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
from nbstream.policy.policy import ThresholdPolicy
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.migration import migrate, migrate_back
from nbstream.store.model.formats import FORMER_SCHEMA, ModelFormats
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_import import ModelImport, finish_import
from nbstream.store.transfer.model_snapshot import ModelSnapshot
from tests.conftest import RedisServer
from tests.letters import letters
from tests.store.proxy import Fate, Proxy
from tests.store.released_models import VERSIONS, VERSIONS_OF_OLD_TOKENIZERS, restore, taught

MODEL = "default"
SETTINGS = config.load_settings(None)


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each released version whose models can be migrated."""
    return str(request.param)


@pytest.fixture
async def old(client: Redis) -> Redis:
    """A Redis with the model of 0.2.0."""
    await restore(client, "0.2.0")
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


async def remember(client: Redis, checked: CheckedMessage) -> None:
    """Remember a checked message, as a daemon does."""
    model = await make_model(SETTINGS, client).open()
    recent = make_recent_messages(SETTINGS, model)
    writing = asyncio.create_task(recent.run())
    recent.remember(checked)
    await recent.wait_until_written()
    writing.cancel()
    await asyncio.wait([writing])


async def recall(client: Redis, key: str) -> CheckedMessage:
    """The message as a daemon that has just been started recalls it."""
    message = await make_recent_messages(SETTINGS, await make_model(SETTINGS, client).open()).recall(key)
    assert message
    return message


async def learned_messages(client: Redis) -> int:
    totals: Any = await client.hmget("nbstream:{default}:totals", "messages:ham", "messages:spam")
    return sum(int(count or 0) for count in totals)


async def content(client: Redis) -> dict[bytes, Any]:
    """All keys but the signatures, byte by byte."""
    keys = sorted([key async for key in client.scan_iter("*") if not key.endswith(b":schema")])
    return {key: await client.dump(key) for key in keys}


def with_encoded_words(mails: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    return [(label, raw) for label, raw in mails if b"=?" in raw]


async def test_an_old_model_is_refused_with_the_command_that_keeps_it(old: Redis) -> None:
    with pytest.raises(StoreIncompatible, match=r"tokenizer 3 \(this is 5\).*stop all.*`nbstream migrate`"):
        await make_model(SETTINGS, old).open()


@pytest.mark.parametrize("version", VERSIONS_OF_OLD_TOKENIZERS)
async def test_each_model_of_an_old_tokenizer_is_refused_until_it_is_migrated(client: Redis, version: str) -> None:
    await restore(client, version)
    with pytest.raises(StoreIncompatible, match=r"\(this is 5\).*stop all.*`nbstream migrate`"):
        await make_model(SETTINGS, client).open()

    assert await migrate(client, MODEL, 1000.5)

    await make_model(SETTINGS, client).open()


@pytest.mark.parametrize(
    ("version", "record"),
    [("0.2.0", b"3 1000.5"), ("0.3.0", b"4 1000.5"), ("0.4.0", None)],
)
async def test_migrating_signs_and_changes_nothing_else(client: Redis, version: str, record: bytes | None) -> None:
    await restore(client, version)
    before = await content(client)

    assert await migrate(client, MODEL, 1000.5)

    assert await content(client) == before
    for schema in ("nbstream:{default}:schema", "nbstream:{default}:auto:0:schema"):
        assert await client.hmget(schema, "schema", "tokenizer", "migrated") == [b"3", b"5", record]
    await opened(client)


async def test_migrating_again_changes_nothing(old: Redis) -> None:
    await migrate(old, MODEL, 1000.5)

    assert not await migrate(old, MODEL, 2000.5)

    assert await old.hget("nbstream:{default}:schema", "migrated") == b"3 1000.5"


async def test_lessons_of_the_older_version_are_unlearned_exactly(client: Redis, version: str) -> None:
    await restore(client, version)
    await migrate(client, MODEL, time.time())
    spam_filter = await opened(client)

    for label, raw in taught():
        lesson = await spam_filter.unlearn(Message.parse(raw), "cli")
        assert (lesson.outcome, lesson.label) == (LessonOutcome.UNLEARNED, label)

    totals = await client.hgetall("nbstream:{default}:totals")
    assert not any(map(int, totals.values()))
    assert await client.exists("nbstream:{default}:counts:ham", "nbstream:{default}:counts:spam") == 0


async def test_a_lesson_of_the_older_version_keeps_its_tokens_until_its_label_is_another(client: Redis) -> None:
    await restore(client, "0.2.0")
    await migrate(client, MODEL, time.time())
    spam_filter = await opened(client)
    label, raw = next((label, raw) for label, raw in taught() if raw.startswith(b"DKIM-Signature"))
    other = "ham" if label == "spam" else "spam"
    former, present = "dkim-signature:v", "dkim-signature:mail.example.org"
    counts = "nbstream:{default}:counts"
    taught_count = await client.hget(f"{counts}:{label}", former)
    assert taught_count

    assert (await spam_filter.learn(Message.parse(raw), label, "cli")).outcome is LessonOutcome.ALREADY
    assert await client.hget(f"{counts}:{label}", former) == taught_count
    assert (await spam_filter.learn(Message.parse(raw), other, "cli")).outcome is LessonOutcome.RELEARNED

    left = await client.hget(f"{counts}:{label}", former)
    assert int(left or 0) < int(taught_count)
    assert await client.hget(f"{counts}:{other}", present)


async def test_a_lesson_of_the_older_version_is_insisted_on_and_taken_back_exactly(
    client: Redis, version: str
) -> None:
    await restore(client, version)
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


async def test_back_and_forth_leaves_the_signature_of_the_older_version(client: Redis, version: str) -> None:
    await restore(client, version)
    before = await client.hgetall("nbstream:{default}:schema"), await content(client)
    await migrate(client, MODEL, time.time())

    assert await migrate_back(client, MODEL)  # to the former schema
    if version in VERSIONS_OF_OLD_TOKENIZERS:
        assert await migrate_back(client, MODEL)  # to the former tokenizer
        assert not await migrate_back(client, MODEL)

    assert (await client.hgetall("nbstream:{default}:schema"), await content(client)) == before


async def test_the_way_back_has_a_step_for_each_version_that_changed_something(client: Redis) -> None:
    await restore(client, "0.2.0")
    schema = "nbstream:{default}:schema"
    await client.hset(schema, mapping={"tokenizer": "3", "migrated": "2 1000.5"})  # as 0.2.0 migrated it

    assert await migrate(client, MODEL, 2000.5)
    steps = [await client.hmget(schema, "schema", "tokenizer", "migrated")]
    while await migrate_back(client, MODEL):
        steps.append(await client.hmget(schema, "schema", "tokenizer", "migrated"))

    assert steps == [
        [b"3", b"5", b"2 1000.5,3 2000.5"],
        [b"2", b"5", b"2 1000.5,3 2000.5"],  # a model of 0.4.0
        [b"2", b"3", b"2 1000.5"],  # a model of 0.2.0
    ]


async def test_a_model_of_this_version_goes_back_to_the_former_schema_and_no_further(client: Redis) -> None:
    model = await make_model(SETTINGS, client).open()
    assert not await migrate(client, MODEL, 1.0)

    assert await migrate_back(client, MODEL)

    assert await client.hget(model.keys.schema, "schema") == b"2"
    with pytest.raises(StoreIncompatible, match="never migrated"):
        await migrate_back(client, MODEL)


async def test_a_model_of_the_former_version_is_used_with_its_forms_until_it_is_migrated(client: Redis) -> None:
    await restore(client, "0.4.0")
    signatures = "nbstream:{default}:schema", "nbstream:{default}:auto:0:schema"
    before = [await client.hgetall(signature) for signature in signatures]

    formats = (await make_model(SETTINGS, client).open()).formats
    await make_autolearn_model(SETTINGS, client).open()
    assert (formats.schema, formats.zstd_messages, formats.batch_lessons) == (2, False, False)
    assert [await client.hgetall(signature) for signature in signatures] == before  # 0.4.0 can still use it

    await migrate(client, MODEL, 1.0)

    formats = (await make_model(SETTINGS, client).open()).formats
    assert (formats.schema, formats.zstd_messages, formats.batch_lessons) == (3, True, True)


async def test_a_new_model_has_the_present_schema_and_so_has_its_layer(client: Redis) -> None:
    model = await make_model(SETTINGS, client).open()
    layer = await make_autolearn_model(SETTINGS, client).open()

    assert (model.formats.schema, layer.formats.schema) == (3, 3)


async def test_a_new_layer_has_the_schema_of_its_model(client: Redis) -> None:
    await restore(client, "0.4.0")
    await make_autolearn_model(SETTINGS, client).drop_epoch()

    layer = await make_autolearn_model(SETTINGS, client).open()

    assert layer.keys.schema == "nbstream:{default}:auto:1:schema"
    assert await client.hget(layer.keys.schema, "schema") == b"2"


async def test_checked_messages_are_recalled_before_the_migration_after_it_and_after_the_way_back(
    client: Redis,
) -> None:
    await restore(client, "0.4.0")
    keys = [Message.parse(raw).key for _, raw in taught()[:3]]
    recalled = [await recall(client, key) for key in keys]

    await migrate(client, MODEL, 1.0)
    assert [await recall(client, key) for key in keys] == recalled
    await remember(client, CheckedMessage("another", recalled[0].tokens, 0.5, "unsure"))

    await migrate_back(client, MODEL)
    assert [await recall(client, key) for key in keys] == recalled
    packed: Any = await client.get("nbstream:{default}:checked:another")
    assert packed == (await recall(client, "another")).pack(ModelFormats(FORMER_SCHEMA))


async def test_two_processes_of_one_model_read_each_other_s_forms(client: Redis) -> None:
    await restore(client, "0.4.0")
    before_migration = await opened(client)
    await migrate(client, MODEL, 1.0, force=True)
    after_migration = await opened(client)
    messages = [(label, Message.parse(raw)) for label, raw in letters(8, seed=77)]
    learned = await learned_messages(client)

    for number, (label, message) in enumerate(messages):
        teacher, other = (before_migration, after_migration)[:: 1 if number % 2 else -1]
        assert (await teacher.learn(message, label, "smtp")).outcome is LessonOutcome.LEARNED
        assert (await other.learn(message, label, "smtp")).outcome is LessonOutcome.ALREADY
    assert await learned_messages(client) == learned + 8
    for number, (_, message) in enumerate(messages):
        teacher, other = (before_migration, after_migration)[:: -1 if number % 2 else 1]
        assert (await teacher.unlearn(message, "smtp")).outcome is LessonOutcome.UNLEARNED

    assert await learned_messages(client) == learned


@pytest.mark.parametrize(("field", "value"), [("schema", "999"), ("tokenizer", "1"), ("classes", "a,b")])
async def test_a_model_of_another_kind_is_refused(old: Redis, field: str, value: str) -> None:
    await old.hset("nbstream:{default}:schema", field, value)

    with pytest.raises(StoreIncompatible, match=rf"{field} {value} .*cannot be migrated"):
        await migrate(old, MODEL, 1.0)


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
        assert await old.hmget("nbstream:{default}:schema", "schema", "tokenizer") == [b"2", b"3"]

        assert await migrate(old, MODEL, 1.0, force=True)


@asynccontextmanager
async def on_the_way_back(
    server: RedisServer, folder: Path, happen: Callable[[], Awaitable[object]]
) -> AsyncIterator[Redis]:
    """A client for the way back; once, in the middle of the conversion of messages, something happens."""
    has_happened = False

    async def decide(request: bytes) -> Fate:
        nonlocal has_happened
        if b"MGET" in request and not has_happened:
            has_happened = True
            await happen()
        return Fate.PASS

    async with Proxy(Path(server.url.removeprefix("unix://")), folder / "p.sock", decide) as proxy:
        client = open_client(ConnectionOptions(proxy.url))
        try:
            yield client
        finally:
            await client.aclose()
    assert has_happened


async def test_a_daemon_that_starts_on_the_way_back_is_seen(
    client: Redis, shared_redis: RedisServer, tmp_path: Path
) -> None:
    await restore(client, "0.4.0")
    await migrate(client, MODEL, 1.0)
    async with AsyncExitStack() as stack:

        async def start_daemon() -> None:
            await stack.enter_async_context(follower(shared_redis, MODEL))

        async with on_the_way_back(shared_redis, tmp_path, start_daemon) as converting:
            with pytest.raises(DaemonRunning, match="stop all daemons"):
                await migrate_back(converting, MODEL)
    assert await client.hget("nbstream:{default}:schema", "schema") == b"3"

    assert await migrate_back(client, MODEL)


async def test_a_message_that_is_remembered_on_the_way_back_is_converted_too(
    client: Redis, shared_redis: RedisServer, tmp_path: Path
) -> None:
    await restore(client, "0.4.0")
    await migrate(client, MODEL, 1.0)
    tokens = (await recall(client, Message.parse(taught()[0][1]).key)).tokens
    late = CheckedMessage("late", tokens, 0.5, "unsure")

    async with on_the_way_back(shared_redis, tmp_path, lambda: remember(client, late)) as converting:
        with pytest.raises(StoreUnavailable, match="try again"):
            await migrate_back(converting, MODEL, force=True)
    assert await client.hget("nbstream:{default}:schema", "schema") == b"3"

    assert await migrate_back(client, MODEL, force=True)
    packed: Any = await client.get("nbstream:{default}:checked:late")
    assert packed == late.pack(ModelFormats(FORMER_SCHEMA))


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


async def test_an_export_of_the_older_version_can_be_imported(client: Redis, version: str) -> None:
    await restore(client, version)
    tokenizer: Any = await client.hget("nbstream:{default}:schema", "tokenizer")
    await migrate(client, MODEL, time.time())
    file = await exported(client)
    while version in VERSIONS_OF_OLD_TOKENIZERS and await migrate_back(client, MODEL):
        pass
    of_old = await exported(client, {**archive.archive_signature(), "tokenizer": tokenizer.decode()})

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
        header = archive.new_header(written, header.records, header.half_life, header.exported)
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
