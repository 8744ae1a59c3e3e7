"""The event models behind one interface: which features each one reads and learns, and how it votes.

Rules: pure; every model is a log-ratio of its own over additive integer counts. The log-ratios of all models are
added, as if their features were independent of each other given the class. A model that is not configured costs
nothing. What a model counts beside the tokens are sums, which are learned with the weight of the message.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nbstream.bayes import bernoulli, categorical, gaussian, multinomial
from nbstream.bayes.clues import TokenClues, Vote, strongest_indices
from nbstream.bayes.counts import SUM_PREFIX, WEIGHT_ONE
from nbstream.bayes.half_life import quantize_unit
from nbstream.bayes.multinomial import HAM, SPAM
from nbstream.tokens.attributes import ATTRIBUTE_VALUES
from nbstream.tokens.numbers import NUMBER_NAMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Sums, Totals
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class FeatureCounts:
    """The counts of a message's features, as a model's mirror has them now.

    ``tokens`` are the counts of its tokens, shape (tokens, classes), in the order of ``Tokens.all``. ``sums`` are
    the sums that the models read, shape (sums, classes), in the order of ``sum_names``. ``vocabulary_counts`` are
    the counts of all tokens of the model, where an event model needs them. ``unit`` is what one occurrence at full
    weight adds to a count if it is learned now.
    """

    tokens: NDArray[np.int64]
    sums: NDArray[np.int64]
    totals: Totals
    vocabulary_counts: NDArray[np.int64] | None = None
    unit: float = WEIGHT_ONE


@dataclass(frozen=True, slots=True)
class ClueLimits:
    """How many tokens of each group vote for each class, at most, once the model has learned ``messages``.

    The groups are those of ``Tokens``.
    """

    messages: int
    head: int
    body: int
    raw_header: int


class EventModel(Protocol):
    """One of the event models."""

    @property
    def sum_names(self) -> tuple[bytes, ...]:
        """The names of the sums that the model reads."""

    def lesson_sums(self, tokens: Tokens, weight: int) -> Sums:
        """Return the sums that a message of this weight (fixed point) adds."""

    def votes(self, tokens: Tokens, counts: FeatureCounts) -> Sequence[Vote]:
        """Return the log-ratios of a message; they are added."""


@dataclass(frozen=True, slots=True)
class MultinomialModel:
    """The multinomial model: the strongest clues of each group of tokens vote, for each class separately.

    ``clue_limits`` say how many, by what the model knows. They begin with those of 0 messages, and rise.
    """

    options: multinomial.MultinomialOptions
    clue_limits: Sequence[ClueLimits]
    sum_names: tuple[bytes, ...] = ()

    def lesson_sums(self, tokens: Tokens, weight: int) -> Sums:
        """Return nothing: the tokens themselves are learned anyway."""
        return ()

    def votes(self, tokens: Tokens, counts: FeatureCounts) -> Sequence[Vote]:
        """Return the votes of the strongest clues."""
        return [(ratio, name) for name, ratio in self.clues(tokens, counts)]

    def clues(self, tokens: Tokens, counts: FeatureCounts) -> TokenClues:
        """Return the same votes as a lazy sequence of clues."""
        ratios = self._ratios(counts)
        start, strongest = 0, []
        for group, limit in zip(tokens.groups, self.group_limits(sum(counts.totals.messages)), strict=True):
            end = start + len(group)
            strongest.append(strongest_indices(group, ratios[start:end], limit) + start)
            start = end
        indices = np.sort(np.concatenate(strongest))
        return TokenClues(tokens, indices, ratios[indices])

    def group_limits(self, messages: int) -> tuple[int, int, int]:
        """Return how many clues of each group vote for a class, in the order of ``Tokens.groups``.

        ``messages`` is how many the model has learned.
        """
        limits = self.clue_limits[0]
        for later_limits in self.clue_limits[1:]:
            if messages >= later_limits.messages:
                limits = later_limits
        return limits.head, limits.body, limits.raw_header

    def _ratios(self, counts: FeatureCounts) -> NDArray[np.float64]:
        smoothing = self.options.smoothing
        if isinstance(smoothing, multinomial.Lidstone):  # of two classes, the complement of one is the other
            return multinomial.token_log_ratios(counts.tokens, counts.totals, smoothing.alpha, counts.unit)
        rows = multinomial.token_log_probabilities(counts.tokens, counts.totals, self.options, counts.unit)
        return _spam_ham_difference(rows)


class BernoulliModel:
    """The Bernoulli model: every token of the vocabulary votes, by its presence or by its absence."""

    sum_names = (SUM_PREFIX + b"messages",)

    def __init__(self, options: bernoulli.BernoulliOptions) -> None:
        self._options = options
        self._cached_empty_message: tuple[NDArray[np.int64], tuple[int, ...], float, float] | None = None

    def lesson_sums(self, tokens: Tokens, weight: int) -> Sums:
        """Return the weight of the message, which is added to the sum of the weights of all messages."""
        return [(self.sum_names[0], weight)]

    def votes(self, tokens: Tokens, counts: FeatureCounts) -> Sequence[Vote]:
        """Return one vote of all present tokens and one of all absent tokens."""
        assert counts.vocabulary_counts is not None
        weights = tuple(counts.sums[0].tolist())
        present = _spam_ham_difference(
            bernoulli.presence_log_odds(counts.tokens, weights, self._options, counts.unit)
        )
        absent = self._empty_message(counts.vocabulary_counts, weights, quantize_unit(counts.unit))
        return [(math.fsum(present.tolist()), b"bernoulli:present"), (absent, b"bernoulli:absent")]

    def _empty_message(self, vocabulary: NDArray[np.int64], weights: tuple[int, ...], unit: float) -> float:
        """Return the log-ratio of a message without tokens.

        This reads the whole vocabulary, so the result is cached until one of the arguments changes.
        """
        cached = self._cached_empty_message
        if cached is None or cached[0] is not vocabulary or cached[1:3] != (weights, unit):
            ham, spam = bernoulli.absence_log_probabilities(vocabulary, weights, self._options, unit).tolist()
            cached = self._cached_empty_message = vocabulary, weights, unit, spam - ham
        return cached[3]


class CategoricalModel:
    """The categorical model: every attribute that the message has votes by its value."""

    def __init__(self, options: categorical.CategoricalOptions) -> None:
        self._options = options
        self._values = [(name, value) for name, values in ATTRIBUTE_VALUES.items() for value in values]
        self._sizes = [len(values) for values in ATTRIBUTE_VALUES.values()]
        self._rows = {attribute: row for row, attribute in enumerate(self._values)}
        self.sum_names = tuple(self._sum_name(name, value) for name, value in self._values)

    @staticmethod
    def _sum_name(name: str, value: str) -> bytes:
        return SUM_PREFIX + f"{name}={value.replace(' ', '-')}".encode()

    def lesson_sums(self, tokens: Tokens, weight: int) -> Sums:
        """Return one sum for the value of each attribute of the message."""
        return [(self._sum_name(name, value), weight) for name, value in tokens.attributes]

    def votes(self, tokens: Tokens, counts: FeatureCounts) -> Sequence[Vote]:
        """Return one vote for each attribute of the message."""
        rows = categorical.value_log_probabilities(counts.sums, self._sizes, self._options, counts.unit)
        ratios = _spam_ham_difference(rows).tolist()
        return [
            (ratios[self._rows[name, value]], f"attribute:{name}={value}".encode())
            for name, value in tokens.attributes
        ]


class GaussianModel:
    """The Gaussian model: every number that the message has votes by its density."""

    sum_names = tuple(
        SUM_PREFIX + f"{name}.{moment}".encode() for name in NUMBER_NAMES for moment in ("n", "x", "xx")
    )

    def __init__(self, options: gaussian.GaussianOptions) -> None:
        self._options = options

    def lesson_sums(self, tokens: Tokens, weight: int) -> Sums:
        """Return the three moments of each number of the message."""
        return [
            (SUM_PREFIX + f"{name}.{moment}".encode(), amount)
            for name, number in tokens.numbers
            for moment, amount in zip(("n", "x", "xx"), gaussian.moments(number, weight), strict=True)
        ]

    def votes(self, tokens: Tokens, counts: FeatureCounts) -> Sequence[Vote]:
        """Return one vote for each number of the message."""
        sums = counts.sums.reshape(len(NUMBER_NAMES), 3, -1)[
            [NUMBER_NAMES.index(name) for name, _ in tokens.numbers]
        ]
        numbers = [number for _, number in tokens.numbers]
        ratios = _spam_ham_difference(
            gaussian.number_log_densities(numbers, sums, self._options, counts.unit)
        ).tolist()
        return [
            (ratio, b"number:" + name.encode()) for ratio, (name, _) in zip(ratios, tokens.numbers, strict=True)
        ]


def clue_count_name(clue: bytes) -> bytes:
    """Return the name under which the messages that have a clue are counted; a token has its own name."""
    kind, colon, rest = clue.partition(b":")
    if colon and kind == b"attribute":
        return SUM_PREFIX + rest.replace(b" ", b"-")
    if colon and kind == b"number":
        return SUM_PREFIX + rest + b".n"
    return clue


def _spam_ham_difference(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    ratios: NDArray[np.float64] = rows[:, SPAM] - rows[:, HAM]
    return ratios
