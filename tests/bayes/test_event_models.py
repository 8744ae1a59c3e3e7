"""The four event models of the library: exact unlearning, evidence that adds up, and scikit-learn's results."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
from nbstream.bayes.counts import WEIGHT_ONE, Totals
from nbstream.bayes.multinomial import token_log_ratios

CLASSES = ["ham", "spam", "news"]
TOKENS = st.lists(st.sampled_from("abcdefg"), max_size=8)
VALUES = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("123"), max_size=3)
NUMBERS = st.dictionaries(st.sampled_from("xyz"), st.floats(-1e6, 1e6), max_size=3)
MODELS: list[tuple[Callable[[], Any], st.SearchStrategy[Any]]] = [
    (lambda: MultinomialNB(CLASSES), TOKENS),
    (lambda: BernoulliNB(CLASSES), TOKENS),
    (lambda: CategoricalNB(CLASSES), VALUES),
    (lambda: GaussianNB(CLASSES), NUMBERS),
]
IDS = ["multinomial", "bernoulli", "categorical", "gaussian"]
LABELS = st.sampled_from(CLASSES)


@pytest.mark.parametrize(("make", "features"), MODELS, ids=IDS)
@given(data=st.data())
def test_what_is_unlearned_leaves_nothing(
    make: Callable[[], Any], features: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    stays = data.draw(st.lists(st.tuples(features, LABELS, st.integers(1, 3)), max_size=5))
    goes = data.draw(st.lists(st.tuples(features, LABELS, st.integers(1, 3)), max_size=5))
    probe = data.draw(features)
    model, expected = make(), make()
    for message in stays:
        expected.learn(*message)
    for message in data.draw(st.permutations(stays + goes)):
        model.learn(*message)
    for message in data.draw(st.permutations(goes)):
        model.unlearn(*message)
    ours, theirs = model.evidence(probe), expected.evidence(probe)
    assert ours.features.keys() == theirs.features.keys()
    assert np.array_equal(ours.log_joint, theirs.log_joint)


@pytest.mark.parametrize(("make", "features"), MODELS, ids=IDS)
@given(data=st.data())
def test_probabilities_add_up_and_agree_with_log_odds_and_prediction(
    make: Callable[[], Any], features: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    model = make()
    for message in data.draw(st.lists(st.tuples(features, LABELS), max_size=8)):
        model.learn(*message)
    probe = data.draw(features)
    probabilities = model.probabilities(probe)
    rounding = 4 * np.spacing(np.abs(model.evidence(probe).log_joint).max())  # of sums that nearly cancel out
    assert sum(probabilities.values()) == pytest.approx(1)
    assert probabilities[model.predict(probe)] == max(probabilities.values())
    for label, probability in probabilities.items():
        odds = model.log_odds(probe, label)
        assert 1 / (1 + math.exp(min(700, -odds))) == pytest.approx(probability, abs=1e-9 + rounding)


@pytest.mark.parametrize(("make", "features"), MODELS, ids=IDS)
def test_a_feature_that_nobody_has_seen_says_nothing(
    make: Callable[[], Any], features: st.SearchStrategy[Any]
) -> None:
    model = make()
    unseen: Any = [] if features is TOKENS else {}
    known = ["a"] if features is TOKENS else {"x": 1}
    model.learn(known, "spam")
    stranger = ["unseen"] if features is TOKENS else {"unseen": 1}
    assert model.evidence(stranger).features == {}
    assert model.probabilities(stranger) == model.probabilities(unseen)


@pytest.mark.parametrize("alpha", [-1.0, math.inf, math.nan])
def test_a_smoothing_that_cannot_be_added_to_counts_is_refused(alpha: float) -> None:
    for model in (MultinomialNB, BernoulliNB, CategoricalNB):
        with pytest.raises(ValueError, match="alpha must be a number from 0 on"):
            model(CLASSES, alpha=alpha)
    with pytest.raises(ValueError, match="variance_floor must be a number above 0"):
        GaussianNB(CLASSES, variance_floor=alpha)


@pytest.mark.parametrize("classes", [[], ["one"], ["same", "same"]])
def test_fewer_than_two_different_classes_are_refused(classes: list[str]) -> None:
    with pytest.raises(ValueError, match="two or more different labels"):
        MultinomialNB(classes)


def test_what_cannot_be_counted_changes_nothing() -> None:
    numbers, attributes = GaussianNB(CLASSES), CategoricalNB(CLASSES)
    with pytest.raises((ValueError, OverflowError)):
        numbers.learn({"x": 1.0, "y": math.inf}, "spam")
    with pytest.raises(TypeError):
        attributes.learn({"x": "1", "y": cast("str", [])}, "spam")
    with pytest.raises(ValueError, match="not in"):
        attributes.learn({"x": "1"}, "unknown")
    for model in (numbers, attributes):
        assert model.messages.tolist() == [0, 0, 0]
        assert model.evidence({"x": 1}).features == {}


@pytest.mark.parametrize("model", [MultinomialNB(CLASSES), BernoulliNB(CLASSES)], ids=IDS[:2])
def test_a_text_is_no_bag_of_tokens(model: MultinomialNB | BernoulliNB) -> None:
    calls: list[Callable[[Any], object]] = [
        lambda text: model.learn(text, "spam"),
        model.probabilities,
    ]
    for text in ("free prize", b"free prize"):
        for call in calls:
            with pytest.raises(TypeError, match="must be several tokens"):
                call(text)
    assert model.messages.tolist() == [0, 0, 0]


def test_a_text_is_no_list_of_classes() -> None:
    for text in ("ab", b"ab"):
        with pytest.raises(TypeError, match="must be several labels"):
            MultinomialNB(text)  # type: ignore[arg-type]  # as untyped programs do


@pytest.mark.parametrize("weight", [0, -1, 0.5])
def test_a_message_is_counted_a_whole_number_of_times(weight: Any) -> None:
    model = MultinomialNB(CLASSES)
    for method in (model.learn, model.unlearn):
        with pytest.raises((TypeError, ValueError)):
            method(["prize"], "spam", weight)
    for bag in ({"prize": -1}, {"prize": 0.5}):
        with pytest.raises((TypeError, ValueError)):
            model.learn(cast("Any", bag), "spam")
    assert model.messages.tolist() == [0, 0, 0]
    assert model.evidence(["prize"]).features == {}


@pytest.mark.parametrize(("make", "features"), MODELS, ids=IDS)
@given(data=st.data())
def test_what_was_never_learned_cannot_be_unlearned_and_the_attempt_changes_nothing(
    make: Callable[[], Any], features: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    model, learned = make(), data.draw(st.lists(st.tuples(features, LABELS), max_size=5))
    for message in learned:
        model.learn(*message)
    probe = data.draw(features)
    before = model.probabilities(probe)
    stranger: Any = {"unseen": 1.0} if isinstance(probe, dict) else ["unseen"]
    seen: Any = learned[0][0] if learned else stranger

    for features_, label, weight in ((stranger, "spam", 1), (seen, "spam", len(learned) + 1)):
        with pytest.raises(ValueError, match="never learned"):
            model.unlearn(features_, label, weight)

    assert model.probabilities(probe) == before
    assert model.messages.sum() == len(learned)


def test_a_number_that_was_never_learned_cannot_be_unlearned() -> None:
    model = GaussianNB(CLASSES)
    model.learn({"x": 1.0}, "spam")
    model.learn({"x": 2.0}, "spam")
    for x in (3.0, 1e9):
        with pytest.raises(ValueError, match="never learned"):
            model.unlearn({"x": x}, "spam", 2)
    with pytest.raises(ValueError, match="never learned"):
        model.unlearn({"x": 9.0}, "spam")


@pytest.fixture
def naive_bayes() -> Any:
    """scikit-learn's models, loaded for the tests that compare with them alone: that takes a second."""
    return importlib.import_module("sklearn.naive_bayes")


