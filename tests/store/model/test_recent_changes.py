"""The last changes of the history in memory, over a real Redis."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from nbstream.store.model.history import HistoryChange, RecentChanges
from nbstream.store.model.model import Model
from tests.harness.lessons import TOKENS, change, entry


@pytest.fixture
async def model(client: Redis) -> Model:
    return await Model(client, "test", ledger_seconds=3600).open()


async def teach(model: Model, *messages: str) -> None:
    for message in messages:
        await change(model, message, entry("spam", TOKENS))


def keys(changes: object) -> list[str]:
    assert isinstance(changes, tuple)
    return [change.message_key for change in changes]


async def test_the_newest_come_first_and_what_is_new_is_added(model: Model) -> None:
    recent = RecentChanges(model.history)
    assert keys(await recent.read()) == []

    await teach(model, "m1", "m2")
    assert keys(await recent.read()) == ["m2", "m1"]

    await teach(model, "m3")
    assert keys(await recent.read()) == ["m3", "m2", "m1"]


async def test_a_history_that_has_gone_another_way_is_read_again(model: Model) -> None:
    recent = RecentChanges(model.history)
    await teach(model, "m1", "lost")
    await recent.read()

    newest = (await recent.read())[0].id
    await model.client.xdel(model.keys.history, newest)
    assert keys(await recent.read()) == ["m1"]

    await teach(model, "m2")
    assert keys(await recent.read()) == ["m2", "m1"]

    await model.client.delete(model.keys.history)
    assert keys(await recent.read()) == []


async def test_a_change_is_what_its_record_says(model: Model) -> None:
    await teach(model, "m1")
    await change(model, "m1", entry("ham", TOKENS))
    await change(model, "m1", None)

    records = [record async for record in model.history.records()]
    changes = [change async for change in model.history.changes(batch=1)]

    names = HistoryChange.__dataclass_fields__
    assert [[getattr(record, name) for name in names] for record in records] == [
        [getattr(change, name) for name in names] for change in changes
    ]
    assert [change.description for change in changes] == [
        "unlearned ham",
        "relearned spam -> ham",
        "learned spam",
    ]
    assert [change.former_label for change in changes] == [
        record.former.label if record.former else None for record in records
    ]
