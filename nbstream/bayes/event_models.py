"""Naive Bayes with four event models, for programs: learn, unlearn, and ask for the evidence of each feature.

    from nbstream.bayes import MultinomialNB

    model = MultinomialNB(["ham", "spam"])
    model.learn(["free", "prize", "prize"], "spam")
    model.learn(["lunch", "friday"], "ham")
    model.probabilities(["prize", "friday"])

The score of class c is ln P(c) + the sum of ln P(feature | c) over the features, which naive Bayes takes to be
independent of each other given the class. The models differ in what a feature is, and in how its probability is
estimated:

- ``MultinomialNB``: a bag of tokens. P(t | c) = (n_tc + alpha) / (N_c + alpha V), where n_tc is how often the
  token occurs in the class, N_c the number of all occurrences in the class, and V the size of the vocabulary
  (McCallum and Nigam, "A comparison of event models for naive Bayes text classification", 1998).
- ``BernoulliNB``: a set of tokens; each token of the vocabulary votes by its presence or by its absence.
  P(t | c) = (m_tc + alpha) / (m_c + 2 alpha), where m_tc is how many messages of the class have the token, and m_c
  how many messages the class has (the same paper).
- ``CategoricalNB``: attributes, each with one of K values. P(v | c) = (m_vc + alpha) / (m_c + alpha K) over the
  messages that have the attribute (Mitchell, "Machine Learning", 1997, 6.9.1).
- ``GaussianNB``: numbers. p(x | c) is the normal density with the mean and the variance of the class (John and
  Langley, "Estimating continuous distributions in Bayesian classifiers", 1995).

An ``alpha`` of 0 is the estimate of maximum likelihood; 1 is Laplace's rule of succession. An ``alpha`` above 0 is
the mean of the posterior under a symmetric Dirichlet prior with that parameter, which is also the maximum of the
posterior (MAP) under one with ``alpha + 1``.

Rules: pure. All counts are exact, therefore ``unlearn`` with the arguments of a ``learn`` gives back the state
before it, whatever was learned in between. What cannot be counted, or would leave a count below 0, is an error,
and changes nothing. A feature that no class has ever seen says nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nbstream.bayes.multinomial import log_priors, require_not_negative
from nbstream.numpy_on_demand import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Features = TypeVar("Features")


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What speaks for each class, in nats; every array has the shape (classes,).

    ``prior`` is ln P(class). ``baseline`` is the score of a message without any feature: 0, but for
    ``BernoulliNB``. ``features`` has the contribution of each feature. All of them add up to ``log_joint``.
    """

    prior: NDArray[np.float64]
    baseline: NDArray[np.float64]
    features: Mapping[Hashable, NDArray[np.float64]]

    @property
    def log_joint(self) -> NDArray[np.float64]:
        """Ln P(class, features) of each class."""
        return self.prior + self.baseline + sum(self.features.values(), start=np.zeros_like(self.prior))


class NaiveBayes(ABC, Generic[Features]):
    """What the four models have in common. ``classes`` are the labels, in the order of all arrays.

    ``prior_alpha`` messages are added to each class in the prior; 0 is maximum likelihood.
    """

    def __init__(self, classes: Sequence[str], *, prior_alpha: float = 1.0) -> None:
        if isinstance(classes, str | bytes):
            raise TypeError(f"classes must be several labels, not one text: {classes!r}")
        if len(set(classes)) != len(classes) or len(classes) < 2:
            raise ValueError(f"classes must be two or more different labels: {classes}")
        self.classes = tuple(classes)
        self.messages = np.zeros(len(classes), dtype=np.int64)
        """How many messages each class has learned."""
        self.prior_alpha = require_not_negative(prior_alpha)

    def learn(self, features: Features, label: str, weight: int = 1) -> None:
        """Count a message of the class ``label``, ``weight`` times."""
        self._change(features, label, _whole(weight, 1))

    def unlearn(self, features: Features, label: str, weight: int = 1) -> None:
        """Take back exactly what ``learn`` with the same arguments counted.

        Raises ``ValueError`` where the counts show that this was never learned.
        """
        self._change(features, label, -_whole(weight, 1))

    def _change(self, features: Features, label: str, weight: int) -> None:
        column = self._column(label)
        left = int(self.messages[column]) + weight
        _require_learned(left >= 0)
        self._count(features, column, weight)
        self.messages[column] = left

    def _column(self, label: str) -> int:
        if label not in self.classes:
            raise ValueError(f"label {label!r} is not in {self.classes}")
        return self.classes.index(label)

    @abstractmethod
    def _count(self, features: Features, column: int, weight: int) -> None:
        """Add the features of a message to the counts of a class; ``weight`` is negative to take them back.

        Raises an error for what cannot be counted, or was never learned; nothing is changed then.
        """

    @abstractmethod
    def _contributions(self, features: Features) -> Mapping[Hashable, NDArray[np.float64]]:
        """Return what each feature adds to the score of each class, in nats."""

    def _baseline(self) -> NDArray[np.float64]:
        return np.zeros(len(self.classes))

    def evidence(self, features: Features) -> Evidence:
        """Return what speaks for each class, feature by feature."""
        prior = log_priors(self.messages.tolist(), self.prior_alpha)
        return Evidence(prior, self._baseline(), self._contributions(features))

    def probabilities(self, features: Features) -> dict[str, float]:
        """Return P(class | features) of each class."""
        log_joint = self.evidence(features).log_joint
        shares = np.exp(log_joint - log_joint.max())
        return dict(zip(self.classes, (shares / shares.sum()).tolist(), strict=True))

    def log_odds(self, features: Features, label: str) -> float:
        """Return ln P(label | features) - ln P(any other class | features), in nats."""
        log_joint = self.evidence(features).log_joint
        column = self._column(label)
        return float(log_joint[column] - np.logaddexp.reduce(np.delete(log_joint, column)))

    def predict(self, features: Features) -> str:
        """Return the most probable class; the first of several that are equally probable."""
        return self.classes[int(np.argmax(self.evidence(features).log_joint))]


