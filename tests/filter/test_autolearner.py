"""Learning without people, on a real Redis: what is sure is learned beside, and what people say replaces it."""

from __future__ import annotations

import asyncio
import logging
import math

import pytest
from redis.asyncio import Redis

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.columns import CLASSES
from nbstream.filter import (
    FeedbackOutcome,
)
from nbstream.filter.autolearner import MAX_QUEUED
from nbstream.mail.message import Message
from nbstream.policy.autolearn import MAX_SCORE
from nbstream.policy.sender_lists import ListDecision, ListKind
from nbstream.policy.settings import AutolearnSettings
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.commit import CommitResult
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import LessonBatch
from tests.filter.autolearn_site import EMPTY, AutolearnSite, letters_of, make_site, taught_site
from tests.harness.algebra import live_entries, stored, summed
from tests.harness.filters import with_parts
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples
from tests.harness.waiting import until


@pytest.mark.parametrize(
    ("probability", "expected"),
    [(0.0, "ham"), (0.01, "ham"), (0.011, None), (0.5, None), (0.989, None), (0.99, "spam"), (1.0, "spam")],
)
def test_only_messages_beyond_the_margins_have_a_label(probability: float, expected: str | None) -> None:
    assert AutolearnSettings(ham=0.01, spam=0.99).label(probability) == expected


@pytest.fixture(autouse=True)
def everything_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages are so alike that a model soon has nothing to learn from more of them."""
    monkeypatch.setattr("nbstream.policy.autolearn.MAX_SCORE", math.inf)


async def test_only_sure_messages_are_learned_and_nothing_of_what_people_taught_changes(client: Redis) -> None:
    site = await taught_site(client)
    before = await stored(site.model)
    mail = [raw for _, raw in samples(60, seed=8)]

    probabilities = dict(zip((Message.parse(raw).key for raw in mail), await site.check(*mail), strict=True))

    learned = await live_entries(site.model, automatic=True)
    assert {entry.label for entry in learned.values()} == set(CLASSES)
    for key, entry in learned.items():
        assert (probabilities[key] >= 0.98) if entry.label == "spam" else (probabilities[key] <= 0.02)
        assert entry.source == "auto"
    assert 10 < len(learned) == site.outcomes["ham", "learned"] + site.outcomes["spam", "learned"]
    assert await stored(site.model) == before
    assert await stored(site.model, automatic=True) == await summed(site.model, automatic=True)


async def test_autolearning_changes_scores_but_neither_calibration_nor_the_model_state(client: Redis) -> None:
    site = await taught_site(client)
    before = [(await site.filter.check(Message.parse(raw))) for _, raw in samples(5, seed=9)]
    await site.learner.learn_queued()

    await site.check(*(raw for _, raw in samples(60, seed=8)))

    after = [(await site.filter.check(Message.parse(raw))) for _, raw in samples(5, seed=9)]
    assert sum(await site.learned()) > 5
    assert [check.score for check in after] != [check.score for check in before]
    assert [check.state for check in after] == [check.state for check in before]
    assert not (await site.model.look_up_columns(SCORE_BINS, automatic=True))[0].any()


async def test_a_model_that_is_still_learning_autolearns_nothing(client: Redis) -> None:
    site = make_site(client, AutolearnSettings(ham=0.49, spam=0.51))
    for raw in letters_of("spam", 60, seed=7):
        await site.filter.learn(Message.parse(raw), "spam", "test")

    await site.check(*letters_of("spam", 20), *letters_of("ham", 20))

    assert await stored(site.model, automatic=True) == EMPTY
    assert not site.outcomes


async def test_what_a_sender_list_decides_is_not_learned(client: Redis) -> None:
    site = await taught_site(client)
    raws = letters_of("spam", 5)

    for listed in (ListDecision(kind, "user") for kind in ListKind):
        for raw in raws:
            check, seconds = await site.filter.score(Message.parse(raw))
            site.filter.report(check.by_list(listed), seconds)
            await site.learner.learn_queued()
    assert await stored(site.model, automatic=True) == EMPTY

    unproved = ListDecision(ListKind.ALLOW, "user", decides=False)
    for raw in raws:
        check, seconds = await site.filter.score(Message.parse(raw))
        site.filter.report(check.by_list(unproved), seconds)
        await site.learner.learn_queued()
    assert await site.learned() == (0, 5)


async def test_one_class_leads_by_no_more_than_the_option_allows(client: Redis) -> None:
    site = await taught_site(client)

    await site.check(*letters_of("spam", 30))
    assert await site.learned() == (0, 5)
    assert site.outcomes["spam", "unbalanced"] > 0

    await site.check(*letters_of("ham", 30))
    assert await site.learned() == (10, 5)


async def test_what_says_nothing_new_is_not_learned(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbstream.policy.autolearn.MAX_SCORE", MAX_SCORE)
    site = await taught_site(client, 300)
    raws = letters_of("spam", 10)
    scores = [(await site.filter.check(Message.parse(raw))).score for raw in raws]
    await site.learner.learn_queued()

    known = sum(score > MAX_SCORE for score in scores)

    assert known > 0
    assert site.outcomes["spam", "known"] == known
    assert set(await live_entries(site.model, automatic=True)).isdisjoint(
        Message.parse(raw).key for raw, score in zip(raws, scores, strict=True) if score > MAX_SCORE
    )


@pytest.mark.parametrize("label", [*CLASSES, None])
async def test_a_persons_label_replaces_what_was_autolearned(client: Redis, label: str | None) -> None:
    site = await taught_site(client)
    (raw,) = letters_of("spam", 1)
    message = Message.parse(raw)
    before = await stored(site.model)
    (certain,) = await site.check(raw)
    assert await site.model.entry(message.key)

    if label:
        lesson = await site.filter.learn(message, label, "test")
    else:
        lesson = await site.filter.unlearn(message, "test")

    assert await stored(site.model, automatic=True) == EMPTY
    entry = await site.model.entry(message.key)
    assert (entry.label if entry else None) == label
    assert lesson.outcome == (FeedbackOutcome.LEARNED if label else FeedbackOutcome.UNLEARNED)
    assert lesson.label == (label or "spam")
    assert lesson.before.probability <= certain  # what was autolearned is taken back before this check
    if label is None:
        assert await stored(site.model) == before


async def test_a_message_that_a_person_labelled_is_not_autolearned(client: Redis) -> None:
    site = await taught_site(client)
    (raw,) = letters_of("spam", 1)
    await site.filter.learn(Message.parse(raw), "spam", "test")

    await site.check(raw)

    assert await stored(site.model, automatic=True) == EMPTY
    assert site.outcomes == {("spam", "human"): 1}


class LearnedMeanwhile(Model):
    """People's model, where the same message is learned without people right before a lesson is written."""

    make_site: AutolearnSite
    raw: bytes
    commits = 0

    async def commit_lessons(self, batch: LessonBatch) -> list[CommitResult]:
        """As a model does, the first time a moment too late."""
        self.commits += 1
        if self.commits == 1:
            await self.make_site.check(self.raw)
            assert await self.make_site.model.entry(batch.lessons[0].message_key)
        return await super().commit_lessons(batch)


