"""The kinds of ham: what their lessons add, and how probable each kind of a message is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nbstream.bayes.counts import ClassCounts, is_sum
from nbstream.bayes.kinds import (
    MIN_MESSAGES,
    KindClassifier,
    KindScores,
    kind_of,
    kind_of_packed_sums,
    kind_of_sums,
    kind_sums,
    label_of,
)
from nbstream.bayes.multinomial import HAM, SPAM
from nbstream.store.model.ledger import join_sums, split_sums
from nbstream.tokens.tokens import Tokens

CLASSIFIER = KindClassifier(("ham", "newsletter", "notification"))
TOKENS = [b"body:offer", b"subject:with space", b"url:https://x.example", "körper:é".encode()]


def learned(**messages: tuple[int, Sequence[bytes]]) -> ClassCounts:
    """The counts of so many equal messages of each class."""
    counts = ClassCounts()
    for name, (count, tokens) in messages.items():
        for _ in range(count):
            column = SPAM if name == "spam" else HAM
            counts.add(tokens, column, 300, kind_sums(kind_of(name), tokens, 300))
    return counts


def score(counts: ClassCounts, tokens: Sequence[bytes], classifier: KindClassifier = CLASSIFIER) -> KindScores:
    return classifier.score(Tokens((), tokens), counts.look_up(classifier.count_names(tokens)), counts.totals)


def test_every_class_but_spam_is_ham() -> None:
    assert [label_of(name) for name in ("spam", "ham", "newsletter")] == ["spam", "ham", "ham"]
    assert [kind_of(name) for name in ("spam", "ham", "newsletter")] == ["", "", "newsletter"]


def test_the_names_of_the_sums_of_a_kind_are_those_of_sums_and_survive_the_ledger() -> None:
    sums = kind_sums("newsletter", TOKENS, 300)

    assert len({name for name, _ in sums}) == len(TOKENS) + 2
    assert all(is_sum(name) for name, _ in sums)
    assert list(split_sums(join_sums(sums))) == sums


def test_the_sums_tell_the_kind() -> None:
    sums = [*kind_sums("a-b-1", TOKENS, 300), (b"=score+3", 1000)]

    assert kind_of_sums(sums) == kind_of_packed_sums(join_sums(sums)) == "a-b-1"
    assert kind_of_sums([(b"=score+3", 1000)]) == kind_of_packed_sums(b"=score+3 1000") == ""
    assert kind_of_sums([(b"=\xff/messages", 1)]) == kind_of_packed_sums(b"=A;/messages 1") == ""
    assert kind_of_sums([]) == kind_of_packed_sums(b"") == ""


def test_a_message_is_of_the_kind_that_has_its_words() -> None:
    counts = learned(
        ham=(30, [b"hello", b"lunch"]),
        newsletter=(30, [b"issue", b"lunch"]),
        notification=(30, [b"cron", b"failed"]),
    )

    scores = score(counts, [b"cron", b"failed", b"lunch", b"never seen"])

    assert scores.kind == "notification"
    assert sum(scores.probabilities.values()) == pytest.approx(1)
    assert list(scores.probabilities.values()) == sorted(scores.probabilities.values(), reverse=True)
    assert scores.missing == {}
    votes = {name: dict(clues) for name, clues in scores.clues.items()}
    assert votes["notification"][b"cron"] > 0 > votes["ham"][b"cron"]
    assert all(clue.token != b"never seen" for clue in scores.clues["ham"])


def test_a_kind_with_few_messages_takes_no_part() -> None:
    counts = learned(
        ham=(30, [b"hello"]), newsletter=(MIN_MESSAGES, [b"issue"]), notification=(MIN_MESSAGES - 3, [b"cron"])
    )

    scores = score(counts, [b"cron", b"issue"])

    assert set(scores.probabilities) == set(scores.clues) == {"ham", "newsletter"}
    assert scores.missing == {"notification": 3}


def test_nothing_is_said_before_two_kinds_have_learned_enough() -> None:
    scores = score(learned(ham=(30, [b"hello"]), newsletter=(19, [b"issue"])), [b"issue"])

    assert scores == KindScores(missing={"newsletter": 1, "notification": MIN_MESSAGES})
    assert scores.kind is None


def test_a_kind_that_is_no_longer_configured_is_plain_ham() -> None:
    counts = learned(ham=(30, [b"hello"]), newsletter=(30, [b"issue"]), notification=(30, [b"cron"]))

    scores = score(counts, [b"cron"], KindClassifier(("ham", "newsletter")))

    assert scores.kind == "ham"


def test_spam_says_nothing_of_kinds() -> None:
    kinds = {"ham": (30, [b"hello", b"x"]), "newsletter": (30, [b"issue", b"y"])}
    without, with_spam = learned(**kinds), learned(**kinds, spam=(30, [b"hello", b"pills"]))
    with_spam.set_totals(
        without.totals.with_lesson(SPAM, with_spam.totals.token_weights[SPAM], 0, with_spam.totals.messages[SPAM])
    )

    assert score(without, [b"hello", b"issue"]) == score(with_spam, [b"hello", b"issue"])
