"""A person who says the same label again is believed, up to a bound, and exactly as long as he wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.bayes.counts import Totals
from nbstream.bayes.lesson_weight import MAX_ENTRY_WEIGHT
from nbstream.filter import Contradiction, FeedbackOutcome, FeedbackResult, Filter, FilterParts, FilterPolicy
from nbstream.policy.feedback_source import REINFORCEMENT_PAUSE_SECONDS, Reinforcement
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.model.model import Model
from nbstream.tokens.tokenizer import Tokenizer
from tests.harness.algebra import stored, summed
from tests.harness.disputes import DISPUTED, SIMILAR, teach_dispute
from tests.harness.filters import make_filter, with_parts
from tests.harness.redis.proxy import Fate, Proxy
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import DEADLINE_SECONDS

DAY = 86_400.0
KEY = DISPUTED.key
BY_HAND = Reinforcement.AFTER_PAUSE
NEVER_HAM = FilterPolicy(ThresholdPolicy(unsure=1e-15), {"spam": 1, "ham": 1})
"""A policy by which every message contradicts the label ham, whatever weight its lesson has."""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


class Site:
    """A model in Redis, the filter over it, and their clock."""

    def __init__(self, client: Redis) -> None:
        self.clock = Clock()
        self.model = Model(client, "test", 3600)
        self.filter = with_parts(make_filter(client), clock=self.clock)

    async def say(
        self, label: str = "ham", source: str = "smtp", actor: str = "ann", reinforcement: Reinforcement = BY_HAND
    ) -> FeedbackResult:
        return await self.filter.learn(DISPUTED, label, source, actor, reinforcement)

    async def entry(self) -> LedgerEntry:
        entry = await self.model.entry(KEY)
        assert entry is not None
        return entry


@asynccontextmanager
async def disputed_site(client: Redis, similar: int = 20) -> AsyncIterator[Site]:
    """A site on which the verdict of ``DISPUTED`` contradicts what ann said of it by mail, eleven minutes ago."""
    site = Site(client)
    await teach_dispute(site.filter, similar=similar)
    site.clock.now += REINFORCEMENT_PAUSE_SECONDS + 60
    yield site


@pytest.fixture
async def site(client: Redis) -> AsyncIterator[Site]:
    async with disputed_site(client) as site:
        assert (await site.filter.check(DISPUTED)).contradicts("ham")
        yield site


async def test_the_same_label_again_gives_more_weight_and_the_message_counts_once(site: Site) -> None:
    before, first = await site.model.totals(), await site.entry()

    lesson = await site.say()

    entry = await site.entry()
    assert (lesson.outcome, lesson.label) == (FeedbackOutcome.REINFORCED, "ham")
    assert lesson.after.probability < lesson.before.probability
    assert await site.filter.check(DISPUTED) == lesson.after
    assert first.weight < entry.weight <= MAX_ENTRY_WEIGHT
    assert (await site.model.totals()).messages == before.messages
    assert await stored(site.model) == await summed(site.model)


async def test_the_smallest_weight_that_is_enough_is_taken(site: Site) -> None:
    check, first, weights = await site.filter.check(DISPUTED), await site.entry(), []
    for share in (0.99, 0.5):
        policy = FilterPolicy(ThresholdPolicy(unsure=share * check.probability), {"spam": 1, "ham": 1})

        lesson = await site.filter.with_policy(policy).learn(DISPUTED, "ham", "smtp", "ann", BY_HAND)

        assert lesson.outcome is FeedbackOutcome.REINFORCED
        assert lesson.contradiction is None
        weights.append((await site.entry()).weight)
        site.clock.now += REINFORCEMENT_PAUSE_SECONDS

    assert first.weight < weights[0] < weights[1] < MAX_ENTRY_WEIGHT


async def test_who_reinforces_on_what_was_seen_leaves_alone_what_came_since(site: Site) -> None:
    check, seen = await site.filter.check(DISPUTED), (await site.entry()).version

    async def reinforce(share: float, version: str | None) -> FeedbackOutcome:
        policy = FilterPolicy(ThresholdPolicy(unsure=share * check.probability), {"spam": 1, "ham": 1})
        spam_filter = site.filter.with_policy(policy)
        return (
            await spam_filter.learn(
                DISPUTED, "ham", "page", "ann", Reinforcement.AT_ONCE, reinforced_version=version
            )
        ).outcome

    assert await reinforce(0.99, seen) is FeedbackOutcome.REINFORCED
    entry = await site.entry()
    assert await reinforce(0.5, seen) is FeedbackOutcome.ALREADY
    assert await site.entry() == entry
    assert await reinforce(0.5, entry.version) is FeedbackOutcome.REINFORCED


async def test_the_bound_holds_however_often_it_is_said(site: Site) -> None:
    site.filter = site.filter.with_policy(NEVER_HAM)
    outcomes = []
    for _ in range(3):
        lesson = await site.say()
        outcomes.append(lesson.outcome)
        site.clock.now += 2 * REINFORCEMENT_PAUSE_SECONDS

    assert outcomes == [FeedbackOutcome.REINFORCED, FeedbackOutcome.ALREADY, FeedbackOutcome.ALREADY]
    assert (await site.entry()).weight == MAX_ENTRY_WEIGHT
    assert lesson.contradiction == Contradiction(has_most_weight=True, wait_seconds=0.0)


async def test_a_repeat_within_ten_minutes_is_a_retry_and_changes_nothing(site: Site) -> None:
    await site.say("spam")
    await site.say("ham")
    for message in SIMILAR[20:40]:
        await site.filter.learn(message, "spam", "test")
    before = await stored(site.model)
    site.clock.now += REINFORCEMENT_PAUSE_SECONDS - 1

    lesson = await site.say()

    assert lesson.outcome is FeedbackOutcome.ALREADY
    assert lesson.contradiction == Contradiction(has_most_weight=False, wait_seconds=1.0)
    assert await stored(site.model) == before
    site.clock.now += 1
    assert (await site.say()).outcome is FeedbackOutcome.REINFORCED


async def messages(batch: Sequence[Any]) -> AsyncIterator[Any]:
    for message in batch:
        yield message


async def test_while_the_verdict_agrees_or_the_model_learns_nothing_is_reinforced(client: Redis) -> None:
    site = Site(client)
    learning = Filter(site.filter.parts, site.filter.policy._replace(min_learned={"spam": 1000, "ham": 1}))
    await teach_dispute(site.filter)
    site.clock.now += REINFORCEMENT_PAUSE_SECONDS

    young = await learning.learn(DISPUTED, "ham", "smtp", "ann", BY_HAND)
    agreed = await site.filter.learn(SIMILAR[0], "spam", "http", "bob", BY_HAND)

    assert (young.outcome, young.contradiction) == (FeedbackOutcome.ALREADY, None)
    assert (agreed.outcome, agreed.contradiction) == (FeedbackOutcome.ALREADY, None)


async def test_two_who_reinforce_at_once_make_one_step(
    client: Redis, shared_redis: RedisServer, tmp_path: Path
) -> None:
    async with disputed_site(client) as site:
        barrier = asyncio.Barrier(2)

        async def meet(request: bytes) -> Fate:
            if b"EVALSHA" in request and KEY.encode() in request:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    await barrier.wait()
            return Fate.PASS

        before = await site.model.totals()
        async with Proxy(shared_redis.socket, tmp_path / "a", meet) as way:
            clients = [open_client(ConnectionOptions(way.url)) for _ in range(2)]
            filters = [with_parts(make_filter(each), clock=site.clock) for each in clients]
            lessons = await asyncio.gather(
                *(
                    spam_filter.learn(DISPUTED, "ham", "http", actor, BY_HAND)
                    for spam_filter, actor in zip(filters, ("bob", "eve"), strict=True)
                )
            )
            for each in clients:
                await each.aclose()

        outcomes = sorted(str(lesson.outcome) for lesson in lessons)
        assert outcomes == ["already", "reinforced"]
        assert (await site.model.totals()).messages == before.messages
        assert await stored(site.model) == await summed(site.model)
        records = [record async for record in site.model.history.records() if record.message_key == KEY]
        assert [record.description for record in records] == ["reinforced ham", "learned ham"]


@pytest.mark.parametrize(
    ("label", "outcome"), [("spam", FeedbackOutcome.RELEARNED), (None, FeedbackOutcome.LEARNED)]
)
async def test_who_reinforces_while_another_changes_the_message_has_the_last_word(
    client: Redis, shared_redis: RedisServer, tmp_path: Path, label: str | None, outcome: FeedbackOutcome
) -> None:
    async with disputed_site(client) as site:
        writes = 0

        async def change_before_the_second_write(request: bytes) -> Fate:
            nonlocal writes
            writes += b"EVALSHA" in request
            if writes == 2:
                await (site.say(label) if label else site.filter.unlearn(DISPUTED, "test"))
                writes += 1
            return Fate.PASS

        async with Proxy(shared_redis.socket, tmp_path / "s", change_before_the_second_write) as way:
            slow = open_client(ConnectionOptions(way.url))
            spam_filter = with_parts(make_filter(slow), clock=site.clock)
            lesson = await spam_filter.learn(DISPUTED, "ham", "http", "bob", BY_HAND)
            await slow.aclose()

        assert lesson.outcome is outcome
        entry = await site.entry()
        assert (entry.label, entry.actor) == ("ham", "bob")
        assert await stored(site.model) == await summed(site.model)


steps = st.lists(
    st.tuples(st.sampled_from([DISPUTED, *SIMILAR[:4]]), st.sampled_from(["ham", "spam", "reinforce", None])),
    max_size=12,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
async def test_learning_reinforcing_and_unlearning_in_any_order_is_exact_in_redis_and_in_memory(
    client: Redis, steps: list[tuple[Any, str | None]]
) -> None:
    await client.flushall()
    clock = Clock()
    memory = MemoryModel()
    redis_model = await Model(client, "test", 3600).open()
    filters = [filter_over(model, clock) for model in (redis_model, memory)]
    for message, step in steps:
        clock.now += DAY
        label = (await redis_model.entry(message.key) or entry_of("ham")).label if step == "reinforce" else step
        reinforcement = Reinforcement.AT_ONCE if step == "reinforce" else Reinforcement.NEVER
        outcomes = [
            (await spam_filter.learn(message, label, "test", "", reinforcement)).outcome
            if label
            else (await spam_filter.unlearn(message, "test")).outcome
            for spam_filter in filters
        ]
        assert outcomes[0] is outcomes[1]

    counts, totals = await stored(redis_model)
    assert (counts, totals) == await summed(redis_model)
    names = sorted({name for of_class in counts.values() for name in of_class})
    rows, memory_totals = await memory.look_up(names)
    assert rows.tolist() == [[counts[label].get(name, 0) for label in ("ham", "spam")] for name in names]
    assert memory_totals == await redis_model.totals()
    for message in {message.key: message for message, _ in steps}.values():
        for spam_filter in filters:
            await spam_filter.unlearn(message, "test")
    assert await stored(redis_model) == ({"ham": {}, "spam": {}}, {})
    assert (await memory.look_up(names))[1] == Totals()


def filter_over(model: Model | MemoryModel, clock: Clock) -> Filter:
    tokenizer = Tokenizer()
    classifier = Classifier()
    parts = FilterParts(
        tokenizer=tokenizer,
        classifier=classifier,
        calibration=Calibration(),
        model=model,
        counts=model,
        clock=clock,
    )
    return Filter(parts, FilterPolicy(ThresholdPolicy(), {"spam": 1, "ham": 1}))


def entry_of(label: str) -> LedgerEntry:
    return LedgerEntry("v", label, 0, (), 0.0, "", "", 0.0)
