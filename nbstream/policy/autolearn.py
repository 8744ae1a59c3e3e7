"""What may be learned without a person: the margins, the balance, and the weight.

Rules: pure; a message says nothing here that the model does not already believe, so it may only add what it is far
from doubting, as much of the one class as of the other, and less than a person's label does.

What was tried, as (1-AUC)% on trec07p-20k | SpamAssassin 2002h2 | shuffled, where errors are corrected and nothing
else; and shuffled, where nobody corrects once the model decides:

- off: 0.0929 | 0.6232 | 0.1687; 0.1956.
- as it is, what people taught must be as sure alone: 0.0201 | 0.3717 | 0.1343; 0.2057. hm% 0.12 | 0.51 | 0.31;
  0.27.
- both layers together must be sure, people's alone need not: 0.0105 | 0.2789 | 0.1245; 0.2231. hm% 0.06 | 0.51 |
  0.34; 0.36. Better where people see to it, and it can run away where they do not.
- a share of 1: 0.0190 | 0.2721 | 0.1313; 0.2379. A quarter: 0.0164 | 0.5380 | 0.1349.
- a lead of 100: 2002h2 0.3941, shuffled 0.1200. Without a limit, and nobody corrects: shuffled 0.2992, 2002h2 44.9
  instead of 28.3 (off: 18.8).
- nobody corrects, a share of 1: margins of 0.01 0.2467, of 0.0001 0.2084, of 0.001 0.2379 on shuffled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class AutolearnOptions:
    """P(spam) up to which a message is learned as ``ham`` and from which as ``spam``.

    ``lead``: how many more messages of one class than of the other may be learned; ``share``: of the weight that a
    person's label would have.
    """

    ham_margin: float = 0.001
    spam_margin: float = 0.999
    max_lead: int = 20
    weight_share: float = 0.5


def autolearn_label(probability: float, params: AutolearnOptions) -> str | None:
    """What a message with this P(spam) is learned as; None between the margins."""
    if probability >= params.spam_margin:
        return "spam"
    return "ham" if probability <= params.ham_margin else None


def is_balanced(wanted: str, messages: Sequence[int], params: AutolearnOptions) -> bool:
    """Whether one more ``wanted`` may come to so many ``messages`` of each class."""
    column = CLASSES.index(wanted)
    return messages[column] - messages[1 - column] < params.max_lead