class _CountTable:
    """The counts of features in each class: exact integers. A feature whose counts are all 0 is forgotten."""

    def __init__(self, classes: int) -> None:
        self._rows: dict[Hashable, NDArray[np.int64]] = {}
        self._zeros = np.zeros(classes, dtype=np.int64)

    def add(self, changes: Mapping[Hashable, int], column: int) -> None:
        """Change these counts of a class; raises ``ValueError``, and changes none, where one fell below 0."""
        _require_learned(all(self[feature][column] + change >= 0 for feature, change in changes.items()))
        for feature, change in changes.items():
            row = self[feature].copy()
            row[column] += change
            if row.any():
                self._rows[feature] = row
            else:
                self._rows.pop(feature, None)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, feature: Hashable) -> NDArray[np.int64]:
        return self._rows.get(feature, self._zeros)

    def __contains__(self, feature: Hashable) -> bool:
        return feature in self._rows

    def array(self) -> NDArray[np.int64]:
        """All counts, shape (features, classes)."""
        return np.array([*self._rows.values()]).reshape(-1, len(self._zeros))

    def total(self) -> NDArray[np.int64]:
        """The sum over all features, shape (classes,)."""
        total: NDArray[np.int64] = self.array().sum(axis=0)
        return total


class MultinomialNB(NaiveBayes[Iterable[Hashable]]):
    """Tokens vote as often as they occur; features are an iterable of tokens, or a mapping to their numbers."""

    def __init__(self, classes: Sequence[str], *, alpha: float = 1.0, prior_alpha: float = 1.0) -> None:
        super().__init__(classes, prior_alpha=prior_alpha)
        self.alpha = require_not_negative(alpha)
        self._counts = _CountTable(len(classes))
        self._occurrences = np.zeros(len(classes), dtype=np.int64)

    def _count(self, features: Iterable[Hashable], column: int, weight: int) -> None:
        changes = {token: count * weight for token, count in _bag(features).items()}
        self._counts.add(changes, column)
        self._occurrences[column] += sum(changes.values())

    def _contributions(self, features: Iterable[Hashable]) -> Mapping[Hashable, NDArray[np.float64]]:
        all_tokens = self._occurrences + self.alpha * len(self._counts)
        return {
            token: count * _log((self._counts[token] + self.alpha) / all_tokens)
            for token, count in _bag(features).items()
            if token in self._counts
        }


class BernoulliNB(NaiveBayes[Iterable[Hashable]]):
    """Each token of the vocabulary votes, by its presence or its absence; features are an iterable of tokens.

    The vocabulary is the tokens that at least ``min_messages`` messages have. A token's contribution is
    ln P(present | class) - ln P(absent | class), and the baseline is the sum of ln P(absent | class).
    """

    def __init__(
        self, classes: Sequence[str], *, alpha: float = 1.0, min_messages: int = 1, prior_alpha: float = 1.0
    ) -> None:
        super().__init__(classes, prior_alpha=prior_alpha)
        self.alpha = require_not_negative(alpha)
        self.min_messages = min_messages
        self._counts = _CountTable(len(classes))
        self._cached_baseline: NDArray[np.float64] | None = None

    def _count(self, features: Iterable[Hashable], column: int, weight: int) -> None:
        self._counts.add(dict.fromkeys(_tokens(features), weight), column)
        self._cached_baseline = None

    def _baseline(self) -> NDArray[np.float64]:
        if self._cached_baseline is None:  # it reads the whole vocabulary
            counts = self._counts.array()
            counts = counts[counts.sum(axis=1) >= self.min_messages]
            absent = (self.messages - counts + self.alpha) / (self.messages + 2 * self.alpha)
            # The sum does not depend on the order in which tokens were learned.
            self._cached_baseline = np.array([math.fsum(column) for column in _log(absent).T.tolist()])
        return self._cached_baseline

    def _contributions(self, features: Iterable[Hashable]) -> Mapping[Hashable, NDArray[np.float64]]:
        rows = {token: self._counts[token] for token in dict.fromkeys(_tokens(features)) if token in self._counts}
        return {
            token: _log((row + self.alpha) / (self.messages - row + self.alpha))
            for token, row in rows.items()
            if row.sum() >= self.min_messages
        }


