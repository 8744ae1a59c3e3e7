"""Teaching many messages at once: the same as one after another, in fewer round trips."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.filter import FeedbackOutcome, FeedbackResult, Filter, LabelledMessage
from nbstream.filter.lesson_groups import GROUP_SIZE
from nbstream.mail.message import Message
from nbstream.policy.feedback_source import FeedbackSource
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.commit import CommitResult
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import LessonBatch
from tests.filter.autolearn_site import EMPTY, letters_of, taught_site
from tests.harness.algebra import live_entries, stored, summed
from tests.harness.filters import labelled, make_filter, with_parts
from tests.harness.redis.proxy import Fate, Proxy
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples
from tests.harness.waiting import DEADLINE_SECONDS

SOURCE = FeedbackSource("test", "nobody")

Result: TypeAlias = "FeedbackResult | StoreIncompatible"
Answer: TypeAlias = "bytes | LedgerConflict | StoreUnavailable | StoreIncompatible"


PRIZE_BY_TWO_WAYS = [
    b"%sMessage-ID: <p@x.example>\nFrom: a@x.example\nSubject: prize\nDate: Sat, 21 Nov 2026 10:00:00 +0000\n\na"
    % b"".join(b"Received: from way%d.hop%d.example by here\n" % (way, hop) for hop in range(5))
    for way in range(2)
]


async def stream_of(messages: Iterable[Message]) -> AsyncIterator[Message]:
    for message in messages:
        yield message


async def teach(spam_filter: Filter, messages: Iterable[Message], label: str | None) -> list[FeedbackResult]:
    results: list[Result] = []
    await spam_filter.learn_many(labelled(stream_of(messages), label), SOURCE, results.append)
    lessons = [lesson for lesson in results if isinstance(lesson, FeedbackResult)]
    assert len(lessons) == len(results)
    return lessons


def outcomes(results: Iterable[Result]) -> Counter[FeedbackOutcome]:
    return Counter(lesson.outcome for lesson in results if isinstance(lesson, FeedbackResult))


def messages_by_label(count: int) -> dict[str, list[Message]]:
    by_label: dict[str, list[Message]] = {"spam": [], "ham": []}
    for label, raw in samples(count):
        by_label[label].append(Message.parse(raw))
    return by_label


@pytest.mark.parametrize("most_names", [0, 1 << 18])
async def test_batches_that_share_tokens_and_messages_are_learned_as_if_one_after_another(
    client: Redis, monkeypatch: pytest.MonkeyPatch, most_names: int
) -> None:
    """Counts that a batch before has read are not read again, unless they are too many."""
    monkeypatch.setattr("nbstream.filter.lesson_groups.GROUP_SIZE", 6)
    monkeypatch.setattr("nbstream.filter.message_counts.MAX_KNOWN_NAMES", most_names)
    messages, spam_filter = messages_by_label(100)["spam"], make_filter(client)
    one_way, other_way = map(Message.parse, PRIZE_BY_TWO_WAYS)  # the second batch unlearns the tokens of the other
    by_other_way = Message.parse(PRIZE_BY_TWO_WAYS[1].replace(b"prize", b"report"))  # the third batch has them
    taught = [*messages[:9], other_way]
    again = [*messages[:8], one_way, *messages[8:12], by_other_way, *messages[12:], *messages[3:6]]
    assert one_way.key == other_way.key != by_other_way.key
    model = Model(client, "test", 3600)
    await teach(spam_filter, taught, "ham")
    in_bulk = await teach(spam_filter, again, "spam")
    entries = await live_entries(model)
    await client.flushall()

    await teach(spam_filter, taught, "ham")
    single = [await spam_filter.learn(message, "spam", "test") for message in again]

    assert [lesson.after for lesson in in_bulk] == [lesson.after for lesson in single]
    weights = {key: entry.weight for key, entry in (await live_entries(model)).items()}
    assert {key: entry.weight for key, entry in entries.items()} == weights


class ModelOfTwoBatches(Model):
    """A model that commits nothing before the entries of two batches were read."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client, "test", 3600)
        self.batches, self.two_were_read = 0, asyncio.Event()

    async def entries(self, message_keys: Sequence[str]) -> list[LedgerEntry | StoreIncompatible | None]:
        self.batches += 1
        if self.batches == 2:
            self.two_were_read.set()
        return await super().entries(message_keys)

    async def commit_lessons(self, batch: LessonBatch) -> list[CommitResult]:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.two_were_read.wait()
        return await super().commit_lessons(batch)


