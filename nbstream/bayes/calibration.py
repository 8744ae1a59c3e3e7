"""Log-odds to a probability that means what it says: a map learned from what people said of earlier scores.

Rules: pure; what is learned are counts of first scores by label, in bins, kept with the model like any other
count: one a message, taken back with it. A score counts as it was before the message's first label, never after.

Naive Bayes takes its clues for independent; they are not, and so its log-odds are too large by about a constant
factor. The map is Platt's ("Probabilistic outputs for support vector machines", 1999): P = sigmoid((s - b) / T),
with one temperature T and one bias b a model; not the likeliest pair of them, but the average over a grid, each
pair weighed by its posterior probability.

What was tried: with T = 3 and b = 0 for all, the expected calibration error is 0.0013 on trec07p-20k, 0.0028 on
SpamAssassin 2002h2 and 0.0030 shuffled. The likeliest T alone is 6 to 8 on all three: a handful of messages scored
wrong at 60 nats decide it, P >= 0.95 then begins at 20 nats, and sm% on 2002h2 is 4.3 instead of 2.3. With every
message counted in full T and b are 0.0008, 0.0007 and 0.0016 off, with hm% 0.11 and sm% 7.1 on 2002h2. Counted
as a fiftieth, 0.0009, 0.0021, 0.0024 with hm% 0.33 and sm% 2.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.counts import SUM_PREFIX, WEIGHT_ONE
from nbstream.bayes.half_life import grow_weight, quantize_unit
from nbstream.bayes.multinomial import HAM, SPAM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Sums, Totals

_MAX_LOG_ODDS = 36.0  # 1 / (1 + exp(-36)) is the last that differs from 1.0 in double precision
_BINS_PER_SIDE = 24  # bins on each side of 0
_BIN_SCALE_NATS = (
    6.0  # nats: bins are 1 nat wide around 0 and grow with the distance; the outermost are at 164 nats
)

SCORE_BINS = tuple(SUM_PREFIX + b"score%+d" % place for place in range(-_BINS_PER_SIDE, _BINS_PER_SIDE + 1))
"""The names of the sums that count first scores, from the surest ham to the surest spam."""


@dataclass(frozen=True, slots=True)
class CalibrationOptions:
    """The map before anything is learned, and how fast it changes.

    ``temperature`` in nats, its logarithm uncertain by ``temperature_spread``; the bias 0, uncertain by
    ``bias_spread`` nats. ``evidence`` is how much one message counts: they come in campaigns, of which fifty alike
    say little more than one. ``wrong_label_share`` is the share of labels that are taken to be slips, so that a
    few of them do not flatten the map. ``youth`` messages of the smaller class halve a score's worth: with 50
    instead of 0, ham called spam among messages 100 to 300 of 2002h2 went from 5 to 3.
    """

    temperature: float = 2.0
    temperature_spread: float = 0.2
    bias_spread: float = 3.0
    evidence_per_message: float = 0.02
    wrong_label_share: float = 0.03
    young_model_messages: float = 50.0


def sigmoid(log_odds: float) -> float:
    """1 / (1 + exp(-x)): the probability of these log-odds, monotone, never exactly 0 or 1."""
    clamped = max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, log_odds))
    return 1.0 / (1.0 + math.exp(-clamped))


_MIN_PROBABILITY, _MAX_PROBABILITY = sigmoid(-_MAX_LOG_ODDS), sigmoid(_MAX_LOG_ODDS)


class Calibration:
    """Turns a score's log-odds into P(spam)."""

    def __init__(self, params: CalibrationOptions = CalibrationOptions()) -> None:
        self._options = params
        self._grid = _PosteriorGrid(params)
        self._last_posterior: tuple[tuple[bytes, float], NDArray[np.float64]] | None = None

    def probability(
        self, log_odds: float, counts: NDArray[np.int64], totals: Totals, unit: float = WEIGHT_ONE
    ) -> float:
        """P(spam) for ``log_odds`` in nats, where ``counts`` are those of ``SCORE_BINS``, shape (bins, classes).

        ``unit`` is the count of one message.
        """
        seen = counts.tobytes(), unit if unit == WEIGHT_ONE else quantize_unit(unit)
        if (
            self._last_posterior is None or self._last_posterior[0] != seen
        ):  # something was learned, or with a half-life time has passed
            self._last_posterior = seen, self._grid.posterior(counts, seen[1])
        return self._grid.probability(self._discount_young_model(log_odds, totals), self._last_posterior[1])

    def lesson_sums(self, log_odds: float, totals: Totals, growth: float = 1.0) -> Sums:
        """What a message adds that had these log-odds, under these totals, before its first label.

        ``growth`` is that of the weights of this moment.
        """
        place = round(_BIN_SCALE_NATS * math.asinh(self._discount_young_model(log_odds, totals) / _BIN_SCALE_NATS))
        return [
            (SCORE_BINS[max(0, min(2 * _BINS_PER_SIDE, place + _BINS_PER_SIDE))], grow_weight(WEIGHT_ONE, growth))
        ]

    def _discount_young_model(self, log_odds: float, totals: Totals) -> float:
        """A young model is surer than it may be: fewer messages stand behind each count."""
        return log_odds / (1 + self._options.young_model_messages / max(min(totals.messages), 1))


