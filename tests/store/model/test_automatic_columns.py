"""What is learned without people has columns of its own in the same model, and all of it can be forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.bayes.columns import automatic_columns
from nbstream.bayes.counts import Totals
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.ledger import LedgerConflict
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import Lesson, LessonBatch
from tests.harness.algebra import NOTHING, equals_redis_exactly, stored, summed
from tests.harness.followers import running
from tests.harness.lessons import NOTE, TOKENS, change, entry
from tests.harness.waiting import until

HAM, SPAM = "auto-ham:0", "auto-spam:0"


@pytest.fixture
async def model(client: Redis) -> Model:
    return await Model(client, "test", 3600).open()


async def automatic_is_exact(model: Model) -> bool:
    return await stored(model, automatic=True) == await summed(model, automatic=True)


async def test_what_is_learned_without_people_leaves_what_they_taught_as_it_is(model: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS[:3]))
    before = await stored(model)

    await change(model, "m2", entry(HAM, TOKENS))

    assert await stored(model) == before
    assert await automatic_is_exact(model)
    people, automatic = await model.stored_totals()
    assert (people.vocabulary_size, automatic.vocabulary_size) == (3, len(TOKENS))
    assert [record async for record in model.history.changes() if record.message_key == "m2"] == []


@pytest.mark.parametrize("label", ["ham", "spam"])
async def test_a_persons_label_takes_back_exactly_what_was_learned_without_them(model: Model, label: str) -> None:
    await change(model, "m1", entry(SPAM, TOKENS[:5], 500))
    await change(model, "m2", entry(SPAM, TOKENS[3:], 700))
    before = await stored(model, automatic=True)
    await change(model, "m3", entry(HAM, TOKENS[2:], 300))

    await change(model, "m3", entry(label, TOKENS[1:]))

    assert await stored(model, automatic=True) == before
    assert await stored(model) == await summed(model)
    (learned,) = [record async for record in model.history.changes()]
    assert learned.description == f"learned {label}"

    await change(model, "m3", None)
    assert await stored(model) == NOTHING


async def test_forgetting_leaves_what_people_taught(client: Redis, model: Model) -> None:
    for number in range(3):
        await change(model, f"m{number}", entry(SPAM, TOKENS[:3]))
    await change(model, "m9", entry("spam", TOKENS[:3]))
    before = await stored(model)

    forgotten = await model.forget_automatic()

    assert forgotten.messages == (0, 3)
    assert await stored(model) == before
    assert await stored(model, automatic=True) == NOTHING
    assert (await model.stored_totals())[1].columns == automatic_columns(1)
    assert not await client.exists(model.keys.counts(HAM), model.keys.counts(SPAM))
    assert await model.forget_automatic() == Totals(columns=automatic_columns(1))
    assert (await model.stored_totals())[1].columns == automatic_columns(1)


async def test_an_entry_of_a_former_generation_is_as_good_as_none(model: Model) -> None:
    await change(model, "m1", entry(SPAM, TOKENS))
    old = await model.entry("m1")
    await model.forget_automatic()
    await change(model, "m2", entry("auto-spam:1", TOKENS[:2]))
    before = await stored(model, automatic=True)

    assert await model.entry("m1") is None
    assert await model.entries(["m1"]) == [None]
    # A lesson that was planned before takes nothing back from the next generation.
    assert await model.commit_lesson("m1", old, None, NOTE) == LedgerConflict(None)
    assert await model.commit_lesson("m3", None, entry(HAM, TOKENS), NOTE)
    assert await model.entry("m3") is None
    assert await stored(model, automatic=True) == before == await summed(model, automatic=True)

    assert isinstance(await model.commit_lesson("m1", None, entry("ham", TOKENS), NOTE), bytes)
    assert await stored(model) == await summed(model)
    assert await stored(model, automatic=True) == before


async def test_lessons_of_both_kinds_are_one_step(model: Model) -> None:
    await change(model, "m1", entry(SPAM, TOKENS[:4]))
    lessons = [
        Lesson("m1", await model.entry("m1"), entry("ham", TOKENS), NOTE),
        Lesson("m2", None, entry(HAM, TOKENS[2:]), NOTE),
        Lesson("m3", None, entry("spam", TOKENS[:1]), NOTE),
    ]

    answers = await model.commit_lessons(LessonBatch(lessons))

    assert len(set(answers)) == 1
    assert await stored(model) == await summed(model)
    assert await automatic_is_exact(model)


async def test_every_follower_follows_into_the_next_generation(model: Model) -> None:
    writer, other = (Model(model.client, "test", 3600) for _ in range(2))
    async with running(FollowedCounts(model)) as followed:
        await followed.wait_until_applied(await change(writer, "m0", entry("ham", TOKENS[:1])) or b"")
        await followed.wait_until_applied(await change(writer, "m1", entry(SPAM, TOKENS)) or b"")
        assert (await followed.look_up_columns(TOKENS[:1], automatic=True))[0].tolist() == [[0, 1000]]
        assert (await followed.look_up(TOKENS[:1]))[0].tolist() == [[1000, 0]]

        await other.forget_automatic()
        await until(lambda: followed.automatic_totals == Totals(columns=automatic_columns(1)))
        assert (await followed.look_up_columns((), automatic=True))[1].columns == automatic_columns(1)

        learned = await change(writer, "m1", entry("auto-ham:1", TOKENS))
        await followed.wait_until_applied(learned or b"")
        assert (await followed.look_up_columns(TOKENS[:1], automatic=True))[0].tolist() == [[1000, 0]]
        assert await equals_redis_exactly(followed, model)


async def all_ledger_tokens(model: Model) -> list[list[bytes]]:
    return [tokens async for tokens in model.ledger_tokens(["auto-ham:1", "auto-spam:1"]) if tokens]


@pytest.mark.parametrize(
    "read",
    [
        lambda model: model.stored_totals(),
        lambda model: model.entry("m1"),
        lambda model: model.entries(["m1", "m2"]),
        all_ledger_tokens,
    ],
)
async def test_each_read_sees_that_another_process_has_forgotten(
    model: Model, read: Callable[[Model], Awaitable[Any]]
) -> None:
    reader = Model(model.client, "test", 3600)
    await change(model, "m1", entry(SPAM, TOKENS))
    before = await read(reader)

    await model.forget_automatic()
    await change(model, "m2", entry("auto-ham:1", TOKENS[:2], 7))

    assert await read(reader) == await read(model) != before