async def test_the_next_batch_is_read_while_one_is_on_its_way(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbstream.filter.lesson_groups.GROUP_SIZE", 6)
    messages, model = messages_by_label(60)["spam"][:18], ModelOfTwoBatches(client)

    in_bulk = await teach(with_parts(make_filter(client), model=model), messages, "spam")
    entries = await live_entries(model)
    await client.flushall()
    single = [await make_filter(client).learn(message, "spam", "test") for message in messages]

    assert [lesson.after for lesson in in_bulk] == [lesson.after for lesson in single]
    weights = {key: entry.weight for key, entry in (await live_entries(model)).items()}
    assert {key: entry.weight for key, entry in entries.items()} == weights


async def test_messages_of_all_classes_are_learned_in_one_batch_as_if_one_after_another(client: Redis) -> None:
    spam_filter, model = make_filter(client), Model(client, "test", 3600)
    both = [(Message.parse(raw), label) for label, raw in samples(60)]
    twice = [*both[:50], (both[0][0], None), (both[1][0], "ham"), *both[50:]]  # some change their label at once

    async def labelled_messages() -> AsyncIterator[LabelledMessage]:
        for message, label in twice:
            yield LabelledMessage(message, label)

    in_bulk: list[Result] = []
    await spam_filter.learn_many(labelled_messages(), SOURCE, in_bulk.append)
    assert await client.xlen(model.keys.changes) == 5  # two classes, what is taken back, and two again
    entries, stored_in_bulk = await live_entries(model), await stored(model)
    await client.flushall()
    single = [
        await (spam_filter.learn(message, label, "test") if label else spam_filter.unlearn(message, "test"))
        for message, label in twice
    ]

    assert [lesson.after for lesson in in_bulk if isinstance(lesson, FeedbackResult)] == [
        one.after for one in single
    ]
    assert stored_in_bulk == await stored(model)
    labels = {key: (entry.label, entry.weight) for key, entry in (await live_entries(model)).items()}
    assert {key: (entry.label, entry.weight) for key, entry in entries.items()} == labels


async def test_a_label_that_is_no_class_ends_the_learning_and_what_came_before_is_whole(client: Redis) -> None:
    model = Model(client, "test", 3600)

    async def labelled_messages() -> AsyncIterator[LabelledMessage]:
        for number, (label, raw) in enumerate(samples(3 * GROUP_SIZE)):
            yield LabelledMessage(Message.parse(raw), label if number < 2 * GROUP_SIZE + 1 else "junk")

    lessons: list[Result] = []
    with pytest.raises(ValueError, match="junk"):
        await make_filter(client).learn_many(labelled_messages(), SOURCE, lessons.append)

    assert await stored(model) == await summed(model)
    assert len(lessons) == len(await live_entries(model)) >= GROUP_SIZE


class LateModel(Model):
    """A model in which another person gives ``message`` the other label right before many are written."""

    message: Message

    async def commit_lessons(self, batch: LessonBatch) -> list[Answer]:
        await make_filter(self.client).learn(self.message, "ham", "another")
        return await super().commit_lessons(batch)


async def test_a_message_that_another_process_changed_meanwhile_is_taught_again(client: Redis) -> None:
    spam_filter, model = make_filter(client), LateModel(client, "test", 3600)
    messages = messages_by_label(40)["spam"]
    model.message = messages[3]
    spam_filter = with_parts(spam_filter, model=model)

    lessons = await teach(spam_filter, messages, "spam")

    assert [lesson.outcome for lesson in lessons[:5]] == [
        *[FeedbackOutcome.LEARNED] * 3,
        FeedbackOutcome.RELEARNED,
        FeedbackOutcome.LEARNED,
    ]
    assert (await model.totals()).messages == (0, len(messages))
    assert await stored(model) == await summed(model)


class FailingModel(Model):
    """A model whose second commit of many lessons fails, once Redis has carried it out or before."""

    commits = 0
    is_done: bool

    async def commit_lessons(self, batch: LessonBatch) -> list[Answer]:
        self.commits += 1
        is_second = self.commits == 2
        answers = await super().commit_lessons(batch) if not is_second or self.is_done else []
        if is_second:
            raise StoreUnavailable("Redis is away")
        return answers


@pytest.mark.parametrize("is_done", [False, True])
async def test_where_redis_fails_between_two_classes_nothing_is_lost_or_doubled(
    client: Redis, is_done: bool
) -> None:
    spam_filter, model, lessons = make_filter(client), FailingModel(client, "test", 3600), list[Result]()
    model.is_done = is_done
    both = [(Message.parse(raw), label) for label, raw in samples(60)]

    async def labelled_messages() -> AsyncIterator[LabelledMessage]:
        for message, label in both:
            yield LabelledMessage(message, label)

    with pytest.raises(StoreUnavailable):
        await with_parts(spam_filter, model=model).learn_many(labelled_messages(), SOURCE, lessons.append)
    reported = [lesson.after.id for lesson in lessons if isinstance(lesson, FeedbackResult)]
    assert reported == [message.key for message, _ in both[: len(reported)]]
    assert await stored(model) == await summed(model)
    assert 0 < sum((await model.totals()).messages) <= len(both)

    await spam_filter.learn_many(labelled_messages(), SOURCE, lessons.append)
    labels = {key: entry.label for key, entry in (await live_entries(model)).items()}
    assert labels == {message.key: label for message, label in both}
    assert await stored(model) == await summed(model)
    for label in ("spam", "ham"):
        await teach(spam_filter, [message for message, name in both if name == label], None)
    assert await stored(model) == ({"ham": {}, "spam": {}}, {})


async def spoil(model: Model, message: Message, field: str = "weight") -> None:
    """Make what the ledger holds of the message unreadable."""
    await model.client.hset(model.keys.ledger(message.key), mapping={"version": "x", field: "Much"})


async def test_an_interruption_leaves_whole_lessons_and_reports_all_of_them(client: Redis) -> None:
    spam_filter, model = make_filter(client), Model(client, "test", 3600)
    messages, lessons = messages_by_label(5 * GROUP_SIZE)["spam"], list[Result]()

    async def interrupted() -> AsyncIterator[Message]:
        for number, message in enumerate(messages):
            if number == 2 * GROUP_SIZE + 3:
                task.cancel()
            yield message

    task = asyncio.create_task(spam_filter.learn_many(labelled(interrupted(), "spam"), SOURCE, lessons.append))
    with pytest.raises(asyncio.CancelledError):
        await task

    assert set(await live_entries(model)) == {
        lesson.after.id for lesson in lessons if isinstance(lesson, FeedbackResult)
    }
    assert GROUP_SIZE <= len(lessons) <= 2 * GROUP_SIZE  # one batch may be taught while the next one is read
    assert await stored(model) == await summed(model)
    assert outcomes(await teach(spam_filter, messages, "spam")) == {
        FeedbackOutcome.ALREADY: len(lessons),
        FeedbackOutcome.LEARNED: len(messages) - len(lessons),
    }


async def test_a_second_cancellation_ends_the_wait_for_what_is_on_its_way(
    client: Redis, shared_redis: RedisServer, tmp_path: Path
) -> None:
    await teach(make_filter(client), messages_by_label(10)["ham"], "ham")  # Redis knows the script
    is_on_its_way = asyncio.Event()

    async def hang(request: bytes) -> Fate:
        if b"EVALSHA" not in request:
            return Fate.PASS
        is_on_its_way.set()
        return Fate.KEEP_REPLY

    async with Proxy(shared_redis.socket, tmp_path / "s", hang) as way:
        hanging = open_client(ConnectionOptions(way.url))
        spam_filter, messages = make_filter(hanging), stream_of(messages_by_label(10)["spam"])
        task = asyncio.create_task(
            spam_filter.learn_many(labelled(messages, "spam"), SOURCE, list[Result]().append)
        )
        async with asyncio.timeout(DEADLINE_SECONDS):
            await is_on_its_way.wait()
            for _ in range(2):
                task.cancel()
                await asyncio.wait([task], timeout=0)
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            (teaching,) = spam_filter.parts.lesson_groups
            await cancel_and_wait(teaching)
        assert not spam_filter.parts.lesson_groups
        await hanging.aclose()


@pytest.mark.parametrize("label", ["ham", None])
async def test_what_was_autolearned_of_many_messages_is_taken_back(
    client: Redis, label: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbstream.policy.autolearn.MAX_SCORE", math.inf)  # these messages say little new
    site = await taught_site(client)
    raws = letters_of("spam", 5)
    await site.check(*raws)
    assert await stored(site.model, automatic=True) != EMPTY
    others = [message for heap in messages_by_label(20).values() for message in heap] if label else []

    lessons = await teach(site.filter, [*map(Message.parse, raws), *others], label)

    assert await stored(site.model, automatic=True) == EMPTY
    assert {lesson.outcome for lesson in lessons[:5]} == {
        FeedbackOutcome.LEARNED if label else FeedbackOutcome.UNLEARNED
    }
    assert await stored(site.model) == await summed(site.model)
