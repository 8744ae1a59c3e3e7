"""Sample messages made of tokens, attributes and numbers, and class counts that have learned some of them."""

from __future__ import annotations

from nbstream.bayes import bernoulli, categorical, gaussian, multinomial
from nbstream.bayes.classifier import Classifier, ClassifierOptions, EventModelOptions
from nbstream.bayes.counts import CLASSES, ClassCounts, Counts
from nbstream.bayes.event_models import FeatureCounts
from nbstream.bayes.multinomial import Lidstone, MEstimate
from nbstream.bayes.score import Score
from nbstream.tokens.tokenizer import Tokens

CHOICES: dict[str, EventModelOptions] = {
    "multinomial": EventModelOptions(),
    "multinomial, m-estimate": EventModelOptions(multinomial.MultinomialOptions(MEstimate(1.0))),
    "multinomial, complement": EventModelOptions(multinomial.MultinomialOptions(Lidstone(1.0), complement=True)),
    "bernoulli": EventModelOptions(None, bernoulli=bernoulli.BernoulliOptions()),
    "categorical": EventModelOptions(None, categorical=categorical.CategoricalOptions()),
    "gaussian": EventModelOptions(None, gaussian=gaussian.GaussianOptions()),
    "all together": EventModelOptions(
        bernoulli=bernoulli.BernoulliOptions(),
        categorical=categorical.CategoricalOptions(),
        gaussian=gaussian.GaussianOptions(),
    ),
}
"""Choices of event models by name: each model alone, and all of them together."""


def sample_message(label: str, n: int) -> Tokens:
    """The ``n``-th message of a class: some tokens are those of the class, one its own, the rest of both."""
    name = label.encode()
    spam = label == "spam"
    return Tokens(
        (b"h:shared", b"h:%s%d" % (name, n % 9)),
        (b"b:shared", b"b:%s" % name, b"b:%s%d" % (name, n)),
        (("type", "text/html" if spam or n % 4 == 0 else "text/plain"), ("hops", str(1 + n % 3))),
        (("size", (400 if spam else 600) + 7 * n % 90), ("words", 300 + 11 * n % 70)),
    )


def classifier_of(choice: str) -> Classifier:
    """A classifier with this one of ``CHOICES``, which learns every message at full weight."""
    return Classifier(ClassifierOptions(CHOICES[choice], lesson_weight=None))


def teach(counts: Counts, classifier: Classifier, tokens: Tokens, label: str) -> None:
    """Score one message, then learn it with the weight that the classifier gives it."""
    score = score_of(counts, classifier, tokens)
    weight, sums = classifier.weigh_lesson(tokens, score.log_odds, label)
    counts.add(tokens.all, CLASSES.index(label), weight, sums)


def trained_counts(classifier: Classifier, messages: int = 30) -> ClassCounts:
    """The counts after ``messages`` of each class."""
    counts = ClassCounts()
    for n in range(messages):
        for label in CLASSES:
            teach(counts, classifier, sample_message(label, n), label)
    return counts


def feature_counts(counts: Counts, classifier: Classifier, tokens: Tokens) -> FeatureCounts:
    """The counts of the features of a message."""
    return FeatureCounts(
        counts.look_up(tokens.all),
        counts.look_up(classifier.sum_names),
        counts.totals,
        counts.vocabulary_counts() if classifier.needs_vocabulary else None,
    )


def score_of(counts: Counts, classifier: Classifier, tokens: Tokens) -> Score:
    """The score of a message."""
    return classifier.score(tokens, feature_counts(counts, classifier, tokens))
