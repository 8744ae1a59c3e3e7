"""Sample messages made of tokens, and class counts that have learned some of them."""

from __future__ import annotations

from nbstream.bayes.classifier import Classifier
from nbstream.bayes.clues import Score
from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import WEIGHT_ONE, ClassCounts, Counts
from nbstream.bayes.multinomial import TokenCounts
from nbstream.tokens.tokens import Tokens


def sample_message(label: str, n: int) -> Tokens:
    """The ``n``-th message of a class: some tokens are those of the class, one its own, the rest of both."""
    name = label.encode()
    return Tokens(
        (b"h:shared", b"h:%s%d" % (name, n % 9)),
        (b"b:shared", b"b:%s" % name, b"b:%s%d" % (name, n)),
    )


def teach(counts: Counts, tokens: Tokens, label: str) -> None:
    """Learn one message at full weight."""
    counts.add(tokens.all, label, WEIGHT_ONE)


def trained_counts(messages: int = 30) -> ClassCounts:
    """The counts after ``messages`` of each class."""
    counts = ClassCounts()
    for n in range(messages):
        for label in CLASSES:
            teach(counts, sample_message(label, n), label)
    return counts


def token_counts(counts: Counts, tokens: Tokens) -> TokenCounts:
    """The counts of the tokens of a message."""
    return TokenCounts(counts.look_up(tokens.all), counts.totals)


def score_of(counts: Counts, tokens: Tokens, classifier: Classifier | None = None) -> Score:
    """The score of a message."""
    return (classifier or Classifier()).score(tokens, token_counts(counts, tokens))
