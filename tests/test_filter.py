"""The filter's three verbs on a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.filter import Check, Filter, Lesson, Outcome, Params, Silent
from nbstream.mail.message import Message
from nbstream.policy.verdict import Thresholds, Verdict
from nbstream.store.model import Model
from nbstream.tokens.tokenizer import Tokenizer
from tests.letters import letters

PRIZE = Message.parse(b"From: win@example.com\nSubject: prize\n\nClaim your free prize now\n")


class Recorder(Silent):
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.checks: list[tuple[Check, Mapping[str, float]]] = []
        self.lessons: list[tuple[Lesson, str]] = []

    def checked(self, check: Check, stages: Mapping[str, float]) -> None:
        self.checks.append((check, stages))

    def taught(self, lesson: Lesson, source: str) -> None:
        self.lessons.append((lesson, source))


def make_filter(client: Redis, needed: int = 1, observer: Recorder | None = None) -> Filter:
    model = Model(client, "test", 3600)
    return Filter(
        tokenizer=Tokenizer(),
        classifier=Classifier(),
        calibration=Calibration(),
        model=model,
        counts=model,
        params=Params(Thresholds(), {"spam": needed, "ham": needed}),
        observer=observer,
    )


async def test_an_empty_model_says_that_it_is_learning(client: Redis) -> None:
    check = await make_filter(client).check(PRIZE)

    assert (check.verdict, check.probability, check.score, check.reason) == (
        Verdict.UNSURE,
        0.5,
        0.0,
        "learning 0/2",
    )
    assert check.id == PRIZE.key


async def test_feedback_says_what_it_did(client: Redis) -> None:
    spam_filter = make_filter(client)

    outcomes = [
        (await spam_filter.learn(PRIZE, "spam", "test")).outcome,
        (await spam_filter.learn(PRIZE, "spam", "test")).outcome,
        (await spam_filter.learn(PRIZE, "ham", "test")).outcome,
        (await spam_filter.unlearn(PRIZE, "test")).outcome,
        (await spam_filter.unlearn(PRIZE, "test")).outcome,
    ]

    assert outcomes == [*[Outcome.LEARNED, Outcome.ALREADY, Outcome.RELEARNED], Outcome.UNLEARNED, Outcome.UNKNOWN]
    model = Model(client, "test", 3600)
    assert not await client.exists(model.keys.totals, *model.keys.counts, model.keys.ledger(PRIZE.key))


async def test_a_lesson_shows_the_check_before_and_after(client: Redis) -> None:
    lesson = await make_filter(client).learn(PRIZE, "spam", "test")

    assert lesson.before.probability == 0.5
    assert lesson.after.probability > 0.5
    assert lesson.after.state.learned == {"ham": 0, "spam": 1}


async def test_learn_then_unlearn_of_a_whole_stream_leaves_nothing(client: Redis) -> None:
    spam_filter = make_filter(client)
    stream = [(label, Message.parse(raw)) for label, raw in letters(40)]
    for label, message in stream:
        await spam_filter.learn(message, label, "test")
    for _, message in reversed(stream):
        await spam_filter.unlearn(message, "test")

    model = Model(client, "test", 3600)
    assert not await client.exists(model.keys.totals, *model.keys.counts)


async def test_an_unknown_label_is_an_error_of_the_caller(client: Redis) -> None:
    with pytest.raises(ValueError, match="label 'eggs'"):
        await make_filter(client).learn(PRIZE, "eggs", "test")


async def test_contradicting_writers_leave_one_entry_and_its_counts(client: Redis) -> None:
    filters = [make_filter(client) for _ in range(4)]

    await asyncio.gather(*(each.learn(PRIZE, ("spam", "ham")[n % 2], "test") for n, each in enumerate(filters)))

    totals = await Model(client, "test", 3600).totals()
    assert sum(totals.messages) == 1
    await filters[0].unlearn(PRIZE, "test")
    assert not await client.exists(Model(client, "test", 3600).keys.totals)


async def test_the_clues_and_the_prior_sum_to_the_score(client: Redis) -> None:
    spam_filter = make_filter(client)
    for label, raw in letters(30):
        await spam_filter.learn(Message.parse(raw), label, "test")

    check = await spam_filter.check(PRIZE)

    assert check.clues
    assert abs(check.score) > 1


async def test_every_check_and_lesson_is_observed_once(client: Redis) -> None:
    recorder = Recorder()
    spam_filter = make_filter(client, observer=recorder)

    await spam_filter.check(PRIZE)
    await spam_filter.learn(PRIZE, "spam", "door")

    ((check, stages),) = recorder.checks
    assert check.id == PRIZE.key
    assert set(stages) == {"parse", "tokenize", "score"}
    assert [(lesson.outcome, source) for lesson, source in recorder.lessons] == [(Outcome.LEARNED, "door")]


async def test_a_large_message_is_scored_like_a_small_one(client: Redis) -> None:
    large = Message.parse(PRIZE.raw + b"word " * 200_000)

    assert (await make_filter(client).check(large)).verdict is Verdict.UNSURE
