"""The filter's three verbs on a real Redis."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.bayes.calibration import SCORE_BINS, Calibration
from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.filter import (
    Check,
    CheckQueue,
    CheckSeconds,
    FeedbackOutcome,
    FeedbackResult,
    FilterObserver,
    RememberingObserver,
)
from nbstream.mail.message import Message
from nbstream.policy.envelope import BuildEnvelope
from nbstream.policy.feedback_source import FeedbackSource
from nbstream.policy.recipient_rules import RecipientRule
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.policy.verdict import ModelState, Thresholds, Verdict
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import CheckedMessage, RecentMessages
from nbstream.tokens.tokenizer import Tokenizer
from nbstream.tokens.tokens import Tokens
from tests.harness.filters import PRIZE, Together, labelled, make_filter, with_parts
from tests.harness.followers import running
from tests.harness.redis.proxy import Fate, Proxy
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples


class Recorder(FilterObserver):
    """An observer that keeps what is reported."""

    def __init__(self) -> None:
        self.checks: list[tuple[Check, CheckSeconds]] = []
        self.lessons: list[tuple[FeedbackResult, str]] = []

    def checked(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None) -> None:
        self.checks.append((check, seconds))

    def feedback_taken(self, lesson: FeedbackResult, source: str) -> None:
        self.lessons.append((lesson, source))


async def test_feedback_says_what_it_did(client: Redis) -> None:
    spam_filter = make_filter(client)

    outcomes = [
        (await spam_filter.learn(PRIZE, "spam", "test")).outcome,
        (await spam_filter.learn(PRIZE, "spam", "test")).outcome,
        (await spam_filter.learn(PRIZE, "ham", "test")).outcome,
        (await spam_filter.unlearn(PRIZE, "test")).outcome,
        (await spam_filter.unlearn(PRIZE, "test")).outcome,
    ]

    assert outcomes == [
        *[FeedbackOutcome.LEARNED, FeedbackOutcome.ALREADY, FeedbackOutcome.RELEARNED],
        FeedbackOutcome.UNLEARNED,
        FeedbackOutcome.UNKNOWN,
    ]
    model = Model(client, "test", 3600)
    assert not await client.exists(
        model.keys.totals, *map(model.keys.counts, CLASSES), model.keys.ledger(PRIZE.key)
    )


async def stored(client: Redis) -> list[Any]:
    """Counts and totals of the model, field by field."""
    keys = Model(client, "test", 3600).keys
    return [await client.hgetall(key) for key in (*map(keys.counts, CLASSES), keys.totals)]


async def test_learn_then_unlearn_gives_back_all_fields_and_the_same_score(client: Redis) -> None:
    spam_filter = make_filter(client)
    for label, raw in samples(30):
        await spam_filter.learn(Message.parse(raw), label, "test")
    before, check = await stored(client), await spam_filter.check(PRIZE)

    learned = await spam_filter.learn(PRIZE, "ham", "test")
    relearned = await spam_filter.learn(PRIZE, "spam", "test")
    assert check.score > learned.after.score < relearned.after.score
    unlearned = await spam_filter.unlearn(PRIZE, "test")

    assert await stored(client) == before
    assert unlearned.after == check


async def prequential_scores(model: Model) -> dict[str, dict[bytes, int]]:
    """What the calibration has learned, by class and bin."""
    rows, _ = await model.look_up(SCORE_BINS)
    return {
        label: {name: int(count) for name, count in zip(SCORE_BINS, column, strict=True) if count}
        for label, column in zip(CLASSES, rows.T, strict=True)
    }


async def test_the_calibration_learns_the_score_before_the_first_label(client: Redis) -> None:
    spam_filter, model = make_filter(client), Model(client, "test", 3600)
    learn = spam_filter.learn
    await asyncio.gather(*(learn(Message.parse(raw), label, "test") for label, raw in samples(60)))
    before, checked = await spam_filter.check(PRIZE), await prequential_scores(model)
    (bin_before,) = Calibration().lesson_sums(before.score, await model.totals())

    learned = await spam_filter.learn(PRIZE, "ham", "test")
    first = await model.entry(PRIZE.key)
    (bin_after,) = Calibration().lesson_sums(learned.after.score, await model.totals())
    relearned = await spam_filter.learn(PRIZE, "spam", "test")
    second = await model.entry(PRIZE.key)

    assert first is not None
    assert second is not None
    assert bin_before != bin_after
    assert first.score == second.score == before.score != relearned.before.score
    assert [bin_sum for entry in (first, second) for bin_sum in entry.sums if bin_sum[0] in SCORE_BINS] == [
        bin_before
    ] * 2
    now = await prequential_scores(model)
    assert now["ham"] == checked["ham"]
    assert now["spam"] == {**checked["spam"], bin_before[0]: checked["spam"].get(bin_before[0], 0) + WEIGHT_ONE}

    await spam_filter.unlearn(PRIZE, "test")
    assert await prequential_scores(model) == checked


async def test_counts_in_redis_and_in_a_follower_give_the_same_checks_to_the_last_bit(client: Redis) -> None:
    direct = make_filter(client)
    async with running(FollowedCounts(Model(client, "test", 3600))) as followed:
        following = make_filter(client, counts=followed)
        for label, raw in samples(30):
            lesson = await following.learn(Message.parse(raw), label, "test")
            assert await direct.check(Message.parse(raw)) == lesson.after


async def test_a_check_in_the_queue_waits_while_those_before_it_are_tokenized(client: Redis) -> None:
    recorder = Recorder()
    spam_filter = make_filter(client, observer=recorder, check_queue=CheckQueue())
    messages = [Message.parse(PRIZE.raw + b" now" * 100 * number) for number in range(3)]

    await asyncio.gather(
        *map(spam_filter.check, messages)
    )  # the first finds the queue empty, the others wait in it

    seconds = {check.id: seconds for check, seconds in recorder.checks}
    _, second, third = (seconds[message.key] for message in messages)
    assert third.wait > second.tokenize


class Noted(Message):
    """A message that notes which thread used its key first."""

    key_thread: threading.Thread | None = None

    @cached_property
    def key(self) -> str:
        object.__setattr__(self, "key_thread", threading.current_thread())
        return super().key


@pytest.mark.parametrize("verb", ["check", "learn", "teach_many"])
async def test_a_large_message_is_tokenized_in_a_thread(client: Redis, verb: str) -> None:
    spam_filter, large = make_filter(client), Noted(PRIZE.raw + b" now" * 30_000)

    async def once() -> AsyncIterator[Message]:
        yield large

    if verb == "check":
        await spam_filter.check(large)
    elif verb == "learn":
        await spam_filter.learn(large, "spam", "test")
    else:
        await spam_filter.learn_many(labelled(once(), "spam"), FeedbackSource("test", "nobody"), lambda _: None)

    assert large.key_thread not in {None, threading.main_thread()}


@pytest.mark.parametrize(
    ("former", "label", "done", "repeated"),
    [
        (None, "spam", FeedbackOutcome.LEARNED, FeedbackOutcome.ALREADY),
        ("ham", "spam", FeedbackOutcome.RELEARNED, FeedbackOutcome.ALREADY),
        ("spam", None, FeedbackOutcome.UNLEARNED, FeedbackOutcome.UNKNOWN),
    ],
    ids=["learn", "relearn", "unlearn"],
)
async def test_of_many_who_say_the_same_at_once_one_has_done_it(
    client: Redis, former: str | None, label: str | None, done: FeedbackOutcome, repeated: FeedbackOutcome
) -> None:
    together, single = Together(8), make_filter(client)
    filters = [with_parts(single, model=together.model(single.parts.model)) for _ in range(8)]
    if former:
        await single.learn(PRIZE, former, "test")

    lessons = await asyncio.gather(
        *(one.learn(PRIZE, label, "test") if label else one.unlearn(PRIZE, "test") for one in filters)
    )

    assert Counter(lesson.outcome for lesson in lessons) == {done: 1, repeated: 7}


class Remembered(RecentMessages):
    """A memory of one message."""

    def __init__(self, checked: CheckedMessage) -> None:
        self._checked = checked

    async def recall(self, message_key: str) -> CheckedMessage | None:
        return self._checked if message_key == self._checked.key else None


async def test_a_message_is_recalled_as_it_was_checked_else_as_it_was_learned_else_not_at_all(
    client: Redis,
) -> None:
    seen = CheckedMessage(PRIZE.key, Tokens((b"subject:prize",), (b"body:seen",)), 0.25, "ham")
    with_memory = make_filter(client, checked_messages=Remembered(seen))
    spam_filter = make_filter(client)

    assert await with_memory.recall(PRIZE.key) is seen
    assert await spam_filter.recall(PRIZE.key) is None

    lesson = await spam_filter.learn(PRIZE, "spam", "test")
    assert await with_memory.recall(PRIZE.key) is seen
    assert await spam_filter.recall(PRIZE.key) == CheckedMessage(
        PRIZE.key, Tokenizer().tokenize(PRIZE).tokens, lesson.after.probability, str(lesson.after.verdict)
    )


async def test_a_remembered_message_teaches_what_the_message_teaches_and_is_taken_back_exactly(
    client: Redis,
) -> None:
    for label, raw in samples(12):
        await make_filter(client).learn(Message.parse(raw), label, "test")
    before = await stored(client)
    seen: list[CheckedMessage] = []
    spam_filter = make_filter(client, observer=RememberingObserver(lambda checked, *_: seen.append(checked)))
    await spam_filter.check(PRIZE)

    by_message = await spam_filter.learn(PRIZE, "spam", "test")
    after = await stored(client)
    await spam_filter.unlearn(PRIZE, "test")
    by_id = await spam_filter.learn(CheckedMessage.unpack(PRIZE.key, seen[0].pack()), "spam", "test")

    assert (by_id.before, by_id.after) == (by_message.before, by_message.after)
    assert await stored(client) == after
    checked = await spam_filter.recall(PRIZE.key)
    assert checked is not None
    assert (await spam_filter.unlearn(checked, "test")).outcome == FeedbackOutcome.UNLEARNED
    assert await stored(client) == before


async def test_each_write_of_a_contested_entry_has_a_version_of_its_own(
    client: Redis, shared_redis: RedisServer, tmp_path: Path
) -> None:
    """Else whoever read the first of two entries could take back the second with what the first one held."""
    versions: list[str] = []

    async def contradict(request: bytes) -> Fate:
        if b"EVALSHA" not in request:
            return Fate.PASS
        entry = await model.entry(PRIZE.key)
        if entry is None:
            return Fate.LOSE_REPLY
        versions.append(entry.version)
        if len(versions) == 1:
            await make_filter(client).learn(PRIZE, "ham", "another")
        return Fate.PASS

    model = Model(client, "test", 3600)
    await make_filter(client).learn(PRIZE, "spam", "test")
    await make_filter(client).unlearn(PRIZE, "test")  # Redis knows the script: its first answer is one to a change
    async with Proxy(shared_redis.socket, tmp_path / "s", contradict) as way:
        lossy = open_client(ConnectionOptions(way.url))
        lesson = await make_filter(lossy).learn(PRIZE, "spam", "test")
        await lossy.aclose()

    entry = await model.entry(PRIZE.key)
    assert lesson.outcome == FeedbackOutcome.RELEARNED
    assert entry is not None
    assert entry.version not in versions
    assert (await model.totals()).messages == (0, 1)


async def test_a_check_can_be_decided_by_another_policy(client: Redis) -> None:
    spam_filter = make_filter(client)
    check = await spam_filter.check(PRIZE)
    taught = replace(check, state=ModelState({"ham": 1, "spam": 1}, {}), probability=0.7)

    decided = await spam_filter.decide_by_rule(
        taught, RecipientRule("*@x", 0, ThresholdPolicy(0.4, 0.6), ActionsSettings())
    )

    assert (decided.verdict, decided.thresholds) == (Verdict.SPAM, Thresholds(0.4, 0.6))
    assert (taught.policy, decided.policy) == ("default", "*@x")
    assert decided.probability == 0.7
