"""A batch of lessons is one atomic step, and leaves what the same lessons leave one after the other."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import Sums
from nbstream.errors import StoreRefuses
from nbstream.policy.thresholds import PrequentialScore
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import Lesson, LessonBatch
from tests.harness.algebra import equals_redis_exactly, stored, summed
from tests.harness.followers import running
from tests.harness.lessons import NOTE, SUM_NAMES, TOKENS
from tests.harness.redis.proxy import Fate, Proxy
from tests.harness.redis.redis_server import RedisServer

MESSAGES = [f"m{n}" for n in range(6)]
LIMIT = 3  # prequential scores

Round: TypeAlias = "dict[str, Content]"
"""What the messages of one batch are learned as."""

Content: TypeAlias = "tuple[str, list[bytes], int, Sums, int] | None"
"""What a message is learned as: label, tokens, weight, sums, and the time of its label. None unlearns it."""

contents = st.none() | st.tuples(
    st.sampled_from(CLASSES),
    st.lists(st.sampled_from(TOKENS), unique=True),
    st.sampled_from([0, 1, 1000]),
    st.lists(
        st.tuples(st.sampled_from(SUM_NAMES), st.sampled_from([0, 1, 10**9])), unique_by=lambda sum_: sum_[0]
    ),
    st.integers(0, 9),
)
rounds = st.lists(st.dictionaries(st.sampled_from(MESSAGES), contents, min_size=1), min_size=1, max_size=5)


async def open_model(client: Redis, name: str = "test") -> Model:
    model = Model(client, name, 3600, prequential_scores=LIMIT)
    return await model.open()


def entry_of(message_key: str, content: Content, old: LedgerEntry | None) -> LedgerEntry | None:
    """An entry as the filter writes it: a message that was learned before keeps its prequential score."""
    if content is None:
        return None
    label, tokens, weight, sums, at = content
    first = old.prequential_score if old else PrequentialScore(float(at), message_key, 0.25).pack()
    return LedgerEntry(
        secrets.token_hex(4), label, weight, tuple(tokens), float(at), "test", "nobody", 0.5, tuple(sums), first
    )


async def everything(model: Model) -> dict[str, Any]:
    """All keys of a model and what they hold, without the ids and times of changes and of records."""
    found: dict[str, Any] = {}
    client: Any = model.client  # redis-py's types of replies are unions
    async for raw in client.scan_iter(model.keys.pattern, count=1000):
        if raw == model.keys.schema.encode():
            continue
        name = raw.decode().removeprefix(model.keys.pattern.rstrip("*"))
        match await client.type(raw):
            case b"hash":
                found[name] = await client.hgetall(raw)
                found[name].pop(b"change", None)
            case b"zset":
                found[name] = await client.zrange(raw, 0, -1, withscores=True)
            case b"string":
                found[name] = await client.get(raw)
            case b"stream" if name != "changes":
                found[name] = [
                    {
                        field: value
                        for field, value in fields.items()
                        if field not in {b"attempt", b"former:change"}
                    }
                    for _, fields in await client.xrange(raw)
                ]
        found[f"{name} expires"] = await client.ttl(raw) > 0
    return found


async def packed_prequential_scores(counts: Model | FollowedCounts) -> dict[str, list[bytes]]:
    scores = await counts.prequential_scores()
    return {label: [score.pack() for score in scores[label].scores()] for label in CLASSES}


async def entries_of(model: Model, message_keys: Iterable[str]) -> list[LedgerEntry | None]:
    return [await model.entry(message_key) for message_key in message_keys]


async def lessons_of(model: Model, round_: Round) -> list[Lesson]:
    """The lessons that give these messages these contents."""
    olds = await entries_of(model, round_)
    news = [entry_of(key, content, old) for (key, content), old in zip(round_.items(), olds, strict=True)]
    return [Lesson(key, old, new, NOTE) for key, old, new in zip(round_, olds, news, strict=True) if old or new]


NEWEST_TO_OLDEST: Round = {f"m{n}": ("ham", TOKENS[:2], 1, [], 9 - n) for n in range(6)}
REMOVED_AND_OLDER: Round = {
    "m0": None,
    "m5": ("ham", TOKENS[:1], 1, [], 0),
    "m1": None,
    "m4": ("ham", [], 1, [], 1),
}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=rounds)
@example(rounds=[NEWEST_TO_OLDEST, {"m5": None, "m4": None}, REMOVED_AND_OLDER])
async def test_batches_leave_in_every_key_what_the_same_lessons_leave_one_by_one(
    client: Redis, rounds: list[Round]
) -> None:
    await client.flushall()
    one, many = await open_model(client, "one"), await open_model(client, "many")

    async with running(FollowedCounts(many)) as followed:
        for round_ in rounds:
            lessons = await lessons_of(one, round_)
            olds = await entries_of(many, [lesson.message_key for lesson in lessons])

            singles = [change for lesson in lessons for change in await one.commit_lessons(LessonBatch([lesson]))]
            batch = await many.commit_lessons(
                LessonBatch(replace(lesson, old=old) for lesson, old in zip(lessons, olds, strict=True))
            )

            assert (len(set(singles)), len(set(batch))) == (len(lessons), min(1, len(lessons)))
            assert await everything(many) == await everything(one)
            await followed.wait_until_applied(await many.last_change())
            assert await equals_redis_exactly(followed, many)
            assert await packed_prequential_scores(followed) == await packed_prequential_scores(many)
        assert followed.loads == 1
    assert await stored(many) == await summed(many)


async def taught(model: Model, count: int = 5) -> list[Lesson]:
    """The lessons by which a model has learned some messages."""
    lessons = await lessons_of(model, {f"m{n}": ("spam", TOKENS[:n], 1000, [(b"=x", n)], n) for n in range(count)})
    assert await is_one_change(model, await model.commit_lessons(LessonBatch(lessons)))
    return lessons


async def is_one_change(model: Model, results: Sequence[object]) -> bool:
    return set(results) == {await model.last_change()}


async def test_the_entries_of_a_batch_name_its_change_and_the_history_has_a_record_of_each_lesson(
    client: Redis,
) -> None:
    model = await open_model(client)
    lessons = await taught(model)

    entries = await entries_of(model, MESSAGES[:5])
    assert {entry.change for entry in entries if entry} == {await model.last_change()}
    records = [record async for record in model.history.records()]
    assert [record.message_key for record in reversed(records)] == [lesson.message_key for lesson in lessons]
    assert (await model.position()).change.sequence == len(lessons)


@pytest.mark.parametrize("label", ["ham", None])
async def test_a_lesson_that_meets_another_entry_is_left_out_of_its_batch_which_is_one_change(
    client: Redis, label: str | None
) -> None:
    model, other = await open_model(client), await open_model(client)
    await taught(model)
    content: Content = (label, TOKENS[:1], 1000, [], 9) if label else None
    lessons = await lessons_of(model, dict.fromkeys(MESSAGES[:5], content))
    await other.commit_lesson("m3", lessons[3].old, None, NOTE)
    sequence = (await model.position()).change.sequence

    results = await model.commit_lessons(LessonBatch(lessons))

    assert results.pop(3) == LedgerConflict(None)
    assert await is_one_change(model, results)
    assert (await model.position()).change.sequence == sequence + len(results)
    assert await stored(model) == await summed(model)


@pytest.mark.parametrize("label", ["ham", None])
async def test_a_batch_whose_reply_is_lost_is_made_once_and_answered_as_made(
    client: Redis, shared_redis: RedisServer, tmp_path: Path, label: str | None
) -> None:
    model, lost = await open_model(client), list[bytes]()
    await taught(model)
    content: Content = (label, TOKENS[:1], 1000, [], 9) if label else None
    lessons = await lessons_of(model, dict.fromkeys(MESSAGES[:5], content))
    sequence = (await model.position()).change.sequence

    async def lose(request: bytes) -> Fate:
        if b"EVALSHA" in request and not lost:
            lost.append(request)
            return Fate.LOSE_REPLY
        return Fate.PASS

    async with Proxy(shared_redis.socket, tmp_path / "s", lose) as way:
        lossy = open_client(ConnectionOptions(way.url))
        lossy_model = await open_model(lossy)
        results = await lossy_model.commit_lessons(LessonBatch(lessons))
        await lossy.aclose()

    assert results == [await model.last_change()] * len(lessons)
    assert (await model.position()).change.sequence == sequence + len(lessons)
    assert await stored(model) == await summed(model)


async def test_a_batch_that_is_out_of_memory_changes_nothing_and_each_lesson_is_refused(
    own_redis: RedisServer,
) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    model = await open_model(client)
    await taught(model)
    before = await everything(model)
    lessons = await lessons_of(model, dict.fromkeys(MESSAGES, ("ham", TOKENS, 1000, [], 9)))
    await client.config_set("maxmemory", "1")

    results = await model.commit_lessons(LessonBatch(lessons))

    assert [type(result) for result in results] == [StoreRefuses] * len(lessons)
    await client.config_set("maxmemory", "0")
    assert await everything(model) == before
    assert await is_one_change(model, await model.commit_lessons(LessonBatch(lessons)))
    await client.aclose()
