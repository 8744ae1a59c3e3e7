"""The event models side by side: what each reads and learns of a message, and how it votes.

Rules: pure; every model is a log-ratio of its own over additive integer counts, and the models' ratios add up,
as if their features were independent of each other given the class. A model that is not chosen costs nothing.
What a model counts beside the tokens are sums, learned with the weight of the message.
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
    """What is known of a message's features.

    ``tokens`` are the counts of its tokens, shape (tokens, classes), in the order of ``Tokens.all``; ``sums``
    those of the names that the model asked for; ``vocabulary`` those of all tokens there are, where a model
    needs them; ``unit`` is the count of one occurrence at full weight that would be learned now.
    """

    tokens: NDArray[np.int64]
    sums: NDArray[np.int64]
    totals: Totals
    vocabulary_counts: NDArray[np.int64] | None = None
    unit: float = WEIGHT_ONE


class EventModel(Protocol):
    """One of the models."""

    @property
    def sum_names(self) -> tuple[bytes, ...]:
        """The sums that it reads."""

    def lesson_sums(self, tokens: Tokens, weight: int) -> Sums:
        """The sums that it adds for a message of this weight."""

    def votes(self, tokens: Tokens, counted: FeatureCounts) -> Sequence[Vote]:
        """Its log-ratios for a message, which add up."""


@dataclass(frozen=True, slots=True)
class MultinomialModel:
    """The strongest clues of two groups, each way for itself, by their share of all tokens of each class."""

    options: multinomial.MultinomialOptions
    head_clues: int
    body_clues: int
    sum_names: tuple[bytes, ...] = ()

    def lesson_sums(self, tokens: Tokens, weight: int) -> Sums:
        """Nothing: the tokens themselves are learned anyway."""
        return ()

    def votes(self, tokens: Tokens, counted: FeatureCounts) -> Sequence[Vote]:
        """The votes of the clues."""
        return [(ratio, name) for name, ratio in self.clues(tokens, counted)]

    def clues(self, tokens: Tokens, counted: FeatureCounts) -> TokenClues:
        """The same votes, not yet named."""
        ratios = self._ratios(counted)
        heads = len(tokens.head)
        head = strongest_indices(tokens.head, ratios[:heads], self.head_clues)
        body = strongest_indices(tokens.body, ratios[heads:], self.body_clues)
        places = np.concatenate((head, body + heads))
        return TokenClues(tokens, places, ratios[places])

    def _ratios(self, counted: FeatureCounts) -> NDArray[np.float64]:
        smoothing = self.options.smoothing
        if isinstance(smoothing, multinomial.Lidstone):  # the complement of one of two classes is the other
            return multinomial.token_log_ratios(counted.tokens, counted.totals, smoothing.alpha, counted.unit)
        rows = multinomial.token_log_probabilities(counted.tokens, counted.totals, self.options, counted.unit)
        return _spam_ham_difference(rows)


class BernoulliModel:
    """Every token of the vocabulary votes, also by its absence."""

    sum_names = (SUM_PREFIX + b"messages",)

    def __init__(self, params: bernoulli.BernoulliOptions) -> None:
        self._options = params
        self._cached_empty_message: tuple[NDArray[np.int64], tuple[int, ...], float, float] | None = None

    def lesson_sums(self, tokens: Tokens, weight: int) -> Sums:
        """One message of this weight."""
        return [(self.sum_names[0], weight)]

    def votes(self, tokens: Tokens, counted: FeatureCounts) -> Sequence[Vote]:
        """One vote for what is there and one for what is not."""
        assert counted.vocabulary_counts is not None
        weights = tuple(counted.sums[0].tolist())
        present = _spam_ham_difference(
            bernoulli.presence_log_odds(counted.tokens, weights, self._options, counted.unit)
        )
        absent = self._empty_message(counted.vocabulary_counts, weights, quantize_unit(counted.unit))
        return [(math.fsum(present.tolist()), b"bernoulli:present"), (absent, b"bernoulli:absent")]

    def _empty_message(self, vocabulary: NDArray[np.int64], weights: tuple[int, ...], unit: float) -> float:
        """The log-ratio of a message without tokens: a pass over all there are, kept while they stay the same."""
        known = self._cached_empty_message
        if known is None or known[0] is not vocabulary or known[1:3] != (weights, unit):
            ham, spam = bernoulli.absence_log_probabilities(vocabulary, weights, self._options, unit).tolist()
            known = self._cached_empty_message = vocabulary, weights, unit, spam - ham
        return known[3]


class CategoricalModel:
    """Every attribute that the message has votes by its value."""

    def __init__(self, params: categorical.CategoricalOptions) -> None:
        self._options = params
        self._values = [(name, value) for name, values in ATTRIBUTE_VALUES.items() for value in values]
        self._sizes = [len(values) for values in ATTRIBUTE_VALUES.values()]
        self._rows = {each: row for row, each in enumerate(self._values)}
        self.sum_names = tuple(self._sum_name(*each) for each in self._values)

    @staticmethod
    def _sum_name(name: str, value: str) -> bytes:
        return SUM_PREFIX + f"{name}={value.replace(' ', '-')}".encode()

    def lesson_sums(self, tokens: Tokens, weight: int) -> Sums:
        """The values that the message's attributes take."""
        return [(self._sum_name(*each), weight) for each in tokens.attributes]

    def votes(self, tokens: Tokens, counted: FeatureCounts) -> Sequence[Vote]:
        """One vote for each attribute."""
        rows = categorical.value_log_probabilities(counted.sums, self._sizes, self._options, counted.unit)
        ratios = _spam_ham_difference(rows).tolist()
        return [
            (ratios[self._rows[each]], f"attribute:{each[0]}={each[1]}".encode()) for each in tokens.attributes
        ]


class GaussianModel:
    """Every number that the message has votes by its density."""

    sum_names = tuple(
        SUM_PREFIX + f"{name}.{moment}".encode() for name in NUMBER_NAMES for moment in ("n", "x", "xx")
    )

    def __init__(self, params: gaussian.GaussianOptions) -> None:
        self._options = params

    def lesson_sums(self, tokens: Tokens, weight: int) -> Sums:
        """The moments of the message's numbers."""
        return [
            (SUM_PREFIX + f"{name}.{moment}".encode(), amount)
            for name, number in tokens.numbers
            for moment, amount in zip(("n", "x", "xx"), gaussian.moments(number, weight), strict=True)
        ]

    def votes(self, tokens: Tokens, counted: FeatureCounts) -> Sequence[Vote]:
        """One vote for each number."""
        sums = counted.sums.reshape(len(NUMBER_NAMES), 3, -1)[
            [NUMBER_NAMES.index(name) for name, _ in tokens.numbers]
        ]
        numbers = [number for _, number in tokens.numbers]
        ratios = _spam_ham_difference(
            gaussian.number_log_densities(numbers, sums, self._options, counted.unit)
        ).tolist()
        return [
            (ratio, b"number:" + name.encode()) for ratio, (name, _) in zip(ratios, tokens.numbers, strict=True)
        ]


def clue_count_name(clue: bytes) -> bytes:
    """Under which name the messages are counted that a clue speaks of; a token is counted under its own."""
    kind, colon, rest = clue.partition(b":")
    if colon and kind == b"attribute":
        return SUM_PREFIX + rest.replace(b" ", b"-")
    if colon and kind == b"number":
        return SUM_PREFIX + rest + b".n"
    return clue


def _spam_ham_difference(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    ratios: NDArray[np.float64] = rows[:, SPAM] - rows[:, HAM]
    return ratios
