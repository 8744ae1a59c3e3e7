"""Lessons that come at the same moment: committed together, each as if it were alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.errors import CountsFull, StoreRefuses, StoreUnavailable
from nbstream.filter import FeedbackOutcome, FeedbackResult, Filter, LabelledMessage
from nbstream.filter.lesson_groups import GROUP_SIZE
from nbstream.filter.lesson_plan import Feedback, LessonPlanner
from nbstream.mail.message import Message
from nbstream.policy.feedback_source import FeedbackSource
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.commit import CommitResult
from nbstream.store.model.ledger import LedgerConflict
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import LessonBatch
from tests.harness.algebra import live_entries, stored, summed
from tests.harness.filters import PRIZE, make_filter, with_parts
from tests.harness.followers import running
from tests.harness.redis.proxy import Fate, Proxy
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples
from tests.harness.waiting import DEADLINE_SECONDS

LETTERS = [(label, Message.parse(raw)) for label, raw in samples(100)]

Result = FeedbackResult | BaseException


async def learn_together(spam_filter: Filter, messages: Iterable[tuple[str, Message]]) -> list[Result]:
    """Teach the messages at the same moment; return the lesson or the error of each."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await asyncio.gather(
            *(spam_filter.learn(message, label, "test", "nobody") for label, message in messages),
            return_exceptions=True,
        )


def outcomes(results: Iterable[Result]) -> Counter[FeedbackOutcome | type[BaseException]]:
    return Counter(result.outcome if isinstance(result, FeedbackResult) else type(result) for result in results)


