"""Learning without people, on a real Redis: what is sure is learned beside, and what people say replaces it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field

import pytest
from redis.asyncio import Redis

from nbstream.bayes.calibration import SCORE_BINS, Calibration
from nbstream.bayes.classifier import Classifier, ClassifierOptions
from nbstream.bayes.counts import CLASSES
from nbstream.errors import StoreUnavailable
from nbstream.filter import (
    Autolearner,
    AutolearnLayer,
    AutolearnReconciler,
    Filter,
    FilterParts,
    FilterPolicy,
    LessonOutcome,
)
from nbstream.filter.autolearner import MAX_QUEUED
from nbstream.filter.scorer import Scorer
from nbstream.mail.message import Message
from nbstream.policy import autolearn
from nbstream.policy.policy import ThresholdPolicy
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.autolearn_layer import AutolearnModel, LayeredCounts
from nbstream.store.model.history import LessonNote
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
from nbstream.store.model.model import Model
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from tests.bayes.sample_models import CHOICES
from tests.conftest import RedisServer
from tests.filter.replaced_parts import with_parts
from tests.letters import letters
from tests.store.algebra import live_entries, stored, summed
from tests.waiting import until

EMPTY: tuple[dict[str, dict[bytes, int]], dict[bytes, int]] = ({"ham": {}, "spam": {}}, {})
MARGINS = autolearn.AutolearnOptions(ham_margin=0.02, spam_margin=0.98, max_lead=5)
NEEDED = {"spam": 20, "ham": 20}


@dataclass
class Site:
    """A filter over both layers, and what learns without people."""

    people: Model
    layer: AutolearnLayer
    filter: Filter
    learner: Autolearner
    model: AutolearnModel
    told: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def check(self, *raws: bytes) -> list[float]:
        """Check messages and learn what is sure, one after the other; their probabilities."""
        found = []
        for raw in raws:
            found.append((await self.filter.check(Message.parse(raw))).probability)
            await self.learner.learn_queued()
        return found


def site(client: Redis, margins: autolearn.AutolearnOptions = MARGINS, choice: str = "multinomial") -> Site:
    people, model = Model(client, "test", 3600), AutolearnModel(client, "test", 3600)
    layer, told = AutolearnLayer(model, model), Counter[tuple[str, str]]()
    chosen = CHOICES[choice]
    classifier, params = Classifier(ClassifierOptions(chosen)), FilterPolicy(ThresholdPolicy(), NEEDED)
    learner = Autolearner(
        people,
        layer,
        Scorer(classifier, Calibration(), people, params),
        margins,
        lambda label, outcome: told.update([(label, outcome)]),
    )
    spam_filter = Filter(
        FilterParts(
            tokenizer=Tokenizer(
                TokenizerOptions(attributes=chosen.categorical is not None, numbers=chosen.gaussian is not None)
            ),
            classifier=classifier,
            calibration=Calibration(),
            model=people,
            counts=LayeredCounts(people, model),
            observer=learner,
            autolearn_layer=layer,
        ),
        params,
    )
    return Site(people, layer, spam_filter, learner, model, told)


async def taught(client: Redis, count: int = 120, choice: str = "multinomial") -> Site:
    found = site(client, choice=choice)
    for label, raw in letters(count):
        await found.filter.learn(Message.parse(raw), label, "test")
    return found


def only(label: str, count: int, seed: int = 8) -> list[bytes]:
    """Letters of one class that were not taught."""
    return [raw for its, raw in letters(4 * count, seed) if its == label][:count]


async def test_what_is_sure_is_learned_in_its_own_layer_and_nothing_else(client: Redis) -> None:
    here = await taught(client)
    before = await stored(here.people)
    mail = [raw for _, raw in letters(60, seed=8)]

    probabilities = dict(zip((Message.parse(raw).key for raw in mail), await here.check(*mail), strict=True))

    learned = await live_entries(here.model)
    assert {entry.label for entry in learned.values()} == set(CLASSES)
    for key, entry in learned.items():
        assert (probabilities[key] >= 0.98) if entry.label == "spam" else (probabilities[key] <= 0.02)
        assert entry.source == "auto"
    assert 10 < len(learned) == here.told["ham", "learned"] + here.told["spam", "learned"]
    assert await stored(here.people) == before
    assert await stored(here.model) == await summed(here.model)


async def test_it_teaches_the_scores_but_not_the_calibration_and_never_makes_a_model_ready(client: Redis) -> None:
    here = await taught(client, 60)
    before = [(await here.filter.check(Message.parse(raw))) for _, raw in letters(5, seed=9)]
    await here.learner.learn_queued()

    await here.check(*(raw for _, raw in letters(60, seed=8)))

    after = [(await here.filter.check(Message.parse(raw))) for _, raw in letters(5, seed=9)]
    assert sum((await here.model.totals()).messages) > 5
    assert [each.score for each in after] != [each.score for each in before]
    assert [each.state for each in after] == [each.state for each in before]
    bins, _ = await here.model.look_up(SCORE_BINS)
    assert not bins.any()


async def test_a_model_that_does_not_decide_yet_learns_nothing_by_itself(client: Redis) -> None:
    here = site(client, autolearn.AutolearnOptions(ham_margin=0.49, spam_margin=0.51))
    for raw in only("spam", 60, seed=7):
        await here.filter.learn(Message.parse(raw), "spam", "test")

    await here.check(*only("spam", 20), *only("ham", 20))

    assert await stored(here.model) == EMPTY
    assert not here.told


async def test_one_class_leads_by_no_more_than_it_may(client: Redis) -> None:
    here = await taught(client)

    await here.check(*only("spam", 30))
    assert (await here.model.totals()).messages == (0, 5)
    assert here.told["spam", "unbalanced"] > 0

    await here.check(*only("ham", 30))
    assert (await here.model.totals()).messages == (10, 5)


async def test_a_message_is_learned_once(client: Redis) -> None:
    here = await taught(client)
    raws = only("spam", 3)
    await here.check(*raws)
    before = await stored(here.model)
    assert before != EMPTY

    await here.check(*raws)

    assert await stored(here.model) == before
    assert here.told["spam", "already"] == here.told["spam", "learned"]


async def test_less_is_learned_than_of_a_person(client: Redis) -> None:
    here = await taught(client)
    (raw,) = only("spam", 1)
    await here.check(raw)
    (by_itself,) = (await live_entries(here.model)).values()

    await here.filter.learn(Message.parse(raw), "spam", "test")

    by_person = await here.people.entry(Message.parse(raw).key)
    assert by_person
    assert 0 < by_itself.weight < by_person.weight
    assert [name for name, _ in by_itself.sums if name in SCORE_BINS] == []


@pytest.mark.parametrize("label", [*CLASSES, None])
@pytest.mark.parametrize("choice", ["multinomial", "all together"])
async def test_a_persons_word_replaces_what_was_learned(client: Redis, label: str | None, choice: str) -> None:
    here = await taught(client, choice=choice)
    (raw,) = only("spam", 1)
    message = Message.parse(raw)
    before = await stored(here.people)
    (certain,) = await here.check(raw)
    assert await here.model.entry(message.key)

    if label:
        lesson = await here.filter.learn(message, label, "test")
    else:
        lesson = await here.filter.unlearn(message, "test")

    assert await stored(here.model) == EMPTY
    entry = await here.people.entry(message.key)
    assert (entry.label if entry else None) == label
    assert lesson.outcome == (LessonOutcome.LEARNED if label else LessonOutcome.UNLEARNED)
    assert lesson.label == (label or "spam")
    assert lesson.before.probability <= certain  # what it said of itself is gone before it is asked
    if label is None:
        assert await stored(here.people) == before


async def test_a_message_that_a_person_labelled_is_left_alone(client: Redis) -> None:
    here = await taught(client)
    (raw,) = only("spam", 1)
    await here.filter.learn(Message.parse(raw), "spam", "test")

    await here.check(raw)

    assert await stored(here.model) == EMPTY
    assert here.told == {("spam", "human"): 1}


class Interrupted(AutolearnModel):
    """A layer where a person speaks right before, or right after, something is learned."""

    moment = ""
    person: Filter
    message: Message
    lesson: asyncio.Task[object] | None = None

    async def commit_lesson(
        self, message_key: str, old: LedgerEntry | None, new: LedgerEntry | None, note: LessonNote
    ) -> bytes | LedgerConflict:
        """As a layer does, with a person in between."""
        speaks = self.lesson is None and new is not None
        if speaks and self.moment == "before":
            self.lesson = asyncio.create_task(self.person.learn(self.message, "ham", "test"))
            await self.lesson
        change = await super().commit_lesson(message_key, old, new, note)
        if speaks and self.moment == "after":
            self.lesson = asyncio.create_task(self.person.learn(self.message, "ham", "test"))
            await self.lesson
        return change


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_of_two_at_the_same_moment_the_persons_stays(client: Redis, moment: str) -> None:
    here = await taught(client)
    (raw,) = only("spam", 1)
    interrupted = Interrupted(client, "test", 3600)
    interrupted.moment, interrupted.message, interrupted.person = moment, Message.parse(raw), here.filter
    here.layer.model = interrupted

    await here.check(raw)

    assert interrupted.lesson
    assert await stored(here.model) == EMPTY
    entry = await here.people.entry(Message.parse(raw).key)
    assert entry
    assert entry.label == "ham"


class LearnedMeanwhile(Model):
    """People's model, where the same message is learned without people right before a lesson is written."""

    site: Site
    raw: bytes

    async def commit_lesson(
        self, message_key: str, old: LedgerEntry | None, new: LedgerEntry | None, note: LessonNote
    ) -> bytes | LedgerConflict:
        """As a model does, a moment too late."""
        if new:
            await self.site.check(self.raw)
            assert await self.site.model.entry(message_key)
        return await super().commit_lesson(message_key, old, new, note)


