"""A filter of private tokens scores as one in words, stores no word, and explains a message at hand in words."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.bayes.clues import Clue, TokenClues
from nbstream.bayes.table_counts import make_counts
from nbstream.daemon.assembly.filter import make_filter, make_model_tokenizer
from nbstream.daemon.config import Settings, make_settings
from nbstream.engine.choice import PYTHON, Engine
from nbstream.filter import Check, FeedbackOutcome, Filter, RememberingObserver
from nbstream.mail.message import Message
from nbstream.policy.autolearn import LIMIT_CLUE
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import RecentMessages
from nbstream.store.recent.stored_form import pack_explanation
from nbstream.store.settings import MemorySettings
from nbstream.tokens.private_tokens import is_private
from tests.harness.native import native_library
from tests.harness.samples import samples

LETTERS = list(samples(160, seed=3))


@pytest.fixture(params=["python", "native"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return PYTHON if request.param == "python" else Engine(native_library(), "the test asks for it")


def settings_of(tmp_path: Path, *, private: bool, classes: Sequence[str] = ("ham", "spam")) -> Settings:
    model = {"private_tokens": private, "classes": list(classes), "min_learned": 1}
    return make_settings({"model": model, "state_dir": str(tmp_path)})


async def taught(settings: Settings, engine: Engine, kinds: bool = False) -> Filter:
    """A filter of a model in memory that was taught by the first messages."""
    model = MemoryModel(counts=make_counts(engine.native_library))
    spam_filter = make_filter(settings, model, model, engine=engine)
    for number, (label, raw) in enumerate(LETTERS[:120]):
        class_name = "newsletter" if kinds and label == "ham" and number % 2 else label
        await spam_filter.learn(Message.parse(raw), class_name, "test")
    return spam_filter


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


def strengths(check: Check) -> list[bytes]:
    return [bits(ratio) for ratio in sorted(clue.log_ratio for clue in check.clues)]


async def test_scores_are_those_of_the_same_model_in_words_to_the_last_bit(tmp_path: Path, engine: Engine) -> None:
    """Of equally strong clues others may be chosen, by their names; their strengths, and the sum, are the same."""
    private = await taught(settings_of(tmp_path, private=True), engine)
    in_words = await taught(settings_of(tmp_path, private=False), engine)
    for _, raw in LETTERS[100:]:
        one, other = await private.check(Message.parse(raw)), await in_words.check(Message.parse(raw))
        assert (one.verdict, bits(one.score), bits(one.probability)) == (
            (other.verdict, bits(other.score), bits(other.probability))
        )
        assert strengths(one) == strengths(other)


async def test_a_message_at_hand_is_explained_in_its_own_words(tmp_path: Path, engine: Engine) -> None:
    settings = settings_of(tmp_path, private=True)
    spam_filter = await taught(settings, engine)
    message = Message.parse(LETTERS[0][1])
    words = set(make_model_tokenizer(settings_of(tmp_path, private=False), engine).tokenize(message).tokens.all)
    check = await spam_filter.check(message)
    assert check.clues
    assert {clue.token for clue in check.clues} <= words
    explanation = check.explain(0.0)
    assert {clue.token for clue in explanation.clues} <= words
    assert [clue.log_ratio for clue in explanation.clues] == [clue.log_ratio for clue in check.clues]
    assert all(clue.ham is not None for clue in explanation.clues)
    lesson = await spam_filter.learn(message, "ham" if LETTERS[0][0] == "spam" else "spam", "test")
    assert {clue.token for check in (lesson.before, lesson.after) for clue in check.clues} <= words


async def test_what_the_filter_hides_is_hidden_from_its_observers(tmp_path: Path, engine: Engine) -> None:
    """The limit of automatic learning, which is no token, is shown to them as it is."""
    spam_filter = await taught(settings_of(tmp_path, private=True), engine)
    check, _ = await spam_filter.score(Message.parse(LETTERS[0][1]))
    assert isinstance(check.clues, TokenClues)
    limit = Clue(LIMIT_CLUE, 1.0)
    clues = TokenClues(check.tokens, check.clues.packed, (), (limit,))

    shown = replace(check, clues=clues)
    hidden = shown.without_words()

    assert check.tokens.words is not None
    assert {clue.token for clue in shown.explain(0.0).clues} <= {LIMIT_CLUE, *check.tokens.words}
    assert hidden.tokens.words is None
    assert all(is_private(clue.token) for clue in hidden.explain(0.0).clues if clue.token != LIMIT_CLUE)
    assert limit in shown.clues
    assert limit in hidden.clues
    both = shown.explain(0.0), hidden.explain(0.0)
    of_shown, of_hidden = (sorted((clue.log_ratio, str(clue[2:])) for clue in each.clues) for each in both)
    assert of_shown == of_hidden
    assert pack_explanation(both[0]) == pack_explanation(both[1])


async def test_what_is_remembered_of_a_check_has_no_word_and_can_be_taught_by_its_id(
    client: Redis, tmp_path: Path
) -> None:
    settings = settings_of(tmp_path, private=True)
    model = await Model(client, "test", 3600).open()
    memory = RecentMessages(client, model.keys, MemorySettings(), lambda _: None)
    spam_filter = make_filter(
        settings, model, model, RememberingObserver(memory.remember), checked_messages=memory
    )
    for label, raw in LETTERS[:20]:
        await spam_filter.learn(Message.parse(raw), label, "test")
    label, raw = next((label, raw) for label, raw in LETTERS[20:] if label == "spam")
    check = await spam_filter.check(Message.parse(raw))
    remembered = await memory.recall_with_explanation(check.id)
    assert remembered
    checked, explanation = remembered
    assert explanation
    assert explanation.probability == check.probability
    assert all(is_private(token) for token in checked.tokens.all)
    assert all(is_private(clue.token) for clue in explanation.clues)
    lesson = await spam_filter.learn(checked, "ham", "test")
    assert lesson.outcome is FeedbackOutcome.LEARNED
    lesson = await spam_filter.unlearn(Message.parse(raw), "test")
    assert (lesson.outcome, bits(lesson.after.score)) == (FeedbackOutcome.UNLEARNED, bits(check.score))
