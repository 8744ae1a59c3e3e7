"""A check is the same, field by field and byte by byte, whether Python or the native library scores."""

from __future__ import annotations

import ctypes
from dataclasses import replace

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.bayes.counts import Counts
from nbstream.bayes.table_counts import TableCounts
from nbstream.filter import AutolearnLayer, Filter, FilterParts, FilterPolicy
from nbstream.mail.message import Message
from nbstream.policy.lesson_source import Insistence
from nbstream.policy.thresholds import FalsePositiveBudget, ThresholdPolicy
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.recent.stored_form import pack_explanation
from nbstream.tokens.tokenizer import Tokenizer
from tests.engine.native import native_library
from tests.letters import letters
from tests.mutation import mutations

NOW = 1_800_000_000.0
POLICY = FilterPolicy(ThresholdPolicy(spam=FalsePositiveBudget(0.1, 0.9)), {"spam": 1, "ham": 1})


def filter_over(counts: Counts | None, library: ctypes.CDLL | None, layer: MemoryModel | None = None) -> Filter:
    model = MemoryModel(counts=counts)
    classifier, calibration = Classifier(library), Calibration(library=library)
    parts = FilterParts(
        tokenizer=Tokenizer(),
        classifier=classifier,
        calibration=calibration,
        model=model,
        counts=model,
        clock=lambda: NOW,
        autolearn_layer=AutolearnLayer(layer, layer) if layer else None,
    )
    return Filter(parts, POLICY)


async def compare_all(layer: MemoryModel | None = None) -> None:
    library = native_library()
    filters = [
        filter_over(None, None, layer),
        filter_over(None, library, layer),
        filter_over(TableCounts(native_library()), library, layer),
    ]
    learned = list(letters(150))
    strangers = [raw for _, raw in letters(40, seed=8)]
    for number, (label, raw) in enumerate(learned):
        message, told = Message.parse(raw), label if number % 17 else "spam"
        lessons = [await each.learn(message, told, "test", insistence=Insistence.AT_ONCE) for each in filters]
        assert lessons[0] == lessons[1] == lessons[2]
        if number % 10 == 9:
            assert len({str(await each.unlearn(message, "test")) for each in filters}) == 1
    for raw in (*strangers, *mutations([raw for _, raw in learned[:50]], 150)):
        message = Message.parse(raw)
        checks = [await each.check(message) for each in filters]
        assert checks[0] == checks[1] == checks[2]
        assert len({pack_explanation(check.explain(NOW)) for check in checks}) == 1


async def test_checks_and_lessons_are_the_same() -> None:
    await compare_all()


async def test_checks_and_lessons_are_the_same_beside_what_was_learned_without_people() -> None:
    layer = MemoryModel()
    other = filter_over(None, None)
    other = Filter(replace(other.parts, model=layer, counts=layer), POLICY)
    for label, raw in letters(60, seed=3):
        await other.learn(Message.parse(raw), label, "auto")

    await compare_all(layer)