async def test_what_is_autolearned_during_a_persons_lesson_is_taken_back_after_it(client: Redis) -> None:
    site = await taught_site(client)
    (raw,) = letters_of("spam", 1)
    late = LearnedMeanwhile(client, "test", 3600)
    late.make_site, late.raw = await taught_site(client), raw
    site.filter = with_parts(site.filter, model=late)

    await site.filter.learn(Message.parse(raw), "spam", "test")

    assert await stored(site.model, automatic=True) == EMPTY
    assert late.commits == 2


async def test_the_queue_is_bounded_and_what_does_not_fit_is_counted(client: Redis) -> None:
    site = await taught_site(client)
    (raw,) = letters_of("spam", 1)

    for _ in range(MAX_QUEUED + 7):
        await site.filter.check(Message.parse(raw))  # nobody learns meanwhile

    assert site.outcomes == {("spam", "dropped"): 7}
    await site.learner.learn_queued()
    assert site.outcomes == {("spam", "dropped"): 7, ("spam", "learned"): 1, ("spam", "already"): MAX_QUEUED - 1}


async def test_while_redis_is_away_candidates_are_dropped_and_autolearning_resumes_by_itself(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1), retries=0)
    site = await taught_site(client)
    first, second, third = (Message.parse(raw) for raw in letters_of("spam", 3))
    for message in (first, second):
        await site.filter.check(message)
    own_redis.stop()
    running = asyncio.create_task(site.learner.run())
    try:
        await until(lambda: site.outcomes == {("spam", "failed"): 2})
        own_redis.start()  # empty
        for label, raw in samples(120):
            await site.filter.learn(Message.parse(raw), label, "test")
        await site.filter.check(third)
        await until(lambda: site.outcomes["spam", "learned"] == 1)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.aclose()

    said = [record.message for record in caplog.records if "automatic learning resumes" in record.message]
    lost = [record for record in caplog.records if "automatic learning is suspended" in record.message]
    assert (len(said), len(lost)) == (1, 1)