class CategoricalNB(NaiveBayes[Mapping[Any, Hashable]]):
    """Attributes vote by their values; features are a mapping of attributes to values.

    The values of an attribute are those that any class has seen.
    """

    def __init__(self, classes: Sequence[str], *, alpha: float = 1.0, prior_alpha: float = 1.0) -> None:
        super().__init__(classes, prior_alpha=prior_alpha)
        self.alpha = require_not_negative(alpha)
        self._attributes: defaultdict[Hashable, _CountTable] = defaultdict(lambda: _CountTable(len(classes)))

    def _count(self, features: Mapping[Any, Hashable], column: int, weight: int) -> None:
        values = set(features.items())  # an unhashable value is refused before anything is counted
        _require_learned(all(self._attributes[name][value][column] + weight >= 0 for name, value in values))
        for name, value in values:
            self._attributes[name].add({value: weight}, column)

    def _contributions(self, features: Mapping[Any, Hashable]) -> Mapping[Hashable, NDArray[np.float64]]:
        known = {
            attribute: (self._attributes[attribute], value)
            for attribute, value in features.items()
            if attribute in self._attributes
        }
        return {
            attribute: _log((counts[value] + self.alpha) / (counts.total() + self.alpha * len(counts)))
            for attribute, (counts, value) in known.items()
            if value in counts
        }


class GaussianNB(NaiveBayes[Mapping[Any, float]]):
    """Numbers vote by the normal density of each class; features are a mapping of names to finite numbers.

    ``variance_floor`` is added to every variance, in squared units of the number: equal numbers need a width as
    well. Mean and variance are the estimates of maximum likelihood, from sums that are exact fractions: as floats
    the difference of two large sums would be nothing but rounding errors, and could not be taken back. A number
    says nothing while some class has never seen it.
    """

    def __init__(self, classes: Sequence[str], *, variance_floor: float = 1e-9, prior_alpha: float = 1.0) -> None:
        super().__init__(classes, prior_alpha=prior_alpha)
        if not 0 < variance_floor < np.inf:
            raise ValueError(f"variance_floor must be a number above 0: {variance_floor}")
        self.variance_floor = variance_floor
        self._moments: defaultdict[Hashable, list[tuple[int, Fraction, Fraction]]] = defaultdict(
            lambda: [(0, Fraction(0), Fraction(0))] * len(classes)
        )

    def _count(self, features: Mapping[Any, float], column: int, weight: int) -> None:
        after: dict[Any, tuple[int, Fraction, Fraction]] = {}
        for name, number in features.items():
            (n, sx, sxx), x = self._moments[name][column], Fraction(number)  # refuses what is not finite
            after[name] = n + weight, sx + weight * x, sxx + weight * x * x
        _require_learned(all(map(_are_moments, after.values())))
        for name, moments in after.items():
            self._moments[name][column] = moments

    def _contributions(self, features: Mapping[Any, float]) -> Mapping[Hashable, NDArray[np.float64]]:
        return {
            name: np.array([self._log_density(x, *moments) for moments in self._moments[name]])
            for name, x in features.items()
            if name in self._moments and all(n > 0 for n, _, _ in self._moments[name])
        }

    def _log_density(self, x: float, n: int, sx: Fraction, sxx: Fraction) -> float:
        mean = sx / n
        variance = float(sxx / n - mean * mean) + self.variance_floor
        return float(-0.5 * (np.log(2 * np.pi * variance) + float(Fraction(x) - mean) ** 2 / variance))


def _tokens(features: Iterable[Hashable]) -> Iterable[Hashable]:
    """Return the tokens; raises ``TypeError`` for a text, which is an iterable of its characters."""
    if isinstance(features, str | bytes | bytearray):
        raise TypeError(f"features must be several tokens, not one text: {features!r}")
    return features


def _bag(features: Iterable[Hashable]) -> Mapping[Hashable, int]:
    """Return how often each token occurs; raises an error for what is no whole number."""
    return {token: _whole(count, 0) for token, count in Counter(_tokens(features)).items()}


def _whole(number: int, least: int) -> int:
    """Return a whole number from ``least`` on; raises ``TypeError`` for a fraction, and ``ValueError``."""
    if index(number) < least:
        raise ValueError(f"a number of times must be {least} or more: {number}")
    return index(number)


def _require_learned(were_learned: bool) -> None:
    if not were_learned:
        raise ValueError("what is to be unlearned was never learned")


def _are_moments(moments: tuple[int, Fraction, Fraction]) -> bool:
    """Return whether some numbers have this count, this sum, and this sum of squares."""
    n, sx, sxx = moments
    return n * sxx >= sx * sx if n > 0 else n == sx == sxx == 0


def _log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm; -inf at 0, which only an alpha of 0 can give."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(values)