class HeldModel(Model):
    """A model in which a commit of one lesson waits for ``gate`` once Redis has made it."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client, "test", 3600)
        self.gate, self.is_held = asyncio.Event(), asyncio.Event()

    async def commit_lesson(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
        change = await super().commit_lesson(*arguments, **options)  # type: ignore[arg-type]
        self.is_held.set()
        await self.gate.wait()
        return change

    async def commit_lessons(self, *arguments: object) -> object:  # type: ignore[override]
        results = await super().commit_lessons(*arguments)  # type: ignore[arg-type]
        self.is_held.set()
        await self.gate.wait()
        return results


@asynccontextmanager
async def group_on_its_way(
    client: Redis, messages: Iterable[tuple[str, Message]]
) -> AsyncIterator[tuple[Filter, HeldModel, list[asyncio.Task[FeedbackResult]]]]:
    """A filter whose lessons of ``messages`` are made in Redis, and whose answers wait."""
    model = HeldModel(client)
    spam_filter = with_parts(make_filter(client), model=model)
    callers = [asyncio.create_task(spam_filter.learn(message, label, "test")) for label, message in messages]
    async with asyncio.timeout(DEADLINE_SECONDS):
        await model.is_held.wait()
        yield spam_filter, model, callers


async def test_lessons_that_come_together_are_those_that_come_one_after_another_to_the_last_digit(
    client: Redis,
) -> None:
    model = Model(client, "test", 3600)
    async with running(FollowedCounts(Model(client, "test", 3600))) as followed:
        together = await learn_together(make_filter(client, counts=followed), LETTERS)
        in_memory, counts = followed.snapshot(), await stored(model)
    entries, changes = await live_entries(model), await client.xlen(model.keys.changes)
    assert counts == await summed(model)
    assert dict(zip(in_memory[0], in_memory[1][:, 0].tolist(), strict=True)).items() >= counts[0]["ham"].items()
    await client.flushall()

    one_by_one = make_filter(client)
    alone = [await one_by_one.learn(message, label, "test", "nobody") for label, message in LETTERS]

    assert await stored(model) == counts
    assert await client.xlen(model.keys.changes) == len(LETTERS) > 10 * changes
    assert [(entry.label, entry.weight, entry.sums) for entry in entries.values()] == [
        (entry.label, entry.weight, entry.sums) for entry in [(await live_entries(model))[key] for key in entries]
    ]
    assert [
        (lesson.outcome, lesson.after.id, lesson.before.score, lesson.after.score)
        for lesson in together
        if isinstance(lesson, FeedbackResult)
    ] == [(lesson.outcome, lesson.after.id, lesson.before.score, lesson.after.score) for lesson in alone]


async def test_what_comes_while_a_group_is_on_its_way_is_the_next_group(client: Redis) -> None:
    async with group_on_its_way(client, LETTERS[:1]) as (spam_filter, model, callers):
        others = [asyncio.create_task(spam_filter.learn(one, label, "test")) for label, one in LETTERS[1:30]]
        await asyncio.sleep(0)
        assert await client.xlen(model.keys.changes) == 1
        model.gate.set()
        results = await asyncio.gather(*callers, *others)

    assert outcomes(results) == {FeedbackOutcome.LEARNED: 30}
    labels = len({label for label, _ in LETTERS[1:30]})
    assert await client.xlen(model.keys.changes) == 1 + labels
    assert await stored(model) == await summed(model)


async def test_the_labels_of_one_message_that_come_together_are_taught_in_their_order(client: Redis) -> None:
    spam_filter, model = make_filter(client), Model(client, "test", 3600)
    labels = ("spam", "spam", "ham", "spam")

    results = await learn_together(spam_filter, [*LETTERS[:9], *((label, PRIZE) for label in labels)])

    learned, already, relearned = FeedbackOutcome.LEARNED, FeedbackOutcome.ALREADY, FeedbackOutcome.RELEARNED
    assert [lesson.outcome for lesson in results if isinstance(lesson, FeedbackResult)] == [
        *[learned] * 10,
        already,
        relearned,
        relearned,
    ]
    assert (await live_entries(model))[PRIZE.key].label == "spam"
    assert await stored(model) == await summed(model)


async def test_one_that_the_counts_have_no_room_for_does_not_refuse_the_others(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    spam_filter, model = make_filter(client), Model(client, "test", 3600)
    monkeypatch.setattr("nbstream.filter.message_counts.MAX_COUNT", 1 << 40)
    full = Message.parse(b"Message-ID: <full@x.example>\nFrom: a@full.example\n\nquetzalcoatl\n")
    await client.hset(model.keys.counts("ham"), "body:quetzalcoatl", 1 << 41)

    results = await learn_together(spam_filter, [*LETTERS[:20], ("ham", full)])

    assert outcomes(results) == {FeedbackOutcome.LEARNED: 20, CountsFull: 1}


@pytest.mark.parametrize(
    ("setting", "refusing", "normal"),
    [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")],
    ids=["memory", "replicas"],
)
async def test_a_refusal_of_redis_is_the_answer_to_each(
    own_redis: RedisServer, setting: str, refusing: str, normal: str
) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    spam_filter, model = make_filter(client), Model(client, "test", 3600)
    await learn_together(spam_filter, LETTERS[:10])
    before = await stored(model)

    await client.config_set(setting, refusing)
    refused = await learn_together(spam_filter, LETTERS[10:40])
    await client.config_set(setting, normal)

    assert len(refused) == 30
    assert all(isinstance(result, StoreRefuses) for result in refused)
    assert await stored(model) == before
    assert outcomes(await learn_together(spam_filter, LETTERS[:40])) == {
        FeedbackOutcome.ALREADY: 10,
        FeedbackOutcome.LEARNED: 30,
    }
    assert await stored(model) == await summed(model)
    await client.aclose()


async def test_where_replies_are_lost_each_lesson_is_made_once(
    client: Redis, shared_redis: RedisServer, tmp_path: Path
) -> None:
    model, lost = Model(client, "test", 3600), list[bytes]()
    await learn_together(make_filter(client), LETTERS[:2])

    async def lose_some(request: bytes) -> Fate:
        if len(lost) < 4 and b"EVALSHA" in request:
            lost.append(request)
            return Fate.LOSE_REPLY
        return Fate.PASS

    async with Proxy(shared_redis.socket, tmp_path / "s", lose_some) as way:
        lossy = open_client(ConnectionOptions(way.url))
        results = await learn_together(make_filter(lossy), LETTERS[2:60])
        await lossy.aclose()

    assert lost
    assert set(outcomes(results)) <= {FeedbackOutcome.LEARNED, StoreUnavailable}
    await learn_together(make_filter(client), LETTERS)
    assert sum((await model.totals()).messages) == len(LETTERS)
    assert await stored(model) == await summed(model)


async def test_who_goes_while_the_group_is_on_its_way_stops_nobody(client: Redis) -> None:
    async with group_on_its_way(client, LETTERS[:20]) as (_, model, callers):
        callers[3].cancel()
        await asyncio.wait([callers[3]])
        model.gate.set()
        results = await asyncio.gather(*callers, return_exceptions=True)

    assert outcomes(results) == {FeedbackOutcome.LEARNED: 19, asyncio.CancelledError: 1}
    assert (await live_entries(model)).keys() >= {one.key for _, one in LETTERS[:20]}
    assert await stored(model) == await summed(model)


async def test_who_goes_before_his_group_has_begun_is_not_taught(client: Redis) -> None:
    async with group_on_its_way(client, LETTERS[:2]) as (spam_filter, model, callers):
        others = [asyncio.create_task(spam_filter.learn(one, label, "test")) for label, one in LETTERS[2:9]]
        await asyncio.sleep(0)
        others[0].cancel()
        await asyncio.wait(others[:1])
        model.gate.set()
        results = await asyncio.gather(*callers, *others, return_exceptions=True)

    assert outcomes(results) == {FeedbackOutcome.LEARNED: 8, asyncio.CancelledError: 1}
    assert LETTERS[2][1].key not in await live_entries(model)
    assert await stored(model) == await summed(model)


async def test_a_lesson_that_cannot_be_planned_refuses_nobody_else(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, odd = LessonPlanner.plan, LETTERS[3][1].key

    def refuse_one(planner: LessonPlanner, feedback: Feedback, *arguments: Any, **options: Any) -> object:
        if feedback.message.key == odd:
            raise ZeroDivisionError
        return plan(planner, feedback, *arguments, **options)

    monkeypatch.setattr(LessonPlanner, "plan", refuse_one)
    results = await learn_together(make_filter(client), LETTERS[:9])

    assert outcomes(results) == {FeedbackOutcome.LEARNED: 8, ZeroDivisionError: 1}


async def test_too_many_that_wait_are_refused(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbstream.filter.lesson_groups._MAX_WAITING", 5)

    results = await learn_together(make_filter(client), LETTERS[:9])

    assert outcomes(results) == {FeedbackOutcome.LEARNED: 5, StoreUnavailable: 4}


async def test_a_group_whose_callers_have_gone_is_waited_for_but_not_for_ever(client: Redis) -> None:
    async with group_on_its_way(client, LETTERS[:9]) as (spam_filter, model, callers):
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)
        reloaded = spam_filter.with_policy(spam_filter.policy)

        await reloaded.wait_for_lesson_groups(0.01)
        assert spam_filter.parts.lesson_groups
        model.gate.set()
        await reloaded.wait_for_lesson_groups(DEADLINE_SECONDS)

    assert not spam_filter.parts.lesson_groups
    assert (await live_entries(model)).keys() == {one.key for _, one in LETTERS[:9]}


class HeldLesson(Model):
    """A model in which the step of one lesson waits for ``gate`` once Redis has made it."""

    def __init__(self, client: Redis) -> None:
        super().__init__(client, "test", 3600)
        self.key, self.gate = "", asyncio.Event()
        self.conflicts = asyncio.Event()

    async def commit_lessons(self, batch: LessonBatch) -> list[CommitResult]:
        results = await super().commit_lessons(batch)
        if any(isinstance(result, LedgerConflict) for result in results):
            self.conflicts.set()
        if self.key in {lesson.message_key for lesson in batch.lessons}:
            await self.gate.wait()
        return results


async def relabelled(client: Redis, *, beside: bool) -> tuple[float, int]:
    """The score before a lesson that changes a label, and its weight: alone, or while another is on its way."""
    model = HeldLesson(client)
    spam_filter = with_parts(make_filter(client), model=model)
    for label, message in LETTERS[:20]:
        await spam_filter.learn(message, label, "test", "nobody")
    await spam_filter.learn(PRIZE, "ham", "test", "nobody")
    other = next(message for label, message in LETTERS[20:] if label == "ham")
    if beside:
        model.key = other.key
    lesson = asyncio.create_task(spam_filter.learn(PRIZE, "spam", "test", "nobody"))
    async with asyncio.timeout(DEADLINE_SECONDS):
        if beside:
            other_lesson = asyncio.create_task(spam_filter.learn(other, "ham", "test", "nobody"))
            await model.conflicts.wait()
            for _ in range(1000):  # turns in which it may be planned again, while the other lesson is on its way
                await asyncio.sleep(0)
            model.gate.set()
            await other_lesson
        result = await lesson
    entry = await model.entry(PRIZE.key)
    assert entry
    assert await stored(model) == await summed(model)
    return result.before.score, entry.weight


async def test_a_lesson_that_conflicts_is_not_planned_on_itself(client: Redis) -> None:
    alone = await relabelled(client, beside=False)
    await client.flushall()

    score, weight = await relabelled(client, beside=True)

    # The other lesson, which is planned and made between, changes both a little.
    assert score == pytest.approx(alone[0], abs=1)
    assert weight == pytest.approx(alone[1], rel=0.05)


async def test_a_lesson_of_another_class_does_not_wait_until_many_others_are_learned(client: Redis) -> None:
    spam_filter, reported = make_filter(client), list[object]()
    spam = [Message.parse(raw) for label, raw in samples(8 * GROUP_SIZE) if label == "spam"]
    ham = next(message for label, message in LETTERS if label == "ham")
    lessons = list[asyncio.Task[FeedbackResult]]()

    def report(result: object) -> None:
        reported.append(result)
        if len(reported) == 1:
            lessons.append(asyncio.create_task(spam_filter.learn(ham, "ham", "test", "nobody")))
            lessons[0].add_done_callback(lambda _: made_after.append(len(reported)))

    async def bulk() -> AsyncIterator[LabelledMessage]:
        for message in spam:
            yield LabelledMessage(message, "spam")

    made_after = list[int]()
    await spam_filter.learn_many(bulk(), FeedbackSource("test", "nobody"), report)
    await lessons[0]

    assert made_after[0] < len(spam) / 2
