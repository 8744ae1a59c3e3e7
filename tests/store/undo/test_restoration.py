"""Taking changes back on a real Redis: exactly, once, and so that it can be taken back itself."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.counts import CLASSES
from nbstream.mail.message import Message
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.history import Assessment, HistoryRecord, HistorySelection, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from nbstream.store.undo.restoration import Restoration, apply_restoration, prepare_restoration, selected_changes
from tests.conftest import RedisServer
from tests.filter.test_filter import make_filter
from tests.letters import letters
from tests.store.algebra import State, stored
from tests.store.model.test_model import TOKENS, change, entry
from tests.store.notes import NOTE
from tests.store.proxy import LosesOneReply


@pytest.fixture
async def model(client: Redis) -> Model:
    opened = Model(client, "test", ledger_seconds=3600)
    await opened.open()
    return opened


def by(actor: str) -> LessonNote:
    return LessonNote("test", actor, NOTE.before, NOTE.after)


async def write(model: Model, message: str, new: LedgerEntry | None, actor: str) -> None:
    assert isinstance(await model.commit_lesson(message, await model.entry(message), new, by(actor)), bytes)


async def prepared(model: Model, selection: HistorySelection) -> list[Restoration]:
    return [
        await prepare_restoration(model, key, changes)
        for key, changes in (await selected_changes(model, selection)).items()
    ]


async def undo(model: Model, selection: HistorySelection, actor: str = "root") -> list[Restoration]:
    found = await prepared(model, selection)
    for each in found:
        assert await apply_restoration(model, each, actor)
    return found


async def records(model: Model) -> list[HistoryRecord]:
    """Newest first."""
    return [record async for record in model.history()]


async def packed(model: Model, messages: list[str]) -> list[dict[str, str | bytes] | None]:
    """Ledger entries without the ids of the changes that stored them."""
    return [found.pack() if (found := await model.entry(message)) else None for message in messages]


async def test_a_learn_is_taken_back_to_nothing(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS, sums=[(b"=x", 7)]), "ann")

    (restoration,) = await undo(model, HistorySelection(actor="ann"))

    assert restoration.changes_ledger
    assert await stored(model) == ({"ham": {}, "spam": {}}, {})
    assert await model.entry("m1") is None


@pytest.mark.parametrize("after", [("ham", TOKENS[2:6], 7, [(b"=messages", 5)]), None], ids=["relearn", "unlearn"])
async def test_a_relearn_and_an_unlearn_are_taken_back_to_the_former_entry(
    model: Model, after: tuple[str, list[bytes], int, list[tuple[bytes, int]]] | None
) -> None:
    await write(model, "m1", entry("spam", TOKENS, sums=[(b"=x", 7)]), "ben")
    before, ledger = await stored(model), await packed(model, ["m1"])
    await write(model, "m1", entry(*after) if after else None, "ann")

    await undo(model, HistorySelection(actor="ann"))

    assert await stored(model) == before
    assert await packed(model, ["m1"]) == ledger
    assert 0 < await model.client.ttl(model.keys.ledger("m1")) <= 3600


async def test_several_changes_of_a_message_are_taken_back_in_one_step(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ben")
    before = await stored(model)
    for label in ("ham", "spam", "ham"):
        await write(model, "m1", entry(label, TOKENS), "ann")

    await undo(model, HistorySelection(actor="ann"))

    assert await stored(model) == before
    assert [(each.description, each.note.source, each.note.actor) for each in await records(model)][:2] == [
        ("relearned ham -> spam", "undo", "root"),
        ("relearned spam -> ham", "test", "ann"),
    ]


async def test_a_restoration_is_noted_with_the_opinions_of_the_history(model: Model) -> None:
    opinions = [Assessment(0.25, "ham"), Assessment(0.75, "unsure"), Assessment(0.99, "spam")]
    for label, before, after in zip(("ham", "spam"), opinions, opinions[1:], strict=False):
        await model.commit_lesson(
            "m1", await model.entry("m1"), entry(label, TOKENS), LessonNote("cli", "ann", before, after)
        )

    await undo(model, HistorySelection())

    assert (await records(model))[0].note == LessonNote("undo", "root", opinions[2], opinions[0])


async def test_a_restoration_can_be_taken_back_itself(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ben")
    await write(model, "m1", entry("ham", TOKENS[1:]), "ann")
    await write(model, "m2", entry("ham", TOKENS[2:]), "ann")
    before, ledger = await stored(model), await packed(model, ["m1", "m2"])
    await undo(model, HistorySelection(actor="ann"))
    assert await stored(model) != before

    await undo(model, HistorySelection(actor="root"))

    assert await stored(model) == before
    assert await packed(model, ["m1", "m2"]) == ledger


@pytest.mark.parametrize("actor", ["ann", None])
async def test_done_again_it_changes_nothing(model: Model, actor: str | None) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ann")
    await write(model, "m1", entry("ham", TOKENS), "ann")
    await write(model, "m2", entry("ham", TOKENS), "ann")
    await write(model, "m3", entry("ham", TOKENS), "ann")
    await write(model, "m3", None, "ann")
    await undo(model, HistorySelection(actor=actor))
    before, known = await stored(model), len(await records(model))

    # The second time by ann herself, whose own restorations are then among what is chosen.
    for undoer in ("root", "ann", "ann"):
        assert not any(each.changes_ledger for each in await undo(model, HistorySelection(actor=actor), undoer))

    assert await stored(model) == before == ({"ham": {}, "spam": {}}, {})
    assert len(await records(model)) == known


async def test_after_a_crash_in_the_middle_the_rest_is_taken_back(model: Model) -> None:
    for number in range(6):
        await write(model, f"m{number}", entry("spam", TOKENS), "ann")
        await write(model, f"m{number}", entry("ham", TOKENS), "ann")
    for each in (await prepared(model, HistorySelection(actor="ann")))[:3]:
        await apply_restoration(model, each, "root")
    assert (await model.totals()).messages == (3, 0)

    await undo(model, HistorySelection(actor="ann"))

    assert await stored(model) == ({"ham": {}, "spam": {}}, {})
    assert [each.note.source for each in await records(model)].count("undo") == 6


async def test_what_somebody_changes_meanwhile_is_left_to_them(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ann")
    (restoration,) = await prepared(model, HistorySelection(actor="ann"))
    await write(model, "m1", entry("ham", TOKENS), "ben")
    before = await stored(model)

    assert not await apply_restoration(model, restoration, "root")

    assert await stored(model) == before


async def test_two_at_once_take_back_once(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ann")
    (restoration,) = await prepared(model, HistorySelection())

    assert await asyncio.gather(*(apply_restoration(model, restoration, "root") for _ in range(4))) == [True] * 4

    assert [each.note.source for each in await records(model)] == ["undo", "test"]


async def test_a_restoration_whose_reply_is_lost_is_made_once(
    model: Model, shared_redis: RedisServer, tmp_path: Path
) -> None:
    await write(model, "m1", entry("ham", TOKENS), "ben")
    before = await stored(model)
    await write(model, "m1", entry("spam", TOKENS), "ann")
    async with LosesOneReply(shared_redis.socket, tmp_path / "s") as way:
        lossy = open_client(ConnectionOptions(way.url))
        await undo(Model(lossy, "test", 3600), HistorySelection(actor="ann"))
        await lossy.aclose()

    assert way.broken == 1
    assert await stored(model) == before
    assert [each.note.source for each in await records(model)] == ["undo", "test", "test"]


async def test_a_message_that_has_left_the_ledger_is_told(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ann")
    await model.client.delete(model.keys.ledger("m1"))
    before = await stored(model)

    (restoration,) = await undo(model, HistorySelection())

    assert [kept.reason for kept in restoration.plan.irreversible] == ["its ledger entry has expired"]
    assert await stored(model) == before


async def test_what_the_history_has_lost_meanwhile_is_kept(model: Model) -> None:
    await write(model, "m1", entry("spam", TOKENS), "ann")
    ((key, changes),) = (await selected_changes(model, HistorySelection())).items()
    await model.client.delete(model.keys.history)

    restoration = await prepare_restoration(model, key, changes)

    assert [kept.reason for kept in restoration.plan.irreversible] == ["no longer in the history"]
    assert not restoration.changes_ledger


async def test_one_message_alone_is_chosen_by_its_id(model: Model) -> None:
    for message in ("m1", "m2"):
        await write(model, message, entry("spam", TOKENS), "ann")

    (restoration,) = await undo(model, HistorySelection(message_key="m2"))

    assert restoration.message_key == "m2"
    assert (await model.totals()).messages == (0, 1)


Teaching = tuple[str, str, str | None, list[bytes], int]

teachings = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from(["1", "2", "3"]),
        st.sampled_from([*CLASSES, None]),
        st.lists(st.sampled_from(TOKENS), unique=True),
        st.sampled_from([0, 1, 1000]),
    ),
    max_size=14,
)
"""Who, which message of their own, as what, with what."""


async def play(model: Model, time: str, lessons: list[Teaching], *, but: str = "") -> None:
    """Write the lessons but for somebody's, each with a version of its own that tells its place."""
    for number, (actor, message, label, tokens, weight) in enumerate(lessons):
        key = f"{actor}{message}"
        known = await model.entry(key)
        new = LedgerEntry(f"{time}{number}", label, weight, tuple(tokens), 1.5, "", actor, 0.0) if label else None
        if actor != but and (known or new):
            assert isinstance(await model.commit_lesson(key, known, new, by(actor)), bytes)