async def test_what_is_learned_while_a_person_speaks_is_taken_back_after_it(client: Redis) -> None:
    here = await taught(client)
    (raw,) = only("spam", 1)
    late = LearnedMeanwhile(client, "test", 3600)
    late.site, late.raw = await taught(client), raw
    here.filter = with_parts(here.filter, model=late)

    await here.filter.learn(Message.parse(raw), "spam", "test")

    assert await stored(here.model) == EMPTY


async def test_a_writer_that_dies_between_the_two_loses_only_the_auto_label(client: Redis) -> None:
    here = await taught(client)
    (raw,) = only("spam", 1)
    message = Message.parse(raw)
    await here.check(raw)
    await here.layer.withdraw(message.key)  # and then it was killed

    assert await stored(here.model) == EMPTY
    assert (await here.filter.learn(message, "ham", "test")).outcome is LessonOutcome.LEARNED
    assert await stored(here.people) == await summed(here.people)


async def test_the_settler_takes_back_what_nobody_saw_to(client: Redis) -> None:
    here = await taught(client)
    raws = only("spam", 3)
    await here.check(*raws)
    other = site(client)
    other.filter = with_parts(other.filter, autolearn_layer=None)  # a process with autolearning switched off
    await other.filter.learn(Message.parse(raws[0]), "ham", "test")
    assert len(await live_entries(here.model)) == 3

    await AutolearnReconciler(here.layer, lambda: here.model.disputed_messages(here.people)).reconcile()

    assert set(await live_entries(here.model)) == {Message.parse(raw).key for raw in raws[1:]}
    assert await stored(here.model) == await summed(here.model)


