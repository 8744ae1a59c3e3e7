"""A filter that learns from people and without them, for tests."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.filter import Autolearner, Filter, FilterParts, FilterPolicy
from nbstream.filter.own_models.index import UserLabels
from nbstream.filter.scorer import Scorer
from nbstream.mail.message import Message
from nbstream.policy.settings import AutolearnSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.model.model import Model
from nbstream.tokens.tokenizer import Tokenizer
from tests.harness.samples import samples

EMPTY: tuple[dict[str, dict[bytes, int]], dict[bytes, int]] = ({"ham": {}, "spam": {}}, {})
SURE = AutolearnSettings(ham=0.02, spam=0.98)
MAX_LEAD = 5
NEEDED = {"spam": 20, "ham": 20}


@dataclass
class AutolearnSite:
    """A filter over a model, and what learns there without people."""

    model: Model
    filter: Filter
    learner: Autolearner
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def check(self, *raws: bytes) -> list[float]:
        """Check messages and learn what is sure, one after the other; their probabilities."""
        probabilities = []
        for raw in raws:
            probabilities.append((await self.filter.check(Message.parse(raw))).probability)
            await self.learner.learn_queued()
        return probabilities

    async def learned(self) -> tuple[int, ...]:
        """How many messages of each class were learned without people."""
        return (await self.model.stored_totals())[1].messages


def make_site(client: Redis, settings: AutolearnSettings = SURE, model: Model | None = None) -> AutolearnSite:
    model, outcomes = model or Model(client, "test", 3600), Counter[tuple[str, str]]()
    classifier, params = Classifier(), FilterPolicy(ThresholdPolicy(), NEEDED)
    learner = Autolearner(
        model,
        model,
        Scorer(classifier, Calibration(), model, params),
        settings,
        lambda label, outcome: outcomes.update([(label, outcome)]),
        MAX_LEAD,
    )
    spam_filter = Filter(
        FilterParts(
            tokenizer=Tokenizer(),
            classifier=classifier,
            calibration=Calibration(),
            model=model,
            counts=model,
            observer=learner,
            uses_automatic=True,
            user_labels=UserLabels(client, model.keys, 3600),
        ),
        params,
    )
    return AutolearnSite(model, spam_filter, learner, outcomes)


async def taught_site(client: Redis, count: int = 120) -> AutolearnSite:
    site = make_site(client)
    await asyncio.gather(*(site.filter.learn(Message.parse(raw), label, "test") for label, raw in samples(count)))
    return site


def letters_of(label: str, count: int, seed: int = 8) -> list[bytes]:
    """Letters of one class that were not taught."""
    return [raw for its, raw in samples(4 * count, seed) if its == label][:count]
