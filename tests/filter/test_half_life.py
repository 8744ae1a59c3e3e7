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
from nbstream.bayes.classifier import Classifier, ClassifierOptions
from nbstream.bayes.counts import CLASSES, Totals
from nbstream.bayes.event_models import FeatureCounts
from nbstream.bayes.half_life import MAX_COUNT, HalfLife
from nbstream.errors import CountsFull
from nbstream.filter import Filter, FilterParts, FilterPolicy, LessonOutcome
from nbstream.filter.preview import HypotheticalCounts
from nbstream.filter.protocols import CountSource
from nbstream.filter.scorer import Scorer
from nbstream.listeners.smtp.error_replies import error_reply
from nbstream.mail.message import Message
from nbstream.policy.policy import ThresholdPolicy
from nbstream.store.model.history import HistorySelection
from nbstream.store.model.model import Model
from nbstream.store.replica.mirror import Mirror
from nbstream.store.undo.restoration import apply_restoration, prepare_restoration, selected_changes
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from tests.bayes.sample_models import CHOICES
from tests.letters import letters
from tests.store.algebra import live_entries, stored, summed
from tests.store.model.test_exact import NOTHING
from tests.store.model.test_model import change, entry
from tests.store.replica.test_mirror import running

DAYS = 10.0
HALF_LIFE = DAYS * 86_400
SINCE = 1e9  # far enough from 1970 that no step of a test goes back behind it
LETTERS = [(label, Message.parse(raw)) for label, raw in letters(30)]
PARAMS = FilterPolicy(ThresholdPolicy(), {"spam": 1, "ham": 1})


class House:
    """A model, the filter over it, and their clock."""

    def __init__(self, client: Redis, choice: str, days: float | None = DAYS, name: str = "test") -> None:
        self.now = SINCE
        self.model = Model(client, name, 3600, days, clock=lambda: self.now)
        self._choice = choice
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
        return Tokenizer(TokenizerOptions(attributes=True, numbers=True))

    @property
    def classifier(self) -> Classifier:
        return Classifier(ClassifierOptions(CHOICES[self._choice]))

    def pass_half_lives(self, count: float) -> None:
        self.now += count * HALF_LIFE

    async def learn(self, number: int, label: str | None = None) -> LessonOutcome:
        given_label, message = LETTERS[number]
        return (await self.filter.learn(message, label or given_label, "test")).outcome


@asynccontextmanager
async def taught(client: Redis, choice: str, late: float = 0) -> AsyncIterator[House]:
    """A house that was taught so many half-lives after its t0."""
    house = House(client, choice)
    await house.model.open()
    house.pass_half_lives(late)
    for number in range(20):
        await house.learn(number)
    yield house


steps = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from((*CLASSES, None)), st.floats(-0.5, 1)), min_size=1, max_size=12
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, choice=st.sampled_from(["multinomial", "all together"]))
async def test_whenever_something_is_taught_it_ends_at_the_sum_over_the_ledger_and_all_can_be_taken_back(
    client: Redis, steps: list[tuple[int, str | None, float]], choice: str
) -> None:
    await client.flushall()
    house = House(client, choice)
    await house.model.open()

    for number, label, passed in steps:
        house.pass_half_lives(passed)
        if label:
            await house.learn(number, label)
        else:
            await house.filter.unlearn(LETTERS[number][1], "test")
    assert await stored(house.model) == await summed(house.model)

    for number in range(5):
        house.pass_half_lives(-0.3)
        await house.filter.unlearn(LETTERS[number][1], "test")
    assert (await stored(house.model), await live_entries(house.model)) == (NOTHING, {})


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("passed", [2, 10])
async def test_after_so_many_half_lives_the_score_is_that_of_counts_so_much_smaller(
    client: Redis, choice: str, passed: int
) -> None:
    async with taught(client, choice, late=10) as house:  # so that every count can be divided
        message, unit = LETTERS[25][1], house.model.half_life.unit(house.now)
        early = await house.filter.check(message)
        house.pass_half_lives(passed)

        late = await house.filter.check(message)

        assert late.score == pytest.approx(await score_of_smaller(house, message, 2**passed, unit), abs=1e-9)
        assert late.score != early.score or choice == "gaussian"  # to which seven spam say nothing