async def whole(model: Model) -> tuple[State, list[dict[str, str | bytes] | None]]:
    return await stored(model), await packed(model, [f"{actor}{n}" for actor in "ab" for n in "123"])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=teachings, after=teachings)
async def test_what_is_left_is_a_model_that_the_undone_never_taught(
    client: Redis, before: list[Teaching], after: list[Teaching]
) -> None:
    """Two people teach messages of their own; all that A did since some moment is undone."""
    await client.flushall()
    model, other = Model(client, "test", 3600), Model(client, "other", 3600)
    await play(model, "before", before)
    since = await next_moment(model)
    await play(model, "after", after)
    await play(other, "before", before)
    await play(other, "after", after, but="a")

    await undo(model, HistorySelection(since=since, actor="a"))

    assert await whole(model) == await whole(other)


async def next_moment(model: Model) -> float:
    """A moment after all that is in the history and before all that comes."""
    newest = [record.at async for record in model.history()][:1]
    while True:
        seconds, microseconds = await model.client.time()
        now = seconds + (microseconds // 1000) / 1000
        if not newest or now > newest[0]:
            return now


async def test_what_a_poisoner_taught_through_the_filter_is_gone_to_the_last_integer(client: Redis) -> None:
    """Weights depend on what is known, so the other one's are as they were stored: summed, not learned anew."""
    spam_filter, model = make_filter(client), Model(client, "test", 3600)
    draw = random.Random(5)
    stream = [(label, Message.parse(raw), draw.choice(["ann", "mallory"])) for label, raw in letters(60)]
    for label, message, actor in stream:
        wrong = "ham" if label == "spam" else "spam"
        await spam_filter.learn(message, wrong if actor == "mallory" else label, "smtp", actor)
        if draw.random() < 0.3:
            await spam_filter.learn(message, label, "smtp", actor)
    expected = Model(client, "expected", 3600)
    for _, message, actor in stream:
        known = await model.entry(message.key)
        if actor == "ann":
            await change(expected, message.key, known)

    await undo(model, HistorySelection(actor="mallory"))

    assert await stored(model) == await stored(expected)
    keys = [message.key for _, message, _ in stream]
    assert await packed(model, keys) == await packed(expected, keys)
