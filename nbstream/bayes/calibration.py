"""Calibration: a map from log-odds to P(spam), learned from prequential scores and the labels that people gave.

Rules: pure. What is learned are counts of prequential scores by label, in bins. They are stored with the model
like any other count: each message adds one, and takes it back when it is unlearned. The score that counts is the
one that the message had before its first label, never a later one.

Naive Bayes treats clues as independent. They are not, so its log-odds are too large by an approximately constant
factor. The map is Platt's ("Probabilistic outputs for support vector machines", 1999): P = sigmoid((s - b) / T),
with one temperature T and one bias b for each model. The result is not that of the likeliest pair (T, b), but the
average over a grid of pairs, each weighed by its posterior probability. A sum over the pairs is ``math.fsum``,
which has no order. A sum over the bins begins at the surest ham and ends at the surest spam; that of the labels
"spam" and that of the labels "ham" are added last.

For the expected calibration error and other maps that were tried see docs/experiments.md, "Calibration".
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from operator import mul
from typing import TYPE_CHECKING

from nbstream.bayes.counts import SUM_PREFIX, WEIGHT_ONE
from nbstream.bayes.multinomial import HAM, SPAM, elementwise
from nbstream.engine.score import NativePosterior
from nbstream.numpy_on_demand import np

if TYPE_CHECKING:
    import ctypes

    from numpy.typing import NDArray

    from nbstream.bayes.counts import Sums, Totals

_MAX_LOG_ODDS = 36.0  # 1 / (1 + exp(-36)) is the last that differs from 1.0 in double precision
_BINS_PER_SIDE = 24  # bins on each side of 0
# Bins are 1 nat wide around 0 and grow with the distance; the outermost are at 164 nats.
_BIN_SCALE_NATS = 6.0
_MAX_POSTERIORS = 256  # of own models, which share a calibration; each takes up to 7 kB
# All pairs of temperature and bias that are less probable change a probability by less than its last bit.
_MIN_SHARE = 2.0**-64

SCORE_BINS = tuple(
    SUM_PREFIX + b"score%+d" % bin_number for bin_number in range(-_BINS_PER_SIDE, _BINS_PER_SIDE + 1)
)
"""The names of the sums that count prequential scores, from the surest ham to the surest spam."""


# So many prequential scores of the parent raise the weight of one of an own model by 1. It hardly matters, see
# docs/experiments.md, "Own models".
_PARENT_SCORES_PER_OWN = 1000


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """The map before anything is learned, and how fast it changes.

    - ``temperature`` is the expected T, and ``temperature_spread`` the standard deviation of its logarithm.
    - The expected bias is 0 nats, and ``bias_spread`` is its standard deviation in nats.
    - ``evidence_per_message`` is how much one message counts. Messages come in campaigns, and fifty messages of
      one campaign say little more than one of them.
    - ``wrong_label_share`` is the share of labels that are expected to be mistakes, so that a few mistakes do not
      flatten the map.
    - ``young_model_messages`` is the number of messages in the smaller class at which a score is halved. With 50
      instead of 0, the ham called spam among messages 100 to 300 of 2002h2 fell from 5 to 3.
    """

    temperature: float = 2.8
    temperature_spread: float = 0.2
    bias_spread: float = 3.0
    evidence_per_message: float = 0.1
    wrong_label_share: float = 0.03
    young_model_messages: float = 50.0


def sigmoid(log_odds: float) -> float:
    """Return 1 / (1 + exp(-x)), the probability of log-odds in nats: monotone, never exactly 0 or 1."""
    clamped = max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, log_odds))
    return 1.0 / (1.0 + math.exp(-clamped))


PROBABILITY_BOUNDS = sigmoid(-_MAX_LOG_ODDS), sigmoid(_MAX_LOG_ODDS)
"""The least and the greatest P(spam)."""


class Calibration:
    """Turns the log-odds of a score into P(spam).

    Where there is a native ``library``, it computes the posterior, with the same result.
    """

    def __init__(
        self, options: CalibrationOptions = CalibrationOptions(), library: ctypes.CDLL | None = None
    ) -> None:
        self._options = options
        self._library = library
        self._last_pairs: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None
        self._pairs: OrderedDict[bytes, NDArray[np.float64]] = OrderedDict()

    @cached_property
    def _grid(self) -> _PosteriorGrid:
        """The grid, which most commands do not need."""
        return _PosteriorGrid(self._options, self._library)

    def probability(self, log_odds: float, counts: NDArray[np.int64], totals: Totals) -> float:
        """Return P(spam) for ``log_odds`` in nats.

        ``counts`` begin with those of ``SCORE_BINS``, shape (sums, classes), and are not changed later.
        """
        mean = _mean_probability(log_odds / self.divisor(totals), self.pairs(counts))
        return max(PROBABILITY_BOUNDS[0], min(PROBABILITY_BOUNDS[1], mean))

    def pairs(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the pairs of temperature and bias that count, shape (pairs, 3), computed again after a lesson.

        The three are the probability of the pair, its bias, and twice its temperature. The array is in C order:
        the native library reads it.
        """
        last = self._last_pairs
        if last and counts is last[0]:
            return last[1]
        bins = counts[: len(SCORE_BINS)]
        cache_key = bins.tobytes()
        pairs = self._pairs.pop(cache_key, None)
        if pairs is None:
            pairs = np.ascontiguousarray(self._grid.pairs(bins))
        self._pairs[cache_key] = pairs
        if len(self._pairs) > _MAX_POSTERIORS:
            self._pairs.popitem(last=False)
        self._last_pairs = counts, pairs
        return pairs

    def lesson_sums(self, log_odds: float, totals: Totals) -> Sums:
        """Return the sums that a message adds, by its ``log_odds`` in nats and the totals before its label."""
        bin_number = round(_BIN_SCALE_NATS * math.asinh(log_odds / self.divisor(totals) / _BIN_SCALE_NATS))
        return [(SCORE_BINS[max(0, min(2 * _BINS_PER_SIDE, bin_number + _BINS_PER_SIDE))], WEIGHT_ONE)]

    def divisor(self, totals: Totals) -> float:
        """Return what divides the log-odds while the model is young: few messages then stand behind each count."""
        return 1 + self._options.young_model_messages / max(min(totals.messages), 1)


