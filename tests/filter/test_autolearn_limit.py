"""What was learned without people moves a score within a limit, and the explanation says where the limit was."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator

import pytest

from nbstream.bayes.calibration import Calibration, sigmoid
from nbstream.bayes.classifier import Classifier
from nbstream.filter import Check, Filter, FilterParts, FilterPolicy
from nbstream.mail.message import Message
from nbstream.policy.autolearn import LIMIT_CLUE, MAX_SHIFT, SPAM_MARGIN, is_settled
from nbstream.policy.feedback_source import FeedbackSource
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.memory_model import MemoryModel
from nbstream.tokens.tokenizer import Tokenizer
from tests.harness.filters import labelled
from tests.harness.samples import samples

SPAM_TO_WATCH = next(raw for label, raw in samples(50, seed=9) if label == "spam")


class Site:
    """A filter that uses what was learned without people, beside one that does not."""

    def __init__(self) -> None:
        self.model = MemoryModel()
        self.both = self._filter(uses_automatic=True)
        self.by_people = self._filter(uses_automatic=False)

    def _filter(self, *, uses_automatic: bool) -> Filter:
        parts = FilterParts(
            tokenizer=Tokenizer(),
            classifier=Classifier(),
            calibration=Calibration(),
            model=self.model,
            counts=self.model,
            uses_automatic=uses_automatic,
        )
        return Filter(parts, FilterPolicy(ThresholdPolicy(spam=0.95), {}))  # so low that MAX_SHIFT ends above it

    async def autolearn(self, raw: bytes, label: str, times: int) -> None:
        """Learn the tokens of a mail without people, whatever the margins say."""
        message, note = Message.parse(raw), LessonNote("auto", "", *[Assessment(0.5, "unsure")] * 2)
        for number in range(times):
            tokens = Tokenizer().tokenize(message).tokens.all
            entry = LedgerEntry(f"v{number}", f"auto-{label}:0", 1000, tokens, time.time(), "auto", "", 0.0, ())
            await self.model.commit_lesson(f"{label}{number}", None, entry, note)

    async def check(self, raw: bytes = SPAM_TO_WATCH) -> Check:
        return await self.both.check(Message.parse(raw))


@pytest.fixture
async def site() -> Site:
    site = Site()
    for label, raw in samples(100):
        await site.by_people.learn(Message.parse(raw), label, "test")
    return site


def logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


async def test_beyond_the_limit_a_clue_takes_back_what_is_said_too_much(site: Site) -> None:
    alone = await site.check()
    await site.autolearn(SPAM_TO_WATCH, "ham", 500)

    limited = await site.check()

    assert alone.probability > 0.95
    shift = min(logit(alone.probability), logit(0.999)) - logit(limited.probability)
    assert shift == pytest.approx(MAX_SHIFT, abs=0.01)
    (limit,) = (clue for clue in limited.clues if clue.token == LIMIT_CLUE)
    assert limit.log_ratio > 0
    assert math.fsum([limited.prior, *(clue.log_ratio for clue in limited.clues)]) == limited.score
    strengths = [abs(clue.log_ratio) for clue in limited.clues]
    assert strengths == sorted(strengths, reverse=True)


async def test_what_people_alone_call_spam_by_a_margin_stays_spam(site: Site) -> None:
    alone = await site.check()
    threshold = sigmoid(logit(alone.probability) - SPAM_MARGIN)  # so high that the margin is just kept
    for spam, is_spam in ((threshold - 1e-9, True), (threshold + 1e-6, False)):
        strict = Filter(site.both.parts, FilterPolicy(ThresholdPolicy(spam=spam), {}))
        await site.autolearn(SPAM_TO_WATCH, "ham", 300)

        assert (await strict.check(Message.parse(SPAM_TO_WATCH))).verdict.is_spam is is_spam


async def test_what_people_alone_settle_is_checked_by_them_alone() -> None:
    site = Site()
    for label, raw in samples(300):
        await site.by_people.learn(Message.parse(raw), label, "test")
    alone = await site.by_people.check(Message.parse(SPAM_TO_WATCH))
    await site.autolearn(SPAM_TO_WATCH, "ham", 500)

    assert is_settled(alone.probability)
    assert await site.check() == alone


async def test_a_lesson_of_many_at_once_is_weighed_as_a_single_one_is(site: Site) -> None:
    await site.autolearn(SPAM_TO_WATCH, "ham", 5)
    other = Site()
    for label, raw in samples(100):
        await other.by_people.learn(Message.parse(raw), label, "test")
    await other.autolearn(SPAM_TO_WATCH, "ham", 5)

    async def messages() -> AsyncIterator[Message]:
        yield Message.parse(SPAM_TO_WATCH)

    await site.both.learn(Message.parse(SPAM_TO_WATCH), "spam", "test")
    await other.both.learn_many(labelled(messages(), "spam"), FeedbackSource("test"), lambda _: None)

    key = Message.parse(SPAM_TO_WATCH).key
    single, bulk = await site.model.entry(key), await other.model.entry(key)
    assert single
    assert bulk
    assert (single.weight, single.sums, single.score) == (bulk.weight, bulk.sums, bulk.score)
