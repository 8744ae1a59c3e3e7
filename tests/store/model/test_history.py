"""The history, through a real Redis: one record for each change, with all that a report and an undo need."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.filter import Filter
from nbstream.mail.message import Message
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model import history
from nbstream.store.model.history import Assessment, HistoryRecord, HistorySelection, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from tests.harness.filters import make_filter
from tests.harness.lessons import NOTE, TOKENS, change, entry
from tests.harness.redis.proxy import LosesOneReply
from tests.harness.redis.redis_server import RedisServer

PRIZE = Message.parse(b"From: win@example.com\nSubject: prize\n\nClaim your free prize now\n")

ODD = ["", "a b\tc\nd", "\x1b[2J\x00\x7f", "former:label", "Jürgen\u202e 🦜", "x" * 5000, "-1 0 =x"]


@pytest.fixture
async def model(client: Redis) -> Model:
    opened = Model(client, "test", ledger_seconds=3600)
    await opened.open()
    return opened


@pytest.fixture
def spam_filter(client: Redis) -> Filter:
    return make_filter(client)


async def records(model: Model, since: float = 0.0) -> list[HistoryRecord]:
    """Newest first."""
    return [record async for record in model.history.records(since)]


async def test_learn_relearn_and_unlearn_each_leave_one_record(model: Model, spam_filter: Filter) -> None:
    lessons, entries = [], []
    for label in ("spam", "ham", None):
        if label:
            lessons.append(await spam_filter.learn(PRIZE, label, "smtp", "192.0.2.1"))
        else:
            lessons.append(await spam_filter.unlearn(PRIZE, "cli", "ann"))
        entries.append(await model.entry(PRIZE.key))

    oldest_first = (await records(model))[::-1]

    assert [record.description for record in oldest_first] == [
        "learned spam",
        "relearned spam -> ham",
        "unlearned ham",
    ]
    assert [record.former for record in oldest_first] == [None, *entries[:2]]
    assert [record.version for record in oldest_first] == [
        entry_now.version if entry_now else None for entry_now in entries
    ]
    assert [record.label for record in oldest_first] == ["spam", "ham", None]
    assert {record.message_key for record in oldest_first} == {PRIZE.key}
    assert [(record.note.source, record.note.actor) for record in oldest_first] == [
        *[("smtp", "192.0.2.1")] * 2,
        ("cli", "ann"),
    ]
    for record, lesson in zip(oldest_first, lessons, strict=True):
        assert record.note.before == Assessment(lesson.before.probability, str(lesson.before.verdict))
        assert record.note.after == Assessment(lesson.after.probability, str(lesson.after.verdict))


async def test_a_record_holds_the_whole_former_entry(model: Model) -> None:
    sums = [(b"=type=text/plain", 123), (b"=size.xx", 2**52), (b"=x", -4)]
    former = LedgerEntry(
        "v1", "ham", 7, tuple(b"t%d" % n for n in range(3000)), 12.25, "a\nb", "", -0.5, tuple(sums)
    )
    written = await change(model, "m1", former)
    assert written is not None

    await change(model, "m1", entry("spam", TOKENS))

    (record, _) = await records(model)
    assert record.former is not None
    assert record.former.change == written
    assert record.former.pack() == former.pack()


@pytest.mark.parametrize("odd", ODD)
async def test_whatever_a_source_or_an_actor_is_called_it_stays_intact(model: Model, odd: str) -> None:
    assessments = Assessment(1e-300, "ham"), Assessment(1 - 2**-53, "spam")
    note = LessonNote(odd, odd[::-1], *assessments)
    await model.commit_lesson("m1", None, LedgerEntry("v1", "spam", 1, (b"a",), 1.5, odd, odd, 0.0), note)
    await model.commit_lesson("m1", await model.entry("m1"), None, note)

    newest, oldest = await records(model)

    assert newest.note == oldest.note == note
    assert (newest.description, oldest.description) == ("unlearned spam", "learned spam")
    assert newest.former is not None
    assert (newest.former.source, newest.former.actor) == (odd, odd)


async def test_a_change_whose_reply_was_lost_has_one_record(
    model: Model, shared_redis: RedisServer, tmp_path: Path
) -> None:
    async with LosesOneReply(shared_redis.socket, tmp_path / "s") as proxy:
        lossy = open_client(ConnectionOptions(proxy.url))
        await make_filter(lossy).learn(PRIZE, "spam", "test")
        await lossy.aclose()

    assert proxy.broken == 1
    assert [record.description for record in await records(model)] == ["learned spam"]


async def test_the_history_is_trimmed_to_about_a_number_of_records(model: Model) -> None:
    model.retention = model.retention._replace(max_history_records=50)
    for number in range(400):
        await change(model, f"m{number}", entry("spam", TOKENS[:1]))

    newest_first = await records(model)

    assert 50 <= len(newest_first) <= 50 + 100  # Redis trims by whole nodes of 100 entries
    assert [record.message_key for record in newest_first] == [
        f"m{n}" for n in range(399, 399 - len(newest_first), -1)
    ]


async def test_the_records_of_one_message_are_found_from_its_entry(model: Model, spam_filter: Filter) -> None:
    for number, label in enumerate(("spam", "ham", "spam")):
        await spam_filter.learn(PRIZE, label, "smtp", f"192.0.2.{number}")
        await spam_filter.learn(Message.parse(b"Subject: %d\n\nother\n" % number), label, "smtp")

    found = await model.history.of_message(PRIZE.key, await model.entry(PRIZE.key))

    assert found == [record for record in await records(model) if record.message_key == PRIZE.key]
    assert [record.note.actor for record in found] == ["192.0.2.2", "192.0.2.1", "192.0.2.0"]
    assert await model.history.of_message(PRIZE.key, await model.entry(PRIZE.key), limit=2) == found[:2]


async def test_the_records_of_a_message_that_was_unlearned_are_found_while_they_are_new(
    model: Model, spam_filter: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await spam_filter.learn(PRIZE, "spam", "smtp")
    await spam_filter.unlearn(PRIZE, "smtp")
    found = await model.history.of_message(PRIZE.key, None)
    assert [record.description for record in found] == ["unlearned spam", "learned spam"]
    await spam_filter.learn(PRIZE, "ham", "smtp")
    again = await model.history.of_message(PRIZE.key, await model.entry(PRIZE.key))
    assert [record.description for record in again] == ["learned ham", "unlearned spam", "learned spam"]
    await spam_filter.unlearn(PRIZE, "smtp")

    monkeypatch.setattr(history, "_BATCH", 10)
    monkeypatch.setattr(history, "_SEARCHED_RECORDS", 20)
    for number in range(20):
        await spam_filter.learn(Message.parse(b"Subject: %d\n\nother\n" % number), "ham", "smtp")
    assert await model.history.of_message(PRIZE.key, None) == []


async def test_a_message_that_was_learned_and_unlearned_again_and_again_is_searched_once(
    client: Redis, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def searches() -> int:
        return int((await client.info("commandstats"))["cmdstat_xrevrange"]["calls"])

    monkeypatch.setattr(history, "_BATCH", 10)
    monkeypatch.setattr(history, "_SEARCHED_RECORDS", 10)
    for number in range(4):
        await change(model, "m1", entry("spam", TOKENS[:1]))
        await change(model, f"of-others-{number}", entry("ham", TOKENS[:1]))
        await change(model, "m1", None)
    every = [record for record in await records(model) if record.message_key == "m1"]
    before = await searches()

    found = await model.history.of_message("m1", None)

    assert await searches() == before + 1
    assert found == every  # the seventh is the last among ten records; the one before it is found from its entry


async def test_a_selection_chooses_records_by_time_actor_label_and_message(model: Model) -> None:
    notes = [LessonNote("cli", actor, NOTE.before, NOTE.after) for actor in ("ann", "ben", "ann")]
    new: list[LedgerEntry | None] = [entry("ham", TOKENS), entry("spam", TOKENS), None]
    for note, after in zip(notes, new, strict=True):
        await model.commit_lesson("m1", await model.entry("m1"), after, note)
    await change(model, "m2", entry("ham", TOKENS))
    unlearned, relearned, learned = (await records(model))[1:]

    def selected(selection: HistorySelection) -> list[str]:
        return [record.description for record in (learned, relearned, unlearned) if record in selection]

    assert selected(HistorySelection()) == ["learned ham", "relearned ham -> spam", "unlearned spam"]
    assert selected(HistorySelection(actor="ann")) == ["learned ham", "unlearned spam"]
    assert selected(HistorySelection(label="spam")) == ["relearned ham -> spam", "unlearned spam"]
    assert selected(HistorySelection(label="ham", actor="ben")) == []
    assert selected(HistorySelection(message_key="m2")) == []
    assert selected(HistorySelection(since=unlearned.at, until=unlearned.at)) == []
    assert selected(HistorySelection(until=learned.at)) == []
