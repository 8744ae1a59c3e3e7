"""Each Lua script writes all that it writes, or nothing: whatever key is broken, whatever command is forbidden.

A scenario uses the store as the daemon does. Each of its calls of a script is repeated from the same keys: once as
it was, and then with each key as a list, which no script can use, with each value as text, which is no number,
without the right to run each of its commands, and without memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from nbstream.bayes.columns import CLASSES
from nbstream.listeners.stream.queue import StreamQueue
from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.sender_lists import ListKind
from nbstream.store import lua
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.embedded import find_servers
from nbstream.store.lua import lua_script
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import Lesson, LessonBatch
from nbstream.store.recent.message_rows import MessageRow, OutcomeKind, QuarantineOutcomes
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.store.transfer.model_snapshot import ModelSnapshot
from tests.harness.lessons import NOTE, SUM_NAMES, TOKENS, entry
from tests.harness.model_archives import export_model, import_model, open_model
from tests.harness.programs import missing
from tests.harness.redis.redis_server import RedisServer
from tests.harness.rows import KEYS, NOW, envelope, message_id, write_rows
from tests.store.model.test_prequential_scores import entry as scored_entry

Scenario = Callable[[Redis], Awaitable[object]]
State = Mapping[bytes, tuple[bytes, int]]
"""Of each key its dump and the milliseconds until it expires."""

MANY = [b"t%d" % n for n in range(1100)]  # two chunks of the script that learns
ANN = "ann@example.org"


async def learn(client: Redis) -> None:
    model = Model(client, "test", 3600, prequential_scores=2)
    await model.open()
    sums = [(SUM_NAMES[0], 7)]
    learned = entry("spam", MANY, sums=sums)
    await model.commit_lesson("m1", None, learned, NOTE)
    await model.commit_lesson("m1", await model.entry("m1"), entry("ham", TOKENS, sums=sums), NOTE)
    for number in range(4):
        await model.commit_lesson(f"s{number}", None, scored_entry("s", "ham", float(number), 0.5, None), NOTE)
    others = [Lesson(f"n{number}", None, entry("spam", TOKENS), NOTE) for number in range(3)]
    await model.commit_lessons(LessonBatch([*others, Lesson("m1", await model.entry("m1"), None, NOTE)]))
    await model.commit_lesson("s3", await model.entry("s3"), None, NOTE)
    await model.commit_lesson("m2", None, entry("auto-ham:0", TOKENS), NOTE)
    await model.commit_lesson("m2", await model.entry("m2"), entry("spam", TOKENS), NOTE)


async def evict(client: Redis) -> None:
    model = Model(client, "test", 3600)
    await model.open()
    await model.commit_lesson("m1", None, entry("spam", TOKENS), NOTE)
    await model.commit_lesson("m2", None, entry("ham", TOKENS[:2]), NOTE)
    counts, _ = await model.look_up(TOKENS)
    assert await model.evict(TOKENS, np.asarray(counts), 2, CLASSES)


async def position(client: Redis) -> None:
    await (await open_model(client, "test")).position()


async def forget_automatic(client: Redis) -> None:
    model = await open_model(client, "test")
    await model.commit_lesson("m1", None, entry("auto-spam:0", TOKENS), NOTE)
    await model.forget_automatic()


async def commit_import(client: Redis) -> None:
    source = await open_model(client, "source")
    for number in range(3):
        await source.commit_lesson(f"s{number}", None, scored_entry("s", "ham", float(number), 0.5, None), NOTE)
    await import_model(await open_model(client, "target"), await export_model(source))


async def changes_since(client: Redis) -> None:
    model = await open_model(client, "test")
    await model.commit_lesson("m1", None, entry("spam", TOKENS), NOTE)
    async for _ in ModelSnapshot(model).records():
        pass


async def remember(client: Redis) -> None:
    rows = [MessageRow(message_id(number), NOW + number, "ham", 0.5, envelope=envelope()) for number in range(3)]
    other = MessageRow(rows[1].id, NOW, "ham", 0.5, envelope=envelope(recipients=["eve@z.example"]))
    await write_rows(client, rows[:2])
    await write_rows(client, [rows[2], other, rows[1]], messages=2)


async def note_outcome(client: Redis) -> None:
    await write_rows(client, [MessageRow(message_id(1), NOW, "ham", 0.5, envelope=envelope())])
    await QuarantineOutcomes(client, KEYS).note(message_id(1), OutcomeKind.RELEASED, "ann")


async def sender_list(client: Redis) -> None:
    lists, sender = StoredSenderLists(client, KEYS), SenderPattern.parse("a.example")
    for kind in (ListKind.BLOCK, ListKind.ALLOW):
        await lists.add(ANN, kind, sender, "ann")
    await lists.add(ANN, ListKind.BLOCK, SenderPattern.parse("b.example"), "ann")
    await lists.remove(ANN, sender)
    await lists.forget(ANN)


async def queue(client: Redis) -> None:
    one, other = (StreamQueue(client, client, KEYS, claim_seconds=0.0, tries=2) for _ in range(2))
    await one.open()
    fields: dict[Any, Any] = {"id": "1", "text": "hello"}
    for _ in range(2):
        await client.xadd(KEYS.incoming, fields)
    first, _ = await one.take(2)
    await one.answer(first.stream_id, {"verdict": "ham"})
    for _ in range(2):  # claimed, then a dead letter
        await other.claim()
    await one.remove_idle_consumers(leave=True)


SCENARIOS: Mapping[str, Scenario] = {
    "learn.lua": learn,
    "position.lua": position,
    "evict.lua": evict,
    "forget_automatic.lua": forget_automatic,
    "commit_import.lua": commit_import,
    "changes_since.lua": changes_since,
    "remember.lua": remember,
    "note_outcome.lua": note_outcome,
    "sender_list.lua": sender_list,
    "answer.lua": queue,
    "claim.lua": queue,
    "remove_consumers.lua": queue,
}


@dataclass(frozen=True)
class Call:
    """A call of a script, and the keys before it."""

    arguments: tuple[Any, ...]
    before: State


async def state_of(client: Any) -> State:
    names = sorted(await client.keys())
    dumps = [(await client.dump(name), await client.pttl(name)) for name in names]
    return {name: (dump or b"", milliseconds) for name, (dump, milliseconds) in zip(names, dumps, strict=True)}


async def restore(client: Any, state: State) -> None:
    await client.flushdb()
    for name, (dump, milliseconds) in state.items():
        await client.restore(name, max(0, milliseconds), dump)


async def value_of(client: Any, key: bytes) -> Any:
    """What a key holds: a dump of the same hash may have its fields in another order."""
    match await client.type(key):
        case b"hash":
            return await client.hgetall(key)
        case b"zset":
            return await client.zrange(key, 0, -1, withscores=True)
        case b"stream":
            groups = await client.xinfo_groups(key)
            held = [
                (item["message_id"], item["consumer"], item["times_delivered"])
                for group in groups
                for item in await client.xpending_range(key, group["name"], "-", "+", 100)
            ]
            return await client.xrange(key), groups, held
        case _:
            return await client.dump(key)


async def content(client: Any) -> Mapping[bytes, Any]:
    return {name: await value_of(client, name) for name in await client.keys()}


async def key_names(client: Any) -> set[bytes]:
    return set(await client.keys())


async def calls_of(client: Any, script: str) -> list[Call]:
    """Play the scenario of the script, and return its calls."""
    calls: list[Call] = []
    own_digest = client.register_script(lua_script(script)).sha
    evalsha = client.evalsha

    async def noted(digest: str, *arguments: Any) -> Any:
        if digest == own_digest:
            values = [bytes(value) if isinstance(value, memoryview) else value for value in arguments]
            calls.append(Call((digest, *values), await state_of(client)))
        return await evalsha(digest, *arguments)

    client.evalsha = noted
    try:
        await SCENARIOS[script](client)
    finally:
        client.evalsha = evalsha
    return calls


async def commands_of(client: Redis, call: Call) -> tuple[set[str], set[bytes]]:
    """Run the call, and return the commands that the script runs and the keys that they have."""
    names, keys = set(), set()
    async with client.monitor() as monitor:
        await client.evalsha(*call.arguments)
        await client.echo("done")
        while (seen := await monitor.next_command())["command"] != "ECHO done":
            if seen["client_type"] != "lua":
                continue
            name, *words = seen["command"].split(" ")
            names.add(name.upper())
            keys |= {
                word.encode() for word in words if word.startswith("nbstream:") and not word.endswith(":none")
            }
    return names, keys


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(0, id="best server"),
        pytest.param(1, id="bundled server", marks=pytest.mark.soak),  # it takes as long again
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with a user ``limited``: the programs of this machine, also Redis 6.2, which tells no rights."""
    programs = find_servers()
    if request.param >= len(programs):
        missing("a second Redis or Valkey server")
    server = RedisServer(programs[request.param], tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def admin(server: RedisServer) -> AsyncIterator[Redis]:
    async with open_client(ConnectionOptions(server.url), retries=0) as client:
        await client.config_set("maxmemory", 0)
        await client.flushall()
        yield client


def test_each_script_has_a_scenario() -> None:
    scripts = {path.name for path in Path(lua.__file__).parent.glob("*.lua")}
    assert SCENARIOS.keys() == scripts - {"checks.lua"}


async def assert_all_or_nothing(admin: Any, user: Any, call: Call, after: set[bytes], broken: str) -> None:
    """Run the call; after an error nothing has changed, and else all keys are there that ``after`` has."""
    before = await content(admin)
    error = None
    try:
        await user.evalsha(*call.arguments)
    except ResponseError as refusal:
        error = refusal
    is_done = error is None and await key_names(admin) >= after - {broken.encode()}
    assert is_done or await content(admin) == before, f"{broken}: {error}"


async def set_all_to_text(client: Any, key: bytes) -> None:
    match await client.type(key):
        case b"hash":
            for field in await client.hkeys(key):
                await client.hset(key, field, "x")
        case b"string":
            await client.set(key, "x", keepttl=True)


@pytest.mark.parametrize("script", sorted(SCENARIOS))
async def test_a_script_does_all_or_nothing(server: RedisServer, admin: Any, script: str) -> None:
    options = ConnectionOptions(server.url, user="limited", password="secret")
    calls = await calls_of(admin, script)
    assert calls
    for call in calls:
        await restore(admin, call.before)
        commands, keys = await commands_of(admin, call)
        after = await key_names(admin)

        for key in keys:
            await restore(admin, call.before)
            await admin.delete(key)
            await admin.rpush(key, "x")
            await assert_all_or_nothing(admin, admin, call, after, key.decode())

            await restore(admin, call.before)
            await set_all_to_text(admin, key)
            await assert_all_or_nothing(admin, admin, call, after, key.decode())

        for command in commands:
            await restore(admin, call.before)
            rights = ("on", ">secret", "~*", "+@all", f"-{command.lower()}")
            await admin.execute_command("ACL", "SETUSER", "limited", "reset", *rights)
            async with open_client(options, retries=0) as limited:
                await assert_all_or_nothing(admin, limited, call, after, command)

        await restore(admin, call.before)
        await admin.config_set("maxmemory", 1)
        await assert_all_or_nothing(admin, admin, call, after, "memory")
        await admin.config_set("maxmemory", 0)
