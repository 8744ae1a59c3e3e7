"""The kinds of ham: what their lessons add, and how probable each kind of a message is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nbstream.bayes.columns import is_column, kind_of, label_of
from nbstream.bayes.counts import ClassCounts
from nbstream.bayes.kinds import MIN_MESSAGES, KindClassifier, KindScores
from nbstream.tokens.tokens import Tokens

CLASSIFIER = KindClassifier(("ham", "newsletter", "notification"))


def learned(**messages: tuple[int, Sequence[bytes]]) -> ClassCounts:
    """The counts of so many equal messages of each class."""
    counts = ClassCounts()
    for name, (count, tokens) in messages.items():
        for _ in range(count):
            counts.add(tokens, name, 300)
    return counts


def score(counts: ClassCounts, tokens: Sequence[bytes], classifier: KindClassifier = CLASSIFIER) -> KindScores:
    return classifier.score(Tokens((), tokens), counts.look_up_columns(tokens), counts.column_totals)


def test_every_class_but_spam_is_ham() -> None:
    assert [label_of(name) for name in ("spam", "ham", "newsletter")] == ["spam", "ham", "ham"]
    assert [kind_of(name) for name in ("spam", "ham", "newsletter")] == ["", "", "newsletter"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(name, True) for name in ("ham", "a-b-1", "auto", "auto-ham:0", "auto-spam:123")],
        *[(name, False) for name in ("", "A", "1a", "a:1", "auto-ham:", "auto-x:1", "a" * 32, "a\n")],
    ],
)
def test_a_column_has_the_name_of_a_class_or_a_generation(name: str, expected: bool) -> None:
    assert is_column(name) is expected


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


def test_plain_ham_that_nobody_taught_takes_no_part() -> None:
    counts = learned(newsletter=(100, [b"issue"]), notification=(120, [b"cron"]))

    scores = score(counts, [b"issue"])

    assert set(scores.probabilities) == {"newsletter", "notification"}
    assert scores.missing == {"ham": MIN_MESSAGES}


def test_nothing_is_said_before_two_kinds_have_learned_enough() -> None:
    scores = score(learned(ham=(30, [b"hello"]), newsletter=(19, [b"issue"])), [b"issue"])

    assert scores == KindScores(missing={"newsletter": 1, "notification": MIN_MESSAGES})
    assert scores.kind is None


def test_a_kind_that_is_no_longer_configured_takes_no_part() -> None:
    counts = learned(ham=(30, [b"hello"]), newsletter=(30, [b"issue"]), notification=(30, [b"cron"]))

    scores = score(counts, [b"cron"], KindClassifier(("ham", "newsletter")))

    assert set(scores.probabilities) == {"ham", "newsletter"}


def test_spam_says_nothing_of_kinds() -> None:
    kinds = {"ham": (30, [b"hello", b"x"]), "newsletter": (30, [b"issue", b"y"])}
    without, with_spam = learned(**kinds), learned(**kinds, spam=(30, [b"hello", b"y"]))

    assert score(without, [b"hello", b"issue"]) == score(with_spam, [b"hello", b"issue"])
