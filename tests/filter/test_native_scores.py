"""A check is the same, field by field and byte by byte, whether Python or the native library scores."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.bayes.counts import Counts
from nbstream.bayes.table_counts import TableCounts
from nbstream.filter import Filter, FilterParts, FilterPolicy
from nbstream.mail.message import Message
from nbstream.policy.feedback_source import Reinforcement
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.recent.stored_form import pack_explanation
from nbstream.tokens.tokenizer import Tokenizer
from tests.harness.mutation import mutations
from tests.harness.native import native_library
from tests.harness.samples import samples

NOW = 1_800_000_000.0
POLICY = FilterPolicy(ThresholdPolicy(spam=0.9, max_false_positive_rate=0.1), {"spam": 1, "ham": 1})


def filter_over(counts: Counts | None, library: ctypes.CDLL | None) -> Filter:
    model = MemoryModel(counts=counts)
    classifier, calibration = Classifier(library), Calibration(library=library)
    parts = FilterParts(
        tokenizer=Tokenizer(),
        classifier=classifier,
        calibration=calibration,
        model=model,
        counts=model,
        clock=lambda: NOW,
        uses_automatic=True,
    )
    return Filter(parts, POLICY)


async def compare_all(automatic: Iterable[tuple[str, bytes]] = ()) -> None:
    library = native_library()
    filters = [
        filter_over(None, None),
        filter_over(None, library),
        filter_over(TableCounts(native_library()), library),
    ]
    note = LessonNote("auto", "", *[Assessment(0.5, "unsure")] * 2)
    for label, raw in automatic:
        message = Message.parse(raw)
        tokens = filters[0].parts.tokenizer.tokenize(message).tokens.all
        entry = LedgerEntry("v", f"auto-{label}:0", 500, tokens, NOW, "auto", "", 0.0)
        for each in filters:
            assert isinstance(await each.parts.model.commit_lesson(message.key, None, entry, note), bytes)
    learned = list(samples(150))
    strangers = [raw for _, raw in samples(40, seed=8)]
    for number, (label, raw) in enumerate(learned):
        message, told = Message.parse(raw), label if number % 17 else "spam"
        lessons = [
            await each.learn(message, told, "test", reinforcement=Reinforcement.AT_ONCE) for each in filters
        ]
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
    await compare_all([*samples(60, seed=3), *samples(20)])
