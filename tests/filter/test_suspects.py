"""A learned message without its own lesson: the same as if that were taken back, and nothing is written."""

from __future__ import annotations

from nbstream.daemon.assembly.filter import make_filter
from nbstream.daemon.config import Settings
from nbstream.filter.suspects import find_suspects
from nbstream.mail.message import Message
from nbstream.store.model.memory_model import MemoryModel
from tests.harness.samples import samples


async def test_a_check_without_a_lesson_is_that_after_it_was_taken_back() -> None:
    model = MemoryModel()
    spam_filter = make_filter(Settings(), model, model)
    messages = [(label, Message.parse(raw)) for label, raw in samples(130)]
    for label, message in messages:
        await spam_filter.learn(message, label, "test")
    scorer = spam_filter.parts.make_scorer(spam_filter.policy)

    for _, message in messages[::10]:
        before = await spam_filter.check(message)
        entry = await model.entry(before.id)
        assert entry is not None
        without = await scorer.check_without_lesson(before.id, entry)
        assert await spam_filter.check(message) == before
        after = (await spam_filter.unlearn(message, "test")).after
        assert (without.score, without.probability, without.state) == (after.score, after.probability, after.state)


async def test_a_wrong_label_is_a_suspect_once_the_model_has_learned_enough() -> None:
    model = MemoryModel()
    spam_filter = make_filter(Settings(), model, model)
    scorer = spam_filter.parts.make_scorer(spam_filter.policy)
    pairs = list(samples(300))
    first = next(number for number, (label, _) in enumerate(pairs) if label == "spam")
    (_, raw), others = pairs[first], [*pairs[:first], *pairs[first + 1 :]]
    wrong = (await spam_filter.learn(Message.parse(raw), "ham", "test")).after.id

    assert await find_suspects(model, scorer, [wrong]) == []  # nothing else is learned
    for label, other in others:
        await spam_filter.learn(Message.parse(other), label, "test")
    right = [(await spam_filter.check(Message.parse(other))).id for _, other in others[:80]]

    (suspect,) = await find_suspects(model, scorer, ["of no message", *right, wrong])
    assert (suspect.message_key, suspect.label, suspect.doubt) == (wrong, "ham", suspect.probability)
    assert suspect.doubt >= 0.95
