"""Undo on a real Redis: exact, done once, and possible to undo itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.filter.undo import (
    MessageUndo,
    apply_undo,
    prepare_undo,
    selected_changes,
)
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.history import Assessment, HistoryRecord, HistorySelection, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from tests.harness.algebra import stored
from tests.harness.lessons import NOTE, TOKENS, entry
from tests.harness.redis.proxy import LosesOneReply
from tests.harness.redis.redis_server import RedisServer


@pytest.fixture
async def model(client: Redis) -> Model:
    opened = Model(client, "test", ledger_seconds=3600)
    await opened.open()
    return opened


def note_of(actor: str) -> LessonNote:
    return LessonNote("test", actor, NOTE.before, NOTE.after)


async def write(model: Model, message: str, new: LedgerEntry | None, actor: str) -> None:
    assert isinstance(await model.commit_lesson(message, await model.entry(message), new, note_of(actor)), bytes)


async def prepare_all(model: Model, selection: HistorySelection) -> list[MessageUndo]:
    return [
        await prepare_undo(model, key, changes)
        for key, changes in (await selected_changes(model, selection)).items()
    ]


async def undo(model: Model, selection: HistorySelection, actor: str = "root") -> list[MessageUndo]:
    undos = await prepare_all(model, selection)
    for message_undo in undos:
        assert await apply_undo(model, message_undo, actor)
    return undos


async def history_records(model: Model) -> list[HistoryRecord]:
    """All records, newest first."""
    return [record async for record in model.history.records()]


async def packed_entries(model: Model, messages: list[str]) -> list[dict[str, str | bytes] | None]:
    """Ledger entries without the ids of the changes that stored them."""
    return [entry_now.pack() if (entry_now := await model.entry(message)) else None for message in messages]


@pytest.mark.parametrize("after", [("ham", TOKENS[2:6], 7, [(b"=messages", 5)]), None], ids=["relearn", "unlearn"])
async def test_the_undo_of_a_relearn_or_an_unlearn_restores_the_former_entry(
    model: Model, after: tuple[str, list[bytes], int, list[tuple[bytes, int]]] | None
) -> None:
    await write(model, "m1", entry("spam", TOKENS, sums=[(b"=x", 7)]), "ben")
    before, ledger = await stored(model), await packed_entries(model, ["m1"])
    await write(model, "m1", entry(*after) if after else None, "ann")

    await undo(model, HistorySelection(actor="ann"))

    assert await stored(model) == before
    assert await packed_entries(model, ["m1"]) == ledger
    assert 0 < await model.client.ttl(model.keys.ledger("m1")) <= 3600


async def test_several_changes_of_a_message_are_undone_in_one_step(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ben")
    before = await stored(model)
    for label in ("ham", "spam", "ham"):
        await write(model, "m1", entry(label, TOKENS), "ann")

    await undo(model, HistorySelection(actor="ann"))

    assert await stored(model) == before
    assert [
        (message_undo.description, message_undo.note.source, message_undo.note.actor)
        for message_undo in await history_records(model)
    ][:2] == [
        ("relearned ham -> spam", "undo", "root"),
        ("relearned spam -> ham", "test", "ann"),
    ]


async def test_a_restoration_is_noted_with_the_assessments_of_the_history(model: Model) -> None:
    opinions = [Assessment(0.25, "ham"), Assessment(0.75, "unsure"), Assessment(0.99, "spam")]
    for label, before, after in zip(("ham", "spam"), opinions, opinions[1:], strict=False):
        await model.commit_lesson(
            "m1", await model.entry("m1"), entry(label, TOKENS), LessonNote("cli", "ann", before, after)
        )

    await undo(model, HistorySelection())

    assert (await history_records(model))[0].note == LessonNote("undo", "root", opinions[2], opinions[0])


async def test_a_restoration_can_be_undone(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ben")
    await write(model, "m1", entry("ham", TOKENS[1:]), "ann")
    await write(model, "m2", entry("ham", TOKENS[2:]), "ann")
    before, ledger = await stored(model), await packed_entries(model, ["m1", "m2"])
    await undo(model, HistorySelection(actor="ann"))
    assert await stored(model) != before

    await undo(model, HistorySelection(actor="root"))

    assert await stored(model) == before
    assert await packed_entries(model, ["m1", "m2"]) == ledger


async def test_after_a_crash_in_the_middle_the_rest_is_undone(model: Model) -> None:
    for number in range(6):
        await write(model, f"m{number}", entry("spam", TOKENS), "ann")
        await write(model, f"m{number}", entry("ham", TOKENS), "ann")
    for message_undo in (await prepare_all(model, HistorySelection(actor="ann")))[:3]:
        await apply_undo(model, message_undo, "root")
    assert (await model.totals()).messages == (3, 0)

    await undo(model, HistorySelection(actor="ann"))

    assert await stored(model) == ({"ham": {}, "spam": {}}, {})
    assert [message_undo.note.source for message_undo in await history_records(model)].count("undo") == 6


async def test_a_message_that_somebody_changes_meanwhile_is_not_restored(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ann")
    (message_undo,) = await prepare_all(model, HistorySelection(actor="ann"))
    await write(model, "m1", entry("ham", TOKENS), "ben")
    before = await stored(model)

    assert not await apply_undo(model, message_undo, "root")

    assert await stored(model) == before


async def test_a_restoration_whose_reply_is_lost_is_written_once(
    model: Model, shared_redis: RedisServer, tmp_path: Path
) -> None:
    await write(model, "m1", entry("ham", TOKENS), "ben")
    before = await stored(model)
    await write(model, "m1", entry("spam", TOKENS), "ann")
    async with LosesOneReply(shared_redis.socket, tmp_path / "s") as proxy:
        lossy = open_client(ConnectionOptions(proxy.url))
        await undo(Model(lossy, "test", 3600), HistorySelection(actor="ann"))
        await lossy.aclose()

    assert proxy.broken == 1
    assert await stored(model) == before
    assert [message_undo.note.source for message_undo in await history_records(model)] == ["undo", "test", "test"]


async def test_an_expired_ledger_entry_makes_a_change_irreversible(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ann")
    await model.client.delete(model.keys.ledger("m1"))
    before = await stored(model)

    (message_undo,) = await undo(model, HistorySelection())

    assert [refusal.why for refusal in message_undo.plan.irreversible] == ["its ledger entry has expired"]
    assert await stored(model) == before