class TestAgainstScikitLearn:
    """60 made-up messages of three classes."""

    draw = np.random.default_rng(3)
    labels = draw.integers(0, 3, 60)
    occurrences = draw.poisson(1 + (np.arange(8) + labels[:, np.newaxis]) % 3)
    numbers = draw.normal(labels[:, np.newaxis] * [1.0, 2.0, -1.0], 2.0)
    probe = 5

    def test_multinomial(self, naive_bayes: Any) -> None:
        ours, theirs = MultinomialNB(CLASSES, alpha=0.5, prior_alpha=0), naive_bayes.MultinomialNB(alpha=0.5)
        bags = [{f"t{i}": int(n) for i, n in enumerate(row) if n} for row in self.occurrences]
        for bag, label in zip(bags, self.labels, strict=True):
            ours.learn(bag, CLASSES[label])
        expected = theirs.fit(self.occurrences, self.labels).predict_proba(self.occurrences)
        assert np.array([[*ours.probabilities(bag).values()] for bag in bags]) == pytest.approx(expected)

    def test_bernoulli(self, naive_bayes: Any) -> None:
        present = self.occurrences > 1
        ours, theirs = BernoulliNB(CLASSES, alpha=0.5, prior_alpha=0), naive_bayes.BernoulliNB(alpha=0.5)
        sets = [[i for i, is_present in enumerate(row) if is_present] for row in present]
        for tokens, label in zip(sets, self.labels, strict=True):
            ours.learn(tokens, CLASSES[label])
        expected = theirs.fit(present, self.labels).predict_proba(present)
        assert np.array([[*ours.probabilities(tokens).values()] for tokens in sets]) == pytest.approx(expected)

    def test_categorical(self, naive_bayes: Any) -> None:
        values = np.minimum(self.occurrences, 2)
        ours, theirs = CategoricalNB(CLASSES, alpha=0.5, prior_alpha=0), naive_bayes.CategoricalNB(alpha=0.5)
        rows = [dict(enumerate(row.tolist())) for row in values]
        for row, label in zip(rows, self.labels, strict=True):
            ours.learn(row, CLASSES[label])
        expected = theirs.fit(values, self.labels).predict_proba(values)
        assert np.array([[*ours.probabilities(row).values()] for row in rows]) == pytest.approx(expected)

    def test_gaussian(self, naive_bayes: Any) -> None:
        floor = 1e-9 * self.numbers.var(axis=0).max()
        ours, theirs = GaussianNB(CLASSES, variance_floor=floor, prior_alpha=0), naive_bayes.GaussianNB()
        rows = [dict(enumerate(row.tolist())) for row in self.numbers]
        for row, label in zip(rows, self.labels, strict=True):
            ours.learn(row, CLASSES[label])
        expected = theirs.fit(self.numbers, self.labels).predict_proba(self.numbers)
        assert np.array([[*ours.probabilities(row).values()] for row in rows]) == pytest.approx(expected)


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcdefg")), st.sampled_from(("ham", "spam")))))
def test_the_filter_runs_the_same_multinomial(messages: list[tuple[set[str], str]]) -> None:
    model = MultinomialNB(["ham", "spam"], alpha=0.12)
    for tokens, label in messages:
        model.learn(tokens, label)
    counts = np.array(
        [[sum(t in s and label == c for s, label in messages) for c in model.classes] for t in "abc"]
    )
    occurrences = tuple(sum(len(s) for s, label in messages if label == c) for c in model.classes)
    vocabulary = len(set().union(*(tokens for tokens, _ in messages)))
    totals = Totals(tuple(model.messages.tolist()), tuple(WEIGHT_ONE * n for n in occurrences), vocabulary)

    ratios = token_log_ratios(counts * WEIGHT_ONE, totals, alpha=0.12)

    features = model.evidence(list("abc")).features
    expected = [features[t][1] - features[t][0] if t in features else 0.0 for t in "abc"]
    assert ratios.tolist() == pytest.approx(expected, abs=1e-12)