async def score_of_smaller(house: House, message: Message, times: int, unit: float) -> float:
    """The score of a message where every count and every weight is one of so many parts, messages aside."""
    tokens = house.tokenizer.tokenize(message)
    rows, totals = await house.model.look_up([*tokens.all, *house.classifier.sum_names])
    vocabulary = await house.model.vocabulary_counts()
    assert not (rows % times).any()
    smaller = Totals(totals.messages, tuple(n // times for n in totals.tokens), totals.vocabulary_size)
    counts = rows // times
    known, sums = counts[: len(tokens.all)], counts[len(tokens.all) :]
    return house.classifier.score(tokens, FeatureCounts(known, sums, smaller, vocabulary // times, unit)).log_odds


@pytest.mark.parametrize("choice", CHOICES)
async def test_a_model_that_was_taught_late_is_as_one_that_was_taught_without_a_half_life(
    client: Redis, choice: str
) -> None:
    late, plain = House(client, choice), House(client, choice, days=None, name="plain")
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


async def test_what_was_learned_last_wins_over_more_that_was_learned_long_ago(client: Redis) -> None:
    async with taught(client, "multinomial") as house:
        spam = next(message for label, message in LETTERS[:20] if label == "spam")
        assert (await house.filter.check(spam)).score > 0
        house.pass_half_lives(8)
        for number in range(20, 30):
            label = "ham" if LETTERS[number][0] == "spam" else "spam"
            await house.learn(number, label)

        assert (await house.filter.check(spam)).score < 0


async def test_a_mirror_reads_in_the_time_base_of_its_model(client: Redis) -> None:
    async with taught(client, "all together") as house:
        mirror = Mirror(Model(client, "test", 3600, DAYS), timeout_seconds=5)
        assert mirror.half_life.days is None
        house.pass_half_lives(3)
        async with running(mirror):
            by_mirror = house.filter_over(mirror)
            message = LETTERS[25][1]

            assert mirror.half_life == house.model.half_life == HalfLife(DAYS, SINCE)
            assert await by_mirror.check(message) == await house.filter.check(message)


async def test_an_undo_restores_the_very_weight_that_was_there(client: Redis) -> None:
    async with taught(client, "multinomial") as house:
        before, former = await stored(house.model), await live_entries(house.model)
        house.pass_half_lives(4)
        for number in range(5):
            await house.learn(number, "ham" if LETTERS[number][0] == "spam" else "spam")
        assert await stored(house.model) != before

        for key, changes in (await selected_changes(house.model, HistorySelection())).items():
            taken = [replace(each, selected=each.description.startswith("relearned")) for each in changes]
            await apply_restoration(house.model, await prepare_restoration(house.model, key, taken), "ann")

        assert await stored(house.model) == before
        assert {key: e.weight for key, e in (await live_entries(house.model)).items()} == {
            key: e.weight for key, e in former.items()
        }


async def test_a_preview_is_in_the_unit_of_now(client: Redis) -> None:
    async with taught(client, "all together") as house:
        house.pass_half_lives(3)
        tokens = house.tokenizer.tokenize(LETTERS[25][1])
        supposed = Scorer(
            house.classifier, Calibration(), HypotheticalCounts(house.model), PARAMS, lambda: house.now
        )

        check = supposed.check("", tokens, await supposed.read_counts(tokens))

        assert check.score == (await house.filter.check(LETTERS[25][1])).score


# The end of growth


async def test_too_many_half_lives_after_t0_nothing_is_learned_but_all_else_goes_on(client: Redis) -> None:
    async with taught(client, "multinomial") as house:
        house.pass_half_lives(26.01)
        before = await stored(house.model), await live_entries(house.model)

        for number, label in ((20, None), (0, "ham"), (0, "spam")):
            if label == LETTERS[number][0]:
                continue
            with pytest.raises(CountsFull) as refused:
                await house.learn(number, label)
            assert error_reply(refused.value).code == 451
            assert "model.name" in str(refused.value)
            assert "model" not in error_reply(refused.value).text

        assert (await stored(house.model), await live_entries(house.model)) == before
        await house.filter.check(LETTERS[25][1])
        assert (await house.filter.unlearn(LETTERS[0][1], "test")).outcome is LessonOutcome.UNLEARNED


@pytest.mark.parametrize("at_the_end", [25.9, 400.0, 1e9])
async def test_a_clock_far_ahead_does_no_harm_to_scores(client: Redis, at_the_end: float) -> None:
    async with taught(client, "all together") as house:
        house.pass_half_lives(at_the_end)

        check = await house.filter.check(LETTERS[25][1])

        assert check.probability == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("where", ["total", "sum"])
async def test_a_total_or_a_sum_that_would_be_inexact_is_refused(client: Redis, where: str) -> None:
    house = House(client, "gaussian")
    await house.model.open()
    large = MAX_COUNT - 10
    if where == "total":
        await change(house.model, "m", entry("spam", [b"b:x"], large))
    else:
        await change(house.model, "m", entry("spam", [], 1, [(b"=size.xx", large)]))
    before = await stored(house.model)

    with pytest.raises(CountsFull):
        await house.learn(0, "spam")

    assert await stored(house.model) == before
    assert await house.learn(0, "ham") is LessonOutcome.LEARNED if where == "sum" else True


async def test_the_log_says_it_early_and_once_for_each_half_life(
    client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "nbstream")
    async with taught(client, "multinomial") as house:
        said = []
        for number, passed in enumerate((19.9, 0.2, 0.1, 1, 0.1, 2), start=20):
            house.pass_half_lives(passed)
            await house.learn(number)
            said.append([record.getMessage()[:40] for record in caplog.records])
            caplog.clear()

    assert [len(each) for each in said] == [0, 1, 0, 1, 0, 1]
    assert said[1] == ["in about 5.9 half-lives nothing more can"]


async def test_other_params_change_nothing_of_the_time(client: Redis) -> None:
    async with taught(client, "multinomial", late=3) as house:
        message = LETTERS[25][1]

        check = await house.filter.check(message)

        assert await house.filter.with_policy(PARAMS).check(message) == check