async def test_the_queue_is_bounded_and_what_does_not_fit_is_counted(client: Redis) -> None:
    here = await taught(client)
    (raw,) = only("spam", 1)

    for _ in range(MAX_QUEUED + 7):
        await here.filter.check(Message.parse(raw))  # nobody learns meanwhile

    assert here.told == {("spam", "dropped"): 7}
    await here.learner.learn_queued()
    assert here.told == {("spam", "dropped"): 7, ("spam", "learned"): 1, ("spam", "already"): MAX_QUEUED - 1}


async def test_while_redis_is_away_it_is_dropped_and_it_comes_back_by_itself(
    own_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1), retries=0)
    here = await taught(client)
    first, second, third = (Message.parse(raw) for raw in only("spam", 3))
    for message in (first, second):
        await here.filter.check(message)
    own_redis.stop()
    running = asyncio.create_task(here.learner.run())
    try:
        await until(lambda: here.told == {("spam", "failed"): 2})
        own_redis.start()  # empty
        for label, raw in letters(120):
            await here.filter.learn(Message.parse(raw), label, "test")
        await here.filter.check(third)
        await until(lambda: here.told["spam", "learned"] == 1)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.aclose()

    said = [record.message for record in caplog.records if "is learned again" in record.message]
    lost = [record for record in caplog.records if "is not learned now" in record.message]
    assert (len(said), len(lost)) == (1, 1)


async def test_a_person_is_told_to_try_again_while_the_layer_cannot_be_read(client: Redis) -> None:
    here = await taught(client)

    class Away(AutolearnModel):
        async def entry(self, message_key: str) -> LedgerEntry | None:
            raise StoreUnavailable("away")

    here.layer.model = Away(client, "test", 3600)
    before = await stored(here.people)

    with pytest.raises(StoreUnavailable):
        await here.filter.learn(Message.parse(only("spam", 1)[0]), "spam", "test")

    assert await stored(here.people) == before
