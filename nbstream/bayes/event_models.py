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
from nbstream.bayes.clues import TokenClues, Vote, strongest
from nbstream.bayes.counts import SUM_MARK, WEIGHT_ONE
from nbstream.bayes.half_life import in_steps
from nbstream.bayes.multinomial import HAM, SPAM
from nbstream.tokens.attributes import ATTRIBUTES
from nbstream.tokens.numbers import NUMBERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Sums, Totals
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class Counted:
    """What is known of a message's features.

    ``tokens`` are the counts of its tokens, shape (tokens, classes), in the order of ``Tokens.all``; ``sums``
    those of the names that the model asked for; ``vocabulary`` those of all tokens there are, where a model
    needs them; ``unit`` is the count of one occurrence at full weight that would be learned now.
    """

    tokens: NDArray[np.int64]
    sums: NDArray[np.int64]
    totals: Totals
    vocabulary: NDArray[np.int64] | None = None
    unit: float = WEIGHT_ONE


class EventModel(Protocol):
    """One of the models."""

    @property
    def names(self) -> tuple[bytes, ...]:
        """The sums that it reads."""

    def lesson(self, tokens: Tokens, weight: int) -> Sums:
        """The sums that it adds for a message of this weight."""

    def votes(self, tokens: Tokens, counted: Counted) -> Sequence[Vote]:
        """Its log-ratios for a message, which add up."""


@dataclass(frozen=True, slots=True)
class Multinomial:
    """The strongest clues of two groups, each way for itself, by their share of all tokens of each class."""

    params: multinomial.Params
    head_clues: int
    body_clues: int
    names: tuple[bytes, ...] = ()

    def lesson(self, tokens: Tokens, weight: int) -> Sums:
        """Nothing: the tokens themselves are learned anyway."""
        return ()

    def votes(self, tokens: Tokens, counted: Counted) -> Sequence[Vote]:
        """The votes of the clues."""
        return [(ratio, name) for name, ratio in self.clues(tokens, counted)]

    def clues(self, tokens: Tokens, counted: Counted) -> TokenClues:
        """The same votes, not yet named."""
        ratios = self._ratios(counted)
        heads = len(tokens.head)
        head = strongest(tokens.head, ratios[:heads], self.head_clues)
        body = strongest(tokens.body, ratios[heads:], self.body_clues)
        places = np.concatenate((head, body + heads))
        return TokenClues(tokens, places, ratios[places])

    def _ratios(self, counted: Counted) -> NDArray[np.float64]:
        smoothing = self.params.smoothing
        if isinstance(smoothing, multinomial.Lidstone):  # the complement of one of two classes is the other
            return multinomial.log_ratios(counted.tokens, counted.totals, smoothing.alpha, counted.unit)
        rows = multinomial.log_probabilities(counted.tokens, counted.totals, self.params, counted.unit)
        return _log_ratios(rows)


class Bernoulli:
    """Every token of the vocabulary votes, also by its absence."""

    names = (SUM_MARK + b"messages",)

    def __init__(self, params: bernoulli.Params) -> None:
        self._params = params
        self._empty: tuple[NDArray[np.int64], tuple[int, ...], float, float] | None = None

    def lesson(self, tokens: Tokens, weight: int) -> Sums:
        """One message of this weight."""
        return [(self.names[0], weight)]

    def votes(self, tokens: Tokens, counted: Counted) -> Sequence[Vote]:
        """One vote for what is there and one for what is not."""
        assert counted.vocabulary is not None
        weights = tuple(counted.sums[0].tolist())
        present = _log_ratios(bernoulli.log_odds(counted.tokens, weights, self._params, counted.unit))
        absent = self._empty_message(counted.vocabulary, weights, in_steps(counted.unit))
        return [(math.fsum(present.tolist()), b"bernoulli:present"), (absent, b"bernoulli:absent")]

    def _empty_message(self, vocabulary: NDArray[np.int64], weights: tuple[int, ...], unit: float) -> float:
        """The log-ratio of a message without tokens: a pass over all there are, kept while they stay the same."""
        known = self._empty
        if known is None or known[0] is not vocabulary or known[1:3] != (weights, unit):
            ham, spam = bernoulli.log_absence(vocabulary, weights, self._params, unit).tolist()
            known = self._empty = vocabulary, weights, unit, spam - ham
        return known[3]


class Categorical:
    """Every attribute that the message has votes by its value."""

    def __init__(self, params: categorical.Params) -> None:
        self._params = params
        self._values = [(name, value) for name, values in ATTRIBUTES.items() for value in values]
        self._sizes = [len(values) for values in ATTRIBUTES.values()]
        self._rows = {each: row for row, each in enumerate(self._values)}
        self.names = tuple(self._name(*each) for each in self._values)

    @staticmethod
    def _name(name: str, value: str) -> bytes:
        return SUM_MARK + f"{name}={value.replace(' ', '-')}".encode()

    def lesson(self, tokens: Tokens, weight: int) -> Sums:
        """The values that the message's attributes take."""
        return [(self._name(*each), weight) for each in tokens.attributes]

    def votes(self, tokens: Tokens, counted: Counted) -> Sequence[Vote]:
        """One vote for each attribute."""
        rows = categorical.log_probabilities(counted.sums, self._sizes, self._params, counted.unit)
        ratios = _log_ratios(rows).tolist()
        return [
            (ratios[self._rows[each]], f"attribute:{each[0]}={each[1]}".encode()) for each in tokens.attributes
        ]


class Gaussian:
    """Every number that the message has votes by its density."""

    names = tuple(SUM_MARK + f"{name}.{moment}".encode() for name in NUMBERS for moment in ("n", "x", "xx"))

    def __init__(self, params: gaussian.Params) -> None:
        self._params = params

    def lesson(self, tokens: Tokens, weight: int) -> Sums:
        """The moments of the message's numbers."""
        return [
            (SUM_MARK + f"{name}.{moment}".encode(), amount)
            for name, number in tokens.numbers
            for moment, amount in zip(("n", "x", "xx"), gaussian.moments(number, weight), strict=True)
        ]

    def votes(self, tokens: Tokens, counted: Counted) -> Sequence[Vote]:
        """One vote for each number."""
        sums = counted.sums.reshape(len(NUMBERS), 3, -1)[[NUMBERS.index(name) for name, _ in tokens.numbers]]
        numbers = [number for _, number in tokens.numbers]
        ratios = _log_ratios(gaussian.log_densities(numbers, sums, self._params, counted.unit)).tolist()
        return [
            (ratio, b"number:" + name.encode()) for ratio, (name, _) in zip(ratios, tokens.numbers, strict=True)
        ]


def counted_under(clue: bytes) -> bytes:
    """Under which name the messages are counted that a clue speaks of; a token is counted under its own."""
    kind, colon, rest = clue.partition(b":")
    if colon and kind == b"attribute":
        return SUM_MARK + rest.replace(b" ", b"-")
    if colon and kind == b"number":
        return SUM_MARK + rest + b".n"
    return clue


def _log_ratios(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    ratios: NDArray[np.float64] = rows[:, SPAM] - rows[:, HAM]
    return ratios
