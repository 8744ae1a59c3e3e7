"""Kinds of ham through the filter: exact in every store, and nothing changes for spam and ham."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES
from nbstream.filter import FeedbackOutcome, Filter
from nbstream.mail.message import Message
from nbstream.policy.feedback_source import FeedbackSource
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.file_model import FileModel
from nbstream.store.model.history import HistorySelection
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.model.model import Model
from tests.harness.algebra import NOTHING, by_label, stored, summed
from tests.harness.filters import labelled, make_filter, with_parts
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples

MESSAGES = [Message.parse(raw) for _, raw in samples(8)]
CLASS_NAMES = ("ham", "spam", "newsletter", "notification")
Steps: TypeAlias = "Sequence[tuple[int, str | None]]"
STEPS = st.lists(st.tuples(st.integers(0, len(MESSAGES) - 1), st.sampled_from([*CLASS_NAMES, None])), max_size=25)


def with_kinds(spam_filter: Filter) -> Filter:
    kinds = ("ham", "newsletter", "notification")
    return spam_filter.with_policy(spam_filter.policy._replace(kinds=kinds))


def filter_of(client: Redis) -> Filter:
    return with_kinds(make_filter(client))


async def teach(spam_filter: Filter, steps: Steps) -> None:
    for number, name in steps:
        if name is None:
            await spam_filter.unlearn(MESSAGES[number], "test")
        else:
            await spam_filter.learn(MESSAGES[number], name, "test")


async def stream_of(messages: Sequence[Message]) -> AsyncIterator[Message]:
    for message in messages:
        yield message


async def teach_in_bulk(spam_filter: Filter, messages: Sequence[Message], name: str | None) -> None:
    await spam_filter.learn_many(labelled(stream_of(messages), name), FeedbackSource("test", ""), lambda _: None)


async def teach_by_number(spam_filter: Filter) -> None:
    """Teach each class some of 200 messages; P(spam) of the messages is then known well."""
    for number, (label, raw) in enumerate(samples(200, seed=3)):
        name = label if label == "spam" else ("ham", "newsletter", "notification")[number % 3]
        await spam_filter.learn(Message.parse(raw), name, "test")


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_lessons_leave_the_counts_of_a_recount_and_nothing_when_all_is_unlearned(
    shared_redis: RedisServer, steps: Steps
) -> None:
    async def run() -> None:
        client = open_client(ConnectionOptions(shared_redis.url))
        try:
            await client.flushdb()
            spam_filter, model = filter_of(client), Model(client, "test", 3600)
            await teach(spam_filter, steps)
            assert await stored(model) == await summed(model)
            await teach_in_bulk(spam_filter, MESSAGES, "notification")
            assert await stored(model) == await summed(model)
            await teach_in_bulk(spam_filter, MESSAGES, None)
            assert await stored(model) == NOTHING
        finally:
            await client.aclose()

    asyncio.run(run())


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_every_store_has_the_counts_that_redis_has(
    shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory, steps: Steps
) -> None:
    async def run() -> None:
        client = open_client(ConnectionOptions(shared_redis.url))
        try:
            await client.flushdb()
            await teach(filter_of(client), steps)
            counts, _ = await stored(Model(client, "test", 3600))
            names, labels = sorted({name for of_class in counts.values() for name in of_class}), by_label(counts)
            for model in (MemoryModel(), FileModel(tmp_path_factory.mktemp("file") / "model.nbs")):
                await teach(with_parts(filter_of(client), model=model, counts=model), steps)
                rows, totals = await model.look_up(names)
                assert rows.tolist() == [[labels[label].get(name, 0) for label in CLASSES] for name in names]
                assert totals == await Model(client, "test", 3600).totals()
        finally:
            await client.aclose()

    asyncio.run(run())


async def test_spam_and_ham_are_scored_to_the_last_bit_as_without_kinds(client: Redis) -> None:
    async def scores(*, kinds: bool) -> list[object]:
        model = MemoryModel()
        spam_filter = with_parts(make_filter(client), model=model, counts=model)
        spam_filter = with_kinds(spam_filter) if kinds else spam_filter
        checks: list[object] = []
        for number, (label, raw) in enumerate(samples(150, seed=5)):
            message = Message.parse(raw)
            check = await spam_filter.check(message)
            checks.append((check.probability, check.score, check.verdict, check.clues, check.thresholds))
            name = ("ham", "newsletter", "notification")[number % 3] if kinds and label == "ham" else label
            if number % 5 == 0 and label == "ham":  # what is of a kind now was plain ham before
                await spam_filter.learn(message, "ham", "test")
            await spam_filter.learn(message, name, "test")
        return checks

    assert await scores(kinds=True) == await scores(kinds=False)


async def test_a_kind_is_found_and_spam_has_none(client: Redis) -> None:
    spam_filter = filter_of(client)
    await teach_by_number(spam_filter)
    ham, spam = (
        next(Message.parse(raw) for label, raw in samples(50, seed=9) if label == wanted) for wanted in CLASSES
    )

    check = await spam_filter.check(ham)
    assert check.kind is not None
    assert check.kind.kind in {"ham", "newsletter", "notification"}
    assert sum(check.kind.probabilities.values()) == pytest.approx(1)
    spam_check = await spam_filter.check(spam)
    assert spam_check.verdict.is_spam
    assert spam_check.kind is None


async def test_a_lesson_names_the_kind_and_what_it_was_before(client: Redis) -> None:
    spam_filter = filter_of(client)

    outcomes = [
        await spam_filter.learn(MESSAGES[0], name, "test") for name in ("newsletter", "newsletter", "ham", "spam")
    ]
    outcomes += [
        await spam_filter.learn(MESSAGES[0], "newsletter", "test"),
        await spam_filter.unlearn(MESSAGES[0], "x"),
    ]

    assert [(lesson.outcome, lesson.class_name, lesson.label) for lesson in outcomes] == [
        (FeedbackOutcome.LEARNED, "newsletter", "ham"),
        (FeedbackOutcome.ALREADY, "newsletter", "ham"),
        (FeedbackOutcome.RELEARNED, "ham", "ham"),
        (FeedbackOutcome.RELEARNED, "spam", "spam"),
        (FeedbackOutcome.RELEARNED, "newsletter", "ham"),
        (FeedbackOutcome.UNLEARNED, "newsletter", "ham"),
    ]
    assert [lesson.former_class_name for lesson in outcomes[2:5]] == ["newsletter", "ham", "spam"]
    records = [record async for record in Model(client, "test", 3600).history.records()]
    assert [record.description for record in reversed(records)] == [
        "learned newsletter",
        "relearned newsletter -> ham",
        "relearned ham -> spam",
        "relearned spam -> newsletter",
        "unlearned newsletter",
    ]
    by_kind = HistorySelection(label="newsletter")
    assert [record in by_kind for record in reversed(records)] == [True, False, False, True, True]
    assert [record in HistorySelection(label="ham") for record in reversed(records)] == [
        True,
        True,
        False,
        True,
        True,
    ]