class _PosteriorGrid:
    """Pairs of temperature and bias, and what each bin's labels say about them."""

    _temperatures = (1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
    _biases = tuple(range(-24, 25, 3))

    def __init__(self, params: CalibrationOptions) -> None:
        pairs = np.array([(t, b) for t in self._temperatures for b in self._biases])
        self._temperature, self._bias = pairs.T
        self._two_t = 2 * self._temperature
        relative = np.log(self._temperature / params.temperature) / params.temperature_spread
        self._log_prior = -0.5 * (relative**2 + (self._bias / params.bias_spread) ** 2)
        centres = _BIN_SCALE_NATS * np.sinh(np.arange(-_BINS_PER_SIDE, _BINS_PER_SIDE + 1) / _BIN_SCALE_NATS)
        wrong = params.wrong_label_share
        spam = wrong + (1 - 2 * wrong) * _sigmoids((centres[:, np.newaxis] - self._bias) / self._temperature)
        self._log_likelihood = {SPAM: np.log(spam), HAM: np.log(1 - spam)}
        self._evidence = params.evidence_per_message

    def posterior(self, counts: NDArray[np.int64], unit: float) -> NDArray[np.float64]:
        """The probability of each pair, given the labels in each bin."""
        labels = np.maximum(counts, 0)
        log_posterior = self._log_prior + self._evidence / unit * _label_trust(labels) * sum(
            labels[:, column] @ rows for column, rows in self._log_likelihood.items()
        )
        weights = np.exp(log_posterior - log_posterior.max())
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares

    def probability(self, log_odds: float, posterior: NDArray[np.float64]) -> float:
        """P(spam), averaged over the pairs; never exactly 0 or 1."""
        # As 1/2 + tanh/2: the pairs with b and -b cancel out, so that no evidence at all is exactly 1/2.
        mean = 0.5 + 0.5 * float(posterior @ np.tanh((log_odds - self._bias) / self._two_t))
        return max(_MIN_PROBABILITY, min(_MAX_PROBABILITY, mean))


def _label_trust(labels: NDArray[np.int64]) -> float:
    """From 0 to 1: whether the labels look like all there were, not only like corrections.

    People who correct errors, and nothing else, tell of each class only what was on the wrong side. In the worse
    of the two classes, up to four in five on the right side count for nothing, nine in ten in full.
    """
    ham: list[int] = labels[:, HAM].tolist()  # so few are summed sooner without numpy
    spam: list[int] = labels[:, SPAM].tolist()
    right, every = (sum(ham[:_BINS_PER_SIDE]), sum(spam[_BINS_PER_SIDE + 1 :])), (sum(ham), sum(spam))
    worse = min(r / max(n, 1) for r, n in zip(right, every, strict=True))
    return max(0.0, min(1.0, (worse - 0.8) / 0.1))


def _sigmoids(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    values: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -_MAX_LOG_ODDS, _MAX_LOG_ODDS)))
    return values
