"""The lesson weight: how much a labelled message teaches, as a fixed-point integer.

Rules: pure; a weight is between 0 and ``WEIGHT_ONE``, and at most ``MAX_LESSONS`` times that where people insist.
The ledger stores it, so that exactly the same amount can be subtracted again.

The constants were chosen on trec07p-20k and SpamAssassin's corpus: (1-AUC)% is 0.0017 on trec07p-20k, 0.0059 and
0.0054 there with 2 % of the labels flipped (two draws), 0.0720 on 2002h2 and 0.0429 shuffled. For the values that
were tried and not chosen see docs/experiments.md, "Lesson weights".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.calibration import sigmoid
from nbstream.bayes.counts import CLASSES, WEIGHT_ONE
from nbstream.bayes.half_life import grow_weight
from nbstream.bayes.multinomial import SPAM

if TYPE_CHECKING:
    from nbstream.bayes.counts import Totals

MAX_LESSONS = 3
"""The most that one message may weigh, in lessons of full weight, however often people insist on its label.

A weight without a bound would be a tool for those who teach in order to harm. On trec07p-20k and 2002h2, 1.5
lessons were enough for every message whose label was given twice at once.
"""

_INSISTED_LESSONS = (1.0, 1.5, 2.0, 2.5, float(MAX_LESSONS))


@dataclass(frozen=True, slots=True)
class LessonWeightOptions:
    """How the weight of a lesson follows from the score before it.

    ``divisor`` is how many nats of log-odds count as one; it must grow with the number of clues that vote.
    ``doubt_strength`` is how steeply the weight falls when a label contradicts the model; it never falls below
    ``min_doubt_factor`` of what it would be without doubt. When the smaller class has ``doubt_messages`` messages,
    the doubt is half as strong as it can become.
    """

    divisor: float = 30.0
    doubt_strength: float = 4.0
    doubt_messages: int = 500
    min_doubt_factor: float = 0.1


def lesson_weight(
    log_odds: float, label: str, totals: Totals, options: LessonWeightOptions | None, *, certain: bool = False
) -> int:
    """Return the weight (fixed point) of a message whose score was ``log_odds`` before its ``label`` came.

    ``log_odds`` are those of spam, in nats; ``totals`` are those of the model before the lesson.

    Without ``options`` the weight is ``WEIGHT_ONE``. With them it is ``WEIGHT_ONE`` x (1 - P(label)): a message
    that the model already classifies correctly teaches little (Su et al., "Discriminative parameter learning for
    Bayesian networks", 2008). A label that contradicts a well taught model by t divisors is more often a mistake
    than news: its weight falls as 1 / (1 + doubt t^2), which is the weight of an observation under Student's t
    (Lange et al., "Robust statistical modeling using the t distribution", 1989). A ``certain`` label is not
    doubted; an example is the second label that a person gives to the same message.
    """
    if options is None:
        return WEIGHT_ONE
    agreement = (log_odds if CLASSES.index(label) == SPAM else -log_odds) / options.divisor
    share = sigmoid(-agreement)
    if agreement < 0 and not certain:
        maturity = (max(min(totals.messages), 0) / options.doubt_messages) ** 2
        doubt = options.doubt_strength * maturity / (maturity + 1)
        share *= max(options.min_doubt_factor, 1 / (1 + doubt * agreement**2))
    return round(WEIGHT_ONE * share)


def insisted_weights(present_weight: int, growth: float = 1.0) -> tuple[int, ...]:
    """Return the weights that a message may get when a person insists on its label, the smallest first.

    All are above ``present_weight``, the weight of its ledger entry. There are none where the message has the most
    weight that one message may have. ``growth`` is the factor by which the weights of this moment are multiplied:
    with a half-life, an old lesson counts less, and may therefore be given more weight once more.
    """
    weights = (grow_weight(round(lessons * WEIGHT_ONE), growth) for lessons in _INSISTED_LESSONS)
    return tuple(weight for weight in weights if weight > present_weight)


def max_entry_weight(growth: float = 1.0) -> int:
    """Return the largest weight that a ledger entry may have at a moment with this growth."""
    return grow_weight(MAX_LESSONS * WEIGHT_ONE, growth)
