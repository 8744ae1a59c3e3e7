"""What may be learned without a person, and how far that may move a score.

Rules: pure. A message tells autolearning only what the model already believes. Therefore only messages are learned
of which the model is very sure, about as many of one class as of the other, and with less weight than a person's
label gives. For what was tried see docs/experiments.md, "Autolearning".

Whoever sends mail decides what is learned without people. Mail that contains public ham and the words of a later
campaign is learned as ham, as often as it is sent, and no rule about single messages or words prevents that. So
the effect is bounded, and not the cause: whatever was autolearned, it moves the log-odds of P(spam) at most by
``MAX_SHIFT`` from what people taught alone, and leaves spam what they alone call spam by ``SPAM_MARGIN``.

Where people have never taught ham, their lessons alone say nothing, and nothing can be compared with them. Until
they have taught enough of it, implicit ham counts as ham: mail that was not called spam, lay where people could
move it, and stayed. Some of it is spam that nobody moved. Therefore only mail is learned that the present counts
call ham, apart from the first: without any ham they call everything spam. Strangers can bring their mail among the
ham by that, and no ham among the spam: the worst that comes of it is that their mail is delivered, as all mail is
where there are no verdicts. For the guards that were tried see docs/experiments.md, "Implicit ham".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nbstream.bayes.calibration import sigmoid
from nbstream.bayes.columns import CLASSES
from nbstream.bayes.multinomial import HAM, SPAM
from nbstream.policy.verdict import ModelState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nbstream.bayes.counts import Totals
    from nbstream.policy.verdict import Thresholds

MAX_SHIFT = math.log(19)
"""How far automatic learning may move the log-odds of P(spam), in nats: from 1/2 to 0.95 or to 0.05, at most.

It does not depend on the thresholds. With the default ones it can turn spam into unsure mail or unsure mail
into ham, and the other way round, but never spam into ham or ham into spam.
"""

SPAM_MARGIN = 1.0
"""What people's lessons alone put this far above the threshold for spam stays spam, in nats of P(spam).

A floor at the threshold itself would take all that automatic learning is worth: the ham that it saves is ham that
people's lessons alone call spam. See docs/experiments.md, "Autolearning".
"""

MAX_SCORE = 50.0
"""A message that the model scores beyond this on the side of its label teaches nothing new, and is not learned.

The log-odds are those before calibration, in nats, by people's lessons alone or with automatic ones. So copies of
one message are learned some twenty times, however many come.
"""

SETTLED = 0.9999
"""From this P(spam) on, and at 1 minus it and below, people's lessons alone decide.

No verdict depends on them there, and most mail is there: its check costs what it costs without them.
"""

LIMIT_CLUE = b"autolearn:limit"
"""The name of the clue for what automatic lessons say beyond their limits, and what is therefore taken back."""

_SURE = math.log(0.999 / 0.001)  # P(spam) of 0.001 and below are the same here, and so are those from 0.999 on
_ROUNDING = 1e-13  # nats: more than rounding makes of the logit of a P from 0.001 to 0.999
_HALVINGS = 16  # exact to a 65,536th of the distance between both scores


MAX_LEAD = 20
"""How many more messages of one class than of the other may be learned."""

WEIGHT_SHARE = 0.5
"""The share of the weight that a person's label would give."""


def is_balanced(label: str, messages: Sequence[int], max_lead: int = MAX_LEAD) -> bool:
    """Whether one more message with ``label`` may be learned. ``messages`` are the learned messages by class."""
    column = CLASSES.index(label)
    return messages[column] - messages[1 - column] < max_lead


def is_known(label: str, log_odds: float) -> bool:
    """Return whether a message with this score has nothing new to teach as ``label``; see ``MAX_SCORE``."""
    return (log_odds if CLASSES.index(label) == SPAM else -log_odds) > MAX_SCORE


def is_settled(probability: float) -> bool:
    """Return whether people's lessons alone, which lead to this P(spam), decide; see ``SETTLED``."""
    return not 1 - SETTLED < probability < SETTLED


def counts_implicit_ham(people: Totals, needed: Mapping[str, int]) -> bool:
    """Return whether implicit ham counts as ham: as long as people have taught fewer ham than the model needs."""
    return people.messages[HAM] < needed.get(CLASSES[HAM], 0)


def model_state(people: Totals, needed: Mapping[str, int], automatic: Totals | None = None) -> ModelState:
    """Return how much a model has learned, of which ``people`` are the totals of what people taught.

    The ham in ``automatic`` is implicit ham, and counts while it is needed.
    """
    kept = automatic.messages[HAM] if automatic and counts_implicit_ham(people, needed) else 0
    learned = people.messages_by_label()
    return ModelState({**learned, CLASSES[HAM]: learned[CLASSES[HAM]] + kept}, needed, kept)


def is_kept_ham(probability: float, thresholds: Thresholds, state: ModelState) -> bool:
    """Return whether a kept message with this P(spam) may be learned as ham.

    The first messages may, as many as the model needs. With these the others must be below ``unsure``.
    """
    label = CLASSES[HAM]
    return state.learned[label] < state.needed.get(label, 0) or probability < thresholds.unsure


def limit_log_odds(
    by_people: float, by_both: float, probability: Callable[[float], float], spam_threshold: float = math.inf
) -> float:
    """Return the log-odds nearest to ``by_both`` that automatic learning may lead to.

    ``by_people`` are the log-odds by what people taught alone, ``by_both`` those by automatic lessons as well,
    both before calibration and in nats. ``probability`` is the calibration, a monotone function that returns
    P(spam). The logit of the result's P(spam) differs by at most ``MAX_SHIFT`` from that of ``by_people``, where a
    P beyond 0.001 and 0.999 counts as 0.001 and 0.999: mail that is sure either way may become more sure. Where
    ``by_people`` is ``SPAM_MARGIN`` above ``spam_threshold``, a P(spam), the result reaches the threshold too.
    """
    start = probability(by_people)
    stays_spam = spam_threshold < 1 and _logit(start) >= _logit(spam_threshold) + SPAM_MARGIN

    def is_allowed(log_odds: float) -> bool:
        shifted = probability(log_odds)
        if stays_spam and shifted < spam_threshold:
            return False
        return abs(_sure_logit(shifted) - _sure_logit(start)) <= MAX_SHIFT - _ROUNDING

    if is_allowed(by_both):
        return by_both
    inside, outside = by_people, by_both
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if is_allowed(middle):
            inside = middle
        else:
            outside = middle
    return inside


def limit_probability(by_people: float, by_both: float, spam_threshold: float = math.inf) -> float:
    """Return the P(spam) nearest to ``by_both`` that automatic learning may lead to, as ``limit_log_odds`` says.

    Both have the discount of mail unlike learned spam, which automatic lessons change too.
    """
    if spam_threshold < 1 and _logit(by_people) >= _logit(spam_threshold) + SPAM_MARGIN:
        by_both = max(by_both, spam_threshold)
    shift, limit = _sure_logit(by_both) - _sure_logit(by_people), MAX_SHIFT - _ROUNDING
    if abs(shift) <= limit:
        return by_both
    return sigmoid(_sure_logit(by_people) + math.copysign(limit, shift))


def _sure_logit(probability: float) -> float:
    return max(-_SURE, min(_SURE, _logit(probability)))


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))