def _mean_probability(log_odds: float, pairs: NDArray[np.float64]) -> float:
    """Return P(spam), averaged over the pairs."""
    # As 1/2 + tanh/2: the pairs with b and -b cancel out, so that no evidence at all is exactly 1/2.
    shares, biases, two_temperatures = pairs.T
    halves = map(math.tanh, ((log_odds - biases) / two_temperatures).tolist())
    return 0.5 + 0.5 * math.fsum(map(mul, shares.tolist(), halves))


def blend_sums(parent: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums by which the score of an own model is calibrated; they begin with those of ``SCORE_BINS``.

    ``parent`` are those of the level above, ``own`` those of the own model, shape (sums, classes). The result is
    their sum, in which each prequential score of the own model counts max(1, n // 1000) times, where n is how many
    prequential scores the parent has: a few of a user's own shift the map, and the parent's carry it. While the
    own model has none, it is ``parent`` itself. With more levels, the result is the parent of the next one.
    """
    if not own.any():
        return parent
    repeats = max(1, int(parent[: len(SCORE_BINS)].sum() / WEIGHT_ONE) // _PARENT_SCORES_PER_OWN)
    return parent + repeats * own


class _PosteriorGrid:
    """All pairs of temperature and bias, and the likelihood of the labels of each bin under each pair."""

    _temperatures = (1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
    _biases = tuple(range(-24, 25, 3))

    def __init__(self, options: CalibrationOptions, library: ctypes.CDLL | None) -> None:
        pairs = np.array([(t, b) for t in self._temperatures for b in self._biases])
        self._temperature, self._bias = pairs.T
        self._two_t = 2 * self._temperature
        relative = elementwise(math.log, self._temperature / options.temperature) / options.temperature_spread
        self._log_prior = -0.5 * (relative**2 + (self._bias / options.bias_spread) ** 2)
        bins = np.arange(-_BINS_PER_SIDE, _BINS_PER_SIDE + 1)
        centres = _BIN_SCALE_NATS * elementwise(math.sinh, bins / _BIN_SCALE_NATS)
        wrong = options.wrong_label_share
        spam = wrong + (1 - 2 * wrong) * elementwise(
            sigmoid, (centres[:, np.newaxis] - self._bias) / self._temperature
        )
        self._log_likelihood = {SPAM: elementwise(math.log, spam), HAM: elementwise(math.log, 1 - spam)}
        self._evidence = options.evidence_per_message / WEIGHT_ONE
        by_bin = [self._log_likelihood[HAM], self._log_likelihood[SPAM]]
        grid = np.vstack((self._log_prior, self._bias, self._two_t, *by_bin))
        self._native = NativePosterior(library, grid, len(pairs)) if library else None

    def pairs(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability of each pair, given the labels in each bin, and leave out the improbable ones."""
        native_pairs = self._native(counts, self._evidence) if self._native else None
        if native_pairs is not None:
            return native_pairs
        labels = np.maximum(counts, 0)
        log_posterior = self._log_prior + self._evidence * _label_trust(labels) * sum(
            self._log_likelihood_sum(column, labels[:, column]) for column in self._log_likelihood
        )
        weights = elementwise(math.exp, log_posterior - log_posterior.max())
        shares = weights / math.fsum(weights.tolist())
        return np.stack((shares, self._bias, self._two_t), axis=1)[shares > _MIN_SHARE]

    def _log_likelihood_sum(self, column: int, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log-likelihood of the labels of one class under each pair.

        The bins are added one by one, from the surest ham on: numpy's ``sum`` promises no order.
        """
        labelled = np.flatnonzero(labels)  # the other bins add nothing
        rows = labels[labelled, np.newaxis] * self._log_likelihood[column][labelled]
        return np.add.accumulate(rows)[-1] if len(rows) else np.zeros_like(self._log_prior)


def _label_trust(labels: NDArray[np.int64]) -> float:
    """Return, from 0 to 1, how much the labels look like those of all messages, not only of errors.

    People who correct nothing but errors label only those messages of a class that were on the wrong side. What
    counts is the class with the smaller share of scores on the right side: with up to 80 % the labels count
    nothing, from 90 % on they count in full.
    """
    ham: list[int] = labels[:, HAM].tolist()  # numpy's overhead is larger than the sum of 49 numbers
    spam: list[int] = labels[:, SPAM].tolist()
    right_counts = sum(ham[:_BINS_PER_SIDE]), sum(spam[_BINS_PER_SIDE + 1 :])
    all_counts = sum(ham), sum(spam)
    smaller_share = min(right / max(n, 1) for right, n in zip(right_counts, all_counts, strict=True))
    return max(0.0, min(1.0, (smaller_share - 0.8) / 0.1))
