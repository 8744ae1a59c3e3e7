"""The blend: the log-ratio of a token by the counts of a common model and of own models below it.

Rules: pure; a token of which no own model has counts keeps the log-ratio of the common model to the last bit. So
an empty own model changes nothing. A negative count is read as 0, as in ``multinomial``.

The levels are a hierarchy of Dirichlet distributions (MacKay and Peto, "A hierarchical Dirichlet language model",
1995): what a level knows is the prior of the level below it. For one token this is the m-estimate (Cestnik,
"Estimating probabilities: a crucial task in machine learning", 1990): to the occurrences that the own model has
counted, the level above adds some that nobody has counted, and they have its ratio of spam to ham. How many they
are is the strength of the prior.

For the choice of the constants, and what was tried and not chosen, see docs/experiments.md, "Own models". For the
derivation see docs/explanation/how-it-works.md, "Own models".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.bayes.multinomial import HAM, SPAM, class_masses, elementwise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nbstream.bayes.multinomial import TokenCounts


@dataclass(frozen=True, slots=True)
class PriorStrength:
    """How many occurrences the level above counts as, for each token of an own model.

    They are ``occurrences``, and for a token that the common model has seen in both classes some more:
    ``per_probability`` x P Q / (P + Q), with its shares P and Q of all occurrences in ham and in spam. So what one
    class alone has is soon turned by those who see it otherwise, and what all mail has is hard to move: it says
    little about the few messages that a user has labelled.
    ``balancing`` is how many occurrences are added to the totals of both classes of an own model before their
    ratio is taken: the class of which it has more counts less for each occurrence, once it has many.
    """

    occurrences: float = 0.05
    per_probability: float = 200_000.0
    balancing: float = 1000.0


PRIOR_STRENGTH = PriorStrength()
"""The strength that was chosen on streams of mail."""


@dataclass(frozen=True, slots=True)
class OwnCounts:
    """The counts of a message's tokens in one own model: ``rows`` of shape (tokens, classes).

    ``units`` says for each class which count stands for one occurrence.
    """

    rows: NDArray[np.int64]
    units: tuple[float, float]

    @classmethod
    def of(cls, counts: TokenCounts, strength: PriorStrength) -> OwnCounts:
        """Return the counts of a level, with its classes balanced.

        With u for ``WEIGHT_ONE``, the totals H and S of ham and spam, each divided by u, and b for ``balancing``,
        the unit of a class is u (H + b) / (b + (H + S) / 2), or the same with S. It is computed in this order.
        """
        weights = counts.totals.token_weights
        ham = max(weights[HAM], 0) / WEIGHT_ONE + strength.balancing
        spam = max(weights[SPAM], 0) / WEIGHT_ONE + strength.balancing
        mean = (ham + spam) / 2
        return cls(counts.rows, (WEIGHT_ONE * (ham / mean), WEIGHT_ONE * (spam / mean)))


def blend_log_ratios(
    ratios: NDArray[np.float64],
    common: TokenCounts,
    own: Sequence[OwnCounts],
    alpha: float,
    strength: PriorStrength,
) -> NDArray[np.float64]:
    """Return the log-ratios in nats, shape (tokens,), by the common model and the levels ``own`` below it.

    ``ratios`` are those by the counts of the ``common`` model alone, with Lidstone's ``alpha``; the upper level
    comes first in ``own``. Every implementation computes exactly this, in double precision and in this order, for
    each token of which a level has a count above 0:

    - p and q are P(token | ham) and P(token | spam) of the common model: h / H and s / S of ``token_log_ratios``.
      P and Q are the same without alpha in h and s: (ham / unit) / H and (spam / unit) / S; unit is
      ``WEIGHT_ONE``.
    - w = occurrences + per_probability * (P * Q / (P + Q)), or occurrences where P + Q is 0.
    - The prior is a = w * (p / (p + q)) of ham and b = w * (q / (p + q)) of spam; both are w / 2 for a token that
      the common model has never seen.
    - Each level that has a count above 0 changes the prior: x = ham / unit + a and y = spam / unit + b, of its own
      counts and units; a becomes x * (w / (x + y)), and b becomes y * (w / (x + y)).
    - The ratio is log(b / a).
    """
    if not own:
        return ratios
    spoken = np.flatnonzero(np.concatenate([level.rows for level in own], axis=1).max(axis=1) > 0)
    weight, prior = _prior_occurrences(common.rows[spoken], common, alpha, strength)
    for level in own:
        rows = np.maximum(level.rows[spoken], 0)
        posterior = rows / np.array(level.units) + prior
        posterior *= (weight / (posterior[:, HAM] + posterior[:, SPAM]))[:, np.newaxis]
        prior = np.where(rows.max(axis=1, keepdims=True) > 0, posterior, prior)
    blended = ratios.copy()
    blended[spoken] = elementwise(math.log, prior[:, SPAM] / prior[:, HAM])
    return blended


def _prior_occurrences(
    rows: NDArray[np.int64], common: TokenCounts, alpha: float, strength: PriorStrength
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return as how many occurrences the common model counts, shape (tokens,), and in each class.

    ``rows`` are the counts of some tokens in the common model, shape (tokens, classes).
    """
    masses = np.array(class_masses(common.totals, alpha))
    occurrences = np.maximum(rows, 0) / WEIGHT_ONE
    counted, smoothed = occurrences / masses, (occurrences + alpha) / masses
    both = counted[:, HAM] + counted[:, SPAM]
    is_seen = both > 0
    common_share = np.zeros(len(rows))
    np.divide(counted[:, HAM] * counted[:, SPAM], both, out=common_share, where=is_seen)
    weight = strength.occurrences + strength.per_probability * common_share
    shares = smoothed / (smoothed[:, HAM] + smoothed[:, SPAM])[:, np.newaxis]
    return weight, weight[:, np.newaxis] * np.where(is_seen[:, np.newaxis], shares, 0.5)
