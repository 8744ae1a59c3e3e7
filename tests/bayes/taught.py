"""Messages made of tokens, attributes and numbers, and class counts that have learned some."""

from __future__ import annotations

from nbstream.bayes import bernoulli, categorical, gaussian, multinomial
from nbstream.bayes.classifier import Classifier, ClassifierOptions, EventModelOptions, Score
from nbstream.bayes.counts import CLASSES, ClassCounts
from nbstream.bayes.event_models import FeatureCounts
from nbstream.bayes.multinomial import Lidstone, MEstimate
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
"""Event models that may be chosen, by name: each alone, and all together."""


def letter(label: str, n: int) -> Tokens:
    """The ``n``-th message of a class: some of its tokens are the class's, one its own, the others anyone's."""
    name = label.encode()
    spam = label == "spam"
    return Tokens(
        (b"h:shared", b"h:%s%d" % (name, n % 9)),
        (b"b:shared", b"b:%s" % name, b"b:%s%d" % (name, n)),
        (("type", "text/html" if spam or n % 4 == 0 else "text/plain"), ("hops", str(1 + n % 3))),
        (("size", (400 if spam else 600) + 7 * n % 90), ("words", 300 + 11 * n % 70)),
    )


def classifier_of(choice: str) -> Classifier:
    """A classifier with these of ``CHOICES``, which learns every message at full weight."""
    return Classifier(ClassifierOptions(CHOICES[choice], lesson_weight=None))


def teach(counts: ClassCounts, classifier: Classifier, tokens: Tokens, label: str) -> None:
    """Learn one message as the classifier says, scored first."""
    score = score_of(counts, classifier, tokens)
    weight, sums = classifier.weigh_lesson(tokens, score.log_odds, label, counts.totals)
    counts.add(tokens.all, CLASSES.index(label), weight, sums)


def taught(classifier: Classifier, messages: int = 30) -> ClassCounts:
    """The counts after ``messages`` of each class."""
    counts = ClassCounts()
    for n in range(messages):
        for label in CLASSES:
            teach(counts, classifier, letter(label, n), label)
    return counts


def counted(counts: ClassCounts, classifier: Classifier, tokens: Tokens) -> FeatureCounts:
    """What the counts say of a message."""
    return FeatureCounts(
        counts.look_up(tokens.all),
        counts.look_up(classifier.sum_names),
        counts.totals,
        counts.vocabulary_counts() if classifier.needs_vocabulary else None,
    )


def score_of(counts: ClassCounts, classifier: Classifier, tokens: Tokens) -> Score:
    """The score of a message."""
    return classifier.score(tokens, counted(counts, classifier, tokens))
