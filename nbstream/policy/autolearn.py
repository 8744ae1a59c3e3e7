"""What may be learned without a person: the margins, the balance, and the weight.

Rules: pure; a message says nothing here that the model does not already believe, so it may only add what it is far
from doubting, as much of the one class as of the other, and less than a person's label does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Params:
    """P(spam) up to which a message is learned as ``ham`` and from which as ``spam``.

    ``lead``: how many more messages of one class than of the other may be learned; ``share``: of the weight that a
    person's label would have.
    """

    ham: float = 0.001
    spam: float = 0.999
    lead: int = 20
    share: float = 0.5


def label(probability: float, params: Params) -> str | None:
    """What a message with this P(spam) is learned as; None between the margins."""
    if probability >= params.spam:
        return "spam"
    return "ham" if probability <= params.ham else None


def balanced(wanted: str, messages: Sequence[int], params: Params) -> bool:
    """Whether one more ``wanted`` may come to so many ``messages`` of each class."""
    column = CLASSES.index(wanted)
    return messages[column] - messages[1 - column] < params.lead
