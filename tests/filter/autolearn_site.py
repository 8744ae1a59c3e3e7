"""A filter that learns from people and without them, for tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.filter import (
    Autolearner,
    AutolearnLayer,
    Filter,
    FilterParts,
    FilterPolicy,
)
from nbstream.filter.scorer import Scorer
from nbstream.mail.message import Message
from nbstream.policy.settings import AutolearnSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.model.autolearn_layer import AutolearnModel
from nbstream.store.model.model import Model
from nbstream.store.user_labels import UserLabels
from nbstream.tokens.tokenizer import Tokenizer
from tests.letters import letters

EMPTY: tuple[dict[str, dict[bytes, int]], dict[bytes, int]] = ({"ham": {}, "spam": {}}, {})
SURE = AutolearnSettings(ham=0.02, spam=0.98)
MAX_LEAD = 5
NEEDED = {"spam": 20, "ham": 20}


@dataclass
class AutolearnSite:
    """A filter over both layers, and what learns without people."""

    people: Model
    layer: AutolearnLayer
    filter: Filter
    learner: Autolearner
    model: AutolearnModel
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def check(self, *raws: bytes) -> list[float]:
        """Check messages and learn what is sure, one after the other; their probabilities."""
        probabilities = []
        for raw in raws:
            probabilities.append((await self.filter.check(Message.parse(raw))).probability)
            await self.learner.learn_queued()
        return probabilities


def make_site(client: Redis, settings: AutolearnSettings = SURE) -> AutolearnSite:
    people, model = Model(client, "test", 3600), AutolearnModel(client, "test", 3600)
    layer, outcomes = (
        AutolearnLayer(model, model, UserLabels(client, people.keys, 3600)),
        Counter[tuple[str, str]](),
    )
    classifier, params = Classifier(), FilterPolicy(ThresholdPolicy(), NEEDED)
    learner = Autolearner(
        people,
        layer,
        Scorer(classifier, Calibration(), people, params),
        settings,
        lambda label, outcome: outcomes.update([(label, outcome)]),
        MAX_LEAD,
    )
    spam_filter = Filter(
        FilterParts(
            tokenizer=Tokenizer(),
            classifier=classifier,
            calibration=Calibration(),
            model=people,
            counts=people,
            observer=learner,
            autolearn_layer=layer,
        ),
        params,
    )
    return AutolearnSite(people, layer, spam_filter, learner, model, outcomes)


async def taught_site(client: Redis, count: int = 120) -> AutolearnSite:
    probabilities = make_site(client)
    for label, raw in letters(count):
        await probabilities.filter.learn(Message.parse(raw), label, "test")
    return probabilities


def letters_of(label: str, count: int, seed: int = 8) -> list[bytes]:
    """Letters of one class that were not taught."""
    return [raw for its, raw in letters(4 * count, seed) if its == label][:count]
