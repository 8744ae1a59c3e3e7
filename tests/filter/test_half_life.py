"""The filter over a model with a half-life, on a real Redis, with a clock that the test moves."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.bayes.counts import CLASSES, Totals
from nbstream.bayes.half_life import MAX_COUNT, HalfLife
from nbstream.bayes.multinomial import TokenCounts
from nbstream.errors import CountsFull
from nbstream.filter import Filter, FilterParts, FilterPolicy, LessonOutcome
from nbstream.filter.scorer import Scorer
from nbstream.filter.sources import CountSource
from nbstream.filter.undo import HypotheticalCounts
from nbstream.mail.message import Message
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.server.smtp_replies import error_reply
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.model.history import HistorySelection
from nbstream.store.model.model import Model
from nbstream.store.undo import apply_undo, prepare_undo, selected_changes
from nbstream.tokens.tokenizer import Tokenizer
from tests.letters import letters
from tests.store.algebra import NOTHING, live_entries, stored, summed
from tests.store.lessons import change, entry
from tests.store.mirror.mirrors import running

DAYS = 10.0
HALF_LIFE = DAYS * 86_400
SINCE = 1e9  # far enough from 1970 that no step of a test goes back behind it
LETTERS = [(label, Message.parse(raw)) for label, raw in letters(30)]
PARAMS = FilterPolicy(ThresholdPolicy(), {"spam": 1, "ham": 1})


class HalfLifeSite:
    """A model, the filter over it, and their clock."""

    def __init__(self, client: Redis, days: float | None = DAYS, name: str = "test") -> None:
        self.now = SINCE
        self.model = Model(client, name, 3600, days, clock=lambda: self.now)
        self.filter = self.filter_over(self.model)

    def filter_over(self, counts: CountSource) -> Filter:
        return Filter(
            FilterParts(
                tokenizer=self.tokenizer,
                classifier=self.classifier,
                calibration=Calibration(),
                model=self.model,
                counts=counts,
                clock=lambda: self.now,
            ),
            PARAMS,
        )

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer()

    @property
    def classifier(self) -> Classifier:
        return Classifier()

    def pass_half_lives(self, count: float) -> None:
        self.now += count * HALF_LIFE

    async def learn(self, number: int, label: str | None = None) -> LessonOutcome:
        given_label, message = LETTERS[number]
        return (await self.filter.learn(message, label or given_label, "test")).outcome


@asynccontextmanager
async def taught_site(client: Redis, late: float = 0) -> AsyncIterator[HalfLifeSite]:
    """A model and a filter that were taught ``late`` half-lives after t0."""
    site = HalfLifeSite(client)
    await site.model.open()
    site.pass_half_lives(late)
    for number in range(20):
        await site.learn(number)
    yield site


steps = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from((*CLASSES, None)), st.floats(-0.5, 1)), min_size=1, max_size=12
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
async def test_counts_are_the_sum_over_the_ledger_at_any_time_and_all_can_be_taken_back(
    client: Redis, steps: list[tuple[int, str | None, float]]
) -> None:
    await client.flushall()
    site = HalfLifeSite(client)
    await site.model.open()

    for number, label, passed in steps:
        site.pass_half_lives(passed)
        if label:
            await site.learn(number, label)
        else:
            await site.filter.unlearn(LETTERS[number][1], "test")
    assert await stored(site.model) == await summed(site.model)

    for number in range(5):
        site.pass_half_lives(-0.3)
        await site.filter.unlearn(LETTERS[number][1], "test")
    assert (await stored(site.model), await live_entries(site.model)) == (NOTHING, {})


@pytest.mark.parametrize("passed", [2, 10])
async def test_after_some_half_lives_the_score_is_that_of_accordingly_smaller_counts(
    client: Redis, passed: int
) -> None:
    async with taught_site(client, late=10) as site:  # so that every count can be divided
        message, unit = LETTERS[25][1], site.model.half_life.unit(site.now)
        early = await site.filter.check(message)
        site.pass_half_lives(passed)

        late = await site.filter.check(message)

        assert late.score == pytest.approx(await score_of_smaller(site, message, 2**passed, unit), abs=1e-9)
        assert late.score != early.score


async def score_of_smaller(site: HalfLifeSite, message: Message, times: int, unit: float) -> float:
    """The score of a message where every count and every weight is one of so many parts, messages aside."""
    tokens = site.tokenizer.tokenize(message)
    rows, totals = await site.model.look_up(tokens.all.names)
    assert not (rows % times).any()
    smaller = Totals(totals.messages, tuple(n // times for n in totals.token_weights), totals.vocabulary_size)
    return site.classifier.score(tokens, TokenCounts(rows // times, smaller, unit)).log_odds


async def test_a_model_that_was_taught_late_scores_as_one_without_a_half_life(client: Redis) -> None:
    late, plain = HalfLifeSite(client), HalfLifeSite(client, days=None, name="plain")
    await late.model.open()
    await plain.model.open()
    late.pass_half_lives(7)
    message = LETTERS[25][1]

    for number in range(20):
        await late.learn(number)
        await plain.learn(number)

    one, other = [await each.filter.check(message) for each in (late, plain)]
    assert (one.score, one.probability) == pytest.approx((other.score, other.probability), abs=1e-9)
    grown, counts = (await stored(late.model))[0], (await stored(plain.model))[0]
    assert grown == {label: {name: 128 * n for name, n in counts[label].items()} for label in CLASSES}


async def test_recent_lessons_win_over_more_lessons_of_long_ago(client: Redis) -> None:
    async with taught_site(client) as site:
        spam = next(message for label, message in LETTERS[:20] if label == "spam")
        assert (await site.filter.check(spam)).score > 0
        site.pass_half_lives(8)
        for number in range(20, 30):
            label = "ham" if LETTERS[number][0] == "spam" else "spam"
            await site.learn(number, label)

        assert (await site.filter.check(spam)).score < 0


async def test_a_mirror_reads_in_the_time_base_of_its_model(client: Redis) -> None:
    async with taught_site(client) as site:
        mirror = Mirror(Model(client, "test", 3600, DAYS), timeout_seconds=5)
        assert mirror.half_life.days is None
        site.pass_half_lives(3)
        async with running(mirror):
            by_mirror = site.filter_over(mirror)
            message = LETTERS[25][1]

            assert mirror.half_life == site.model.half_life == HalfLife(DAYS, SINCE)
            assert await by_mirror.check(message) == await site.filter.check(message)


async def test_an_undo_restores_the_very_weight_that_was_there(client: Redis) -> None:
    async with taught_site(client) as site:
        before, former = await stored(site.model), await live_entries(site.model)
        site.pass_half_lives(4)
        for number in range(5):
            await site.learn(number, "ham" if LETTERS[number][0] == "spam" else "spam")
        assert await stored(site.model) != before

        for key, changes in (await selected_changes(site.model, HistorySelection())).items():
            taken = [
                replace(each, is_selected=each.change.description.startswith("relearned")) for each in changes
            ]
            await apply_undo(site.model, await prepare_undo(site.model, key, taken), "ann")

        assert await stored(site.model) == before
        assert {key: e.weight for key, e in (await live_entries(site.model)).items()} == {
            key: e.weight for key, e in former.items()
        }


async def test_a_preview_uses_the_growth_of_the_present_moment(client: Redis) -> None:
    async with taught_site(client) as site:
        site.pass_half_lives(3)
        tokens = site.tokenizer.tokenize(LETTERS[25][1])
        supposed = Scorer(site.classifier, Calibration(), HypotheticalCounts(site.model), PARAMS, lambda: site.now)

        check = await supposed.check_now("", tokens)

        assert check.score == (await site.filter.check(LETTERS[25][1])).score


# The end of growth


async def test_too_many_half_lives_after_t0_only_learning_stops(client: Redis) -> None:
    async with taught_site(client) as site:
        site.pass_half_lives(26.01)
        before = await stored(site.model), await live_entries(site.model)

        for number, label in ((20, None), (0, "ham"), (0, "spam")):
            if label == LETTERS[number][0]:
                continue
            with pytest.raises(CountsFull) as refused:
                await site.learn(number, label)
            assert error_reply(refused.value).code == 451
            assert "model.name" in str(refused.value)
            assert "model" not in error_reply(refused.value).text

        assert (await stored(site.model), await live_entries(site.model)) == before
        await site.filter.check(LETTERS[25][1])
        assert (await site.filter.unlearn(LETTERS[0][1], "test")).outcome is LessonOutcome.UNLEARNED


@pytest.mark.parametrize("at_the_end", [25.9, 400.0, 1e9])
async def test_a_clock_far_ahead_does_no_harm_to_scores(client: Redis, at_the_end: float) -> None:
    async with taught_site(client) as site:
        site.pass_half_lives(at_the_end)

        check = await site.filter.check(LETTERS[25][1])

        assert check.probability == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("where", ["total", "sum"])
async def test_a_total_or_a_sum_that_would_be_inexact_is_refused(client: Redis, where: str) -> None:
    site = HalfLifeSite(client)
    await site.model.open()
    large = MAX_COUNT - 10
    if where == "total":
        await change(site.model, "m", entry("spam", [b"b:x"], large))
    else:
        await change(
            site.model, "m", entry("spam", [], 1, [(Calibration().lesson_sums(0.0, Totals())[0][0], large)])
        )
    before = await stored(site.model)

    with pytest.raises(CountsFull):
        await site.learn(0, "spam")

    assert await stored(site.model) == before
    assert await site.learn(0, "ham") is LessonOutcome.LEARNED if where == "sum" else True


async def test_the_log_warns_early_and_once_for_each_half_life(
    client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "nbstream")
    async with taught_site(client) as site:
        warnings = []
        for number, passed in enumerate((19.9, 0.2, 0.1, 1, 0.1, 2), start=20):
            site.pass_half_lives(passed)
            await site.learn(number)
            warnings.append([record.getMessage()[:40] for record in caplog.records])
            caplog.clear()

    assert [len(each) for each in warnings] == [0, 1, 0, 1, 0, 1]
    assert warnings[1] == ["in about 5.9 half-lives nothing more can"]


async def test_another_policy_does_not_change_the_clock(client: Redis) -> None:
    async with taught_site(client, late=3) as site:
        message = LETTERS[25][1]

        check = await site.filter.check(message)

        assert await site.filter.with_policy(PARAMS).check(message) == check
