"""The lesson weight: how much a labelled message teaches, as a fixed-point integer.

Rules: pure; a weight is between 0 and ``WEIGHT_ONE``, and at most ``MAX_ENTRY_WEIGHT`` where people reinforce.
The ledger stores it, so that exactly the same amount can be subtracted again.

The constants were chosen by a rule over three corpora, each left out in turn. For the rule, the figures, and the
values that were tried and not chosen see docs/experiments.md, "Lesson weights and clues on unseen mail".
"""

from __future__ import annotations

from nbstream.bayes.calibration import sigmoid
from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.bayes.multinomial import SPAM

MAX_ENTRY_WEIGHT = 3 * WEIGHT_ONE
"""The most that one message may weigh, however often people reinforce its label.

A weight without a bound would be a tool for those who teach in order to harm.
"""

_REINFORCED_WEIGHTS = tuple(range(WEIGHT_ONE, MAX_ENTRY_WEIGHT + 1, WEIGHT_ONE // 2))

_DIVISOR = 20.0  # nats of log-odds that count as one; it must grow with the number of clues that vote
_MAX_SHARE = 0.35  # of the full weight, which the first label of a message gives at most


def lesson_weight(log_odds: float, label: str, *, certain: bool = False) -> int:
    """Return the weight (fixed point) of a message whose score was ``log_odds`` before its ``label`` came.

    ``log_odds`` are those of spam, in nats.

    The weight is ``WEIGHT_ONE`` x (1 - P(label)): a message that the model already classifies correctly teaches
    little (Su et al., "Discriminative parameter learning for Bayesian networks", 2008). The share 1 - P(label) is
    cut at ``_MAX_SHARE``. Therefore a label that contradicts the model, which may be a correction or a slip,
    teaches as much as one that the model found hard to guess, and not more: enough to bring the message to the
    side of its label, and not enough for one slip to outweigh what many other messages say of the same tokens.
    What recurs adds up; what stays alone is soon outweighed. A ``certain`` label is not cut; an example is a label
    that replaces another one of the same message.
    """
    share = sigmoid((-log_odds if CLASSES.index(label) == SPAM else log_odds) / _DIVISOR)
    return round(WEIGHT_ONE * (share if certain else min(share, _MAX_SHARE)))


def reinforced_weights(present_weight: int) -> tuple[int, ...]:
    """Return the weights that a message may get when a person reinforces its label, the smallest first.

    All are above ``present_weight``, the weight of its ledger entry. There are none where the message has the most
    weight that one message may have.
    """
    return tuple(weight for weight in _REINFORCED_WEIGHTS if weight > present_weight)
