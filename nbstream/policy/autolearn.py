"""What may be learned without a person: the margins, the balance of the classes, and the weight.

Rules: pure. A message tells autolearning only what the model already believes. Therefore only messages are learned
of which the model is very sure, about as many of one class as of the other, and with less weight than a person's
label gives. Other margins, shares and leads were tried; see docs/experiments.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class AutolearnOptions:
    """Which messages are autolearned, and with which weight.

    A message with a P(spam) of at most ``ham_margin`` is learned as ham, and one of at least ``spam_margin`` as
    spam. ``max_lead`` is how many more messages of one class than of the other may be learned. ``weight_share`` is
    the share of the weight that a person's label would give.
    """

    ham_margin: float = 0.001
    spam_margin: float = 0.999
    max_lead: int = 20
    weight_share: float = 0.5


def autolearn_label(probability: float, options: AutolearnOptions) -> str | None:
    """Return the label that a message with this P(spam) is learned as, or None between the margins."""
    if probability >= options.spam_margin:
        return "spam"
    return "ham" if probability <= options.ham_margin else None


def is_balanced(label: str, messages: Sequence[int], options: AutolearnOptions) -> bool:
    """Whether one more message with ``label`` may be learned. ``messages`` are the learned messages by class."""
    column = CLASSES.index(label)
    return messages[column] - messages[1 - column] < options.max_lead
