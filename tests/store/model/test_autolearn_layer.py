"""Two layers of counts: they are stored separately, are added when they are read, and one can be dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.bayes.counts import Totals
from nbstream.store.lua import lua_script
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.model.autolearn_layer import AutolearnModel
from nbstream.store.model.commit import CommitResult
from nbstream.store.model.keys import AutolearnKeys
from nbstream.store.model.ledger import LedgerConflict
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import LessonBatch, LessonCommit
from tests.store.algebra import NOTHING, stored, summed
from tests.store.lessons import TOKENS, change, entry
from tests.store.mirror.mirrors import running
from tests.store.mirror.test_mirror import equals_redis
from tests.store.notes import NOTE
from tests.waiting import until

SINCE = 1.7e9


@pytest.fixture
async def people(client: Redis) -> Model:
    model = Model(client, "test", 3600)
    await model.open()
    return model


@pytest.fixture
async def layer(client: Redis) -> AutolearnModel:
    opened = AutolearnModel(client, "test", 3600)
    await opened.open()
    return opened


async def dump(client: Redis, keys: list[bytes]) -> dict[bytes, Any]:
    return {key: await client.dump(key) for key in keys}


async def names(client: Redis, *, auto: bool) -> list[bytes]:
    keys = [key async for key in client.scan_iter()]
    return sorted(key for key in keys if key.startswith(b"nbstream:{test}:auto") == auto)


async def test_learning_in_one_layer_leaves_the_other_as_it_is(people: Model, layer: AutolearnModel) -> None:
    await change(people, "m1", entry("spam", TOKENS[:3]))
    before = await stored(people)

    await change(layer, "m1", entry("ham", TOKENS))

    assert await stored(people) == before
    assert await stored(layer) == await summed(layer)
    assert (await layer.totals()).messages == (1, 0)


async def test_dropping_leaves_nothing_but_what_people_taught_to_the_last_byte(
    client: Redis, people: Model, layer: AutolearnModel
) -> None:
    for number in range(700):  # more than a step of the removal
        await change(layer, f"m{number}", entry("spam", TOKENS[:3]))
    await change(people, "m1", entry("spam", TOKENS[:3]))
    of_people = await names(client, auto=False)
    before = await dump(client, of_people)

    dropped = await AutolearnModel(client, "test", 3600).drop_epoch()

    assert dropped.messages == (0, 700)
    assert await names(client, auto=False) == of_people
    assert await dump(client, of_people) == before
    assert await stored(layer) == NOTHING
    left = [name.rpartition(b":")[2] for name in await names(client, auto=True)]
    # The end of the old stream for those who follow it, and the sequence numbers of both epochs.
    assert left == [b"auto", b"changes", b"sequence", b"sequence"]
    for name in ("sequence", "changes"):
        assert 0 < await client.ttl(AutolearnKeys("test", 0)._key(name)) <= 60


async def test_dropping_an_empty_layer_writes_nothing(client: Redis, layer: AutolearnModel) -> None:
    before = await names(client, auto=True)

    assert await layer.drop_epoch() == Totals()

    assert await names(client, auto=True) == before


async def test_every_mirror_follows_into_the_next_epoch(people: Model, layer: AutolearnModel) -> None:
    writer, dropper = (AutolearnModel(layer.client, "test", 3600) for _ in range(2))
    async with running(Mirror(layer)) as mirror, running(Mirror(people)) as first:
        await mirror.wait_until_applied(await change(writer, "m1", entry("spam", TOKENS)) or b"")
        assert (await mirror.look_up(TOKENS[:1]))[0].tolist() == [[0, 1000]]

        await dropper.drop_epoch()
        await until(lambda: mirror.totals == Totals())
        assert (await mirror.look_up(TOKENS[:1]))[0].tolist() == [[0, 0]]

        learned = await change(writer, "m1", entry("ham", TOKENS))  # the writer reads the new epoch itself
        await mirror.wait_until_applied(learned or b"")
        assert (await mirror.look_up(TOKENS[:1]))[0].tolist() == [[1000, 0]]
        assert await equals_redis(first, people, TOKENS)


async def test_a_mirror_of_an_empty_layer_follows_too(layer: AutolearnModel) -> None:
    writer = AutolearnModel(layer.client, "test", 3600)
    async with running(Mirror(layer)) as mirror:
        for epoch in range(3):
            learned = await change(writer, "m1", entry("spam", TOKENS, weight=epoch + 1))
            await mirror.wait_until_applied(learned or b"")
            await writer.drop_epoch()
            await until(lambda: mirror.totals == Totals())


async def drop_and_be_killed(client: Redis) -> None:
    """Begin the second epoch, and leave all that the first one has."""
    old, new = AutolearnKeys("test", 0), AutolearnKeys("test", 1)
    await client.register_script(lua_script("drop_epoch.lua"))(
        keys=[old.epoch_key, old.sequence, old.changes, new.sequence], args=[0, 1, 60]
    )


async def test_a_drop_that_was_killed_is_a_drop_and_the_next_one_removes_what_it_left(
    client: Redis, layer: AutolearnModel
) -> None:
    await change(layer, "m1", entry("spam", TOKENS))
    old, new = AutolearnKeys("test", 0), AutolearnKeys("test", 1)
    await drop_and_be_killed(client)

    assert await layer.entry("m1") is None
    assert await stored(layer) == NOTHING
    assert await client.exists(old.ledger("m1"))
    learned = entry("ham", TOKENS[:2])
    assert await layer.commit_lesson("m1", None, learned, NOTE)

    assert (await layer.drop_epoch()).messages == (1, 0)
    assert not await client.exists(old.ledger("m1"), *old.counts, new.ledger("m1"), *new.counts)


async def all_ledger_tokens(model: AutolearnModel) -> list[list[bytes]]:
    return [tokens async for tokens in model.ledger_tokens()]


async def look_up_ham_counts(model: AutolearnModel) -> list[int]:
    counts, _ = await model.look_up(TOKENS)
    return [ham for ham, _ in counts.tolist()]


@pytest.mark.parametrize(
    "read",
    [
        look_up_ham_counts,
        lambda model: model.totals(),
        lambda model: model.last_change(),
        lambda model: model.entry("m1"),
        lambda model: model.entries(["m1", "m2"]),
        all_ledger_tokens,
    ],
)
async def test_each_read_sees_that_another_process_has_dropped_the_layer(
    layer: AutolearnModel, read: Callable[[AutolearnModel], Awaitable[object]]
) -> None:
    reader = AutolearnModel(layer.client, "test", 3600)
    await change(layer, "m1", entry("spam", TOKENS))
    before = await read(reader)

    await layer.drop_epoch()
    await change(layer, "m2", entry("ham", TOKENS[:2], 7))

    assert await read(reader) == await read(layer) != before


async def test_two_drops_at_once_are_one(client: Redis, layer: AutolearnModel) -> None:
    await change(layer, "m1", entry("spam", TOKENS))
    keys = AutolearnKeys("test", 0)
    arguments = [keys.epoch_key, keys.sequence, keys.changes, AutolearnKeys("test", 1).sequence]
    drop = client.register_script(lua_script("drop_epoch.lua"))

    done = [await drop(keys=arguments, args=[0, 1, 60]) for _ in range(2)]

    assert done == [3, None]
    assert await client.get(keys.epoch_key) == b"1"


async def test_a_lesson_in_a_dropped_epoch_changes_nothing_that_is_read(layer: AutolearnModel) -> None:
    late = AutolearnModel(layer.client, "test", 3600)
    await late.open()
    await change(layer, "m1", entry("spam", TOKENS))
    learned = await late.entry("m1")
    await layer.drop_epoch()

    # The entry that it was about to take back was dropped.
    assert await late.commit_lesson("m1", learned, None, NOTE) == LedgerConflict(None)
    assert await late.commit_lesson("m2", None, entry("spam", TOKENS), NOTE)
    await layer.entry("m1")
    assert await stored(layer) == NOTHING
    assert await layer.drop_epoch() == Totals()
    assert [key for key in await names(layer.client, auto=True) if b"ledger" in key] == []


async def commit_while_the_epoch_changes(layer: AutolearnModel, lessons: list[LessonCommit]) -> list[CommitResult]:
    """Commit lessons in a dropped epoch, while another task of the process sees that it was dropped."""
    await drop_and_be_killed(layer.client)
    await layer.client.client_pause(10_000, all=False)  # writes wait
    committing = asyncio.create_task(layer.commit_lessons(LessonBatch(lessons)))
    await layer.totals()
    await layer.client.client_unpause()
    return await committing


async def test_lessons_that_are_committed_while_another_task_sees_a_drop_stay_in_the_dropped_epoch(
    layer: AutolearnModel,
) -> None:
    await change(layer, "m1", entry("spam", TOKENS))
    lessons = [LessonCommit(message, None, entry("ham", TOKENS), NOTE) for message in ("m1", "m2")]

    # The conflict of the first lesson makes the second one another step.
    conflict, _ = await commit_while_the_epoch_changes(layer, lessons)

    assert isinstance(conflict, LedgerConflict)
    assert await stored(layer) == NOTHING


async def test_a_removal_with_a_lost_reply_is_recognized_while_another_task_sees_a_drop(
    layer: AutolearnModel,
) -> None:
    await change(layer, "m1", entry("spam", TOKENS))
    removal = LessonCommit("m1", await layer.entry("m1"), None, NOTE)
    (removed,) = await layer.commit_lessons(LessonBatch([removal]))

    (again,) = await commit_while_the_epoch_changes(layer, [removal])

    assert isinstance(removed, bytes)
    assert isinstance(again, bytes)


async def test_lessons_of_people_conflict_where_the_layer_has_their_messages_and_the_others_are_committed(
    people: Model, layer: AutolearnModel
) -> None:
    await change(layer, "m1", entry("spam", TOKENS))
    lessons = [LessonCommit(message, None, entry("ham", TOKENS), NOTE) for message in ("m1", "m2")]

    conflict, committed = await people.commit_lessons(LessonBatch(lessons), layer)

    assert conflict == LedgerConflict(None)
    assert isinstance(committed, bytes)
    assert await people.entry("m1") is None
    assert await stored(people) == await summed(people)


async def test_lessons_of_people_conflict_where_the_layer_was_dropped_since_it_was_looked_at(
    people: Model, layer: AutolearnModel
) -> None:
    lesson = LessonBatch([LessonCommit("m1", None, entry("ham", TOKENS), NOTE)])
    await drop_and_be_killed(layer.client)

    assert await people.commit_lessons(lesson, layer) == [LedgerConflict(None)]
    assert await layer.entry("m1") is None  # it looks for the epoch
    (committed,) = await people.commit_lessons(lesson, layer)
    assert isinstance(committed, bytes)


async def test_disputed_messages_are_those_in_both_ledgers(people: Model, layer: AutolearnModel) -> None:
    for number in range(5):
        await change(layer, f"m{number}", entry("spam", TOKENS))
    for message in ("m2", "m4", "m9"):
        await change(people, message, entry("spam", TOKENS))

    assert sorted([key async for key in layer.disputed_messages(people)]) == ["m2", "m4"]
