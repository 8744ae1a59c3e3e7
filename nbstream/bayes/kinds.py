"""The kinds of ham: which of the classes other than spam a message most probably belongs to.

Rules: pure; nothing here changes P(spam). A kind is a column of the model like ham and spam, and a
lesson adds to one column. The score of a message takes all that is not spam for ham, see ``bayes.counts``. So all
that learns, unlearns, moves or mends lessons is exact for kinds without knowing them.

The probability of a kind is that of a multinomial naive Bayes among the kinds, as in ``multinomial``. The
strongest clues vote. The constants were chosen on one corpus alone; see docs/experiments.md, "Kinds of ham".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbstream.bayes.clues import Clue
from nbstream.bayes.columns import PLAIN
from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.bayes.multinomial import elementwise
from nbstream.numpy_on_demand import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals
    from nbstream.tokens.tokens import Tokens

MIN_MESSAGES = 20
"""A kind that has learned fewer messages takes no part: it has no probability yet."""

_ALPHA = 0.01  # as that of ``multinomial``, but a kind has fewer messages than ham, and a larger one favours it
_MAX_CLUES = 30
_TEMPERATURE = 32.0  # nats of the clues that count as one: words come together


@dataclass(frozen=True, slots=True)
class KindScores:
    """How probable each kind is for a message that is not spam.

    ``probabilities`` are those of the kinds that have learned enough, and sum to 1; the most probable is the
    first. ``clues`` are the tokens that voted for and against each of these, the strongest first, with their
    log-ratios in nats. ``missing`` is how many messages each of the other kinds still has to learn.
    """

    probabilities: Mapping[str, float] = field(default_factory=dict)
    clues: Mapping[str, Sequence[Clue]] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def kind(self) -> str | None:
        """The most probable kind; None while fewer than two kinds have learned enough."""
        return next(iter(self.probabilities), None)


class KindClassifier:
    """Says of which of ``kinds`` a message is; ``PLAIN`` is one of them."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = (PLAIN, *(kind for kind in kinds if kind != PLAIN))

    def score(self, tokens: Tokens, rows: NDArray[np.int64], totals: Totals) -> KindScores:
        """Return the probability of each kind.

        ``rows`` are the counts of the tokens in each of the columns of ``totals``, shape (tokens, columns).

        The score of a kind is the sum over the tokens that vote of ln P(token | kind), less the mean of that
        over the kinds; P(token | kind) is smoothed as in ``token_log_ratios``. Tokens that no kind has seen do
        not vote.
        """
        learned = dict(zip(totals.columns, totals.messages, strict=True))
        missing = {kind: lacking for kind in self.kinds if (lacking := MIN_MESSAGES - learned.get(kind, 0)) > 0}
        ready = [kind for kind in self.kinds if kind not in missing]
        if len(ready) < 2:
            return KindScores(missing=missing)
        places = [totals.columns.index(kind) for kind in ready]
        pseudo = _ALPHA * max(totals.vocabulary_size, 1)
        weights = np.array([[max(totals.token_weights[place], 0)] for place in places])
        counts = np.maximum(rows[:, places].T, 0)
        seen = np.flatnonzero(counts.max(axis=0) > 0).tolist()
        shares = (counts[:, seen] / WEIGHT_ONE + _ALPHA) / (weights / WEIGHT_ONE + pseudo)
        log_shares = elementwise(math.log, shares)
        ratios = log_shares - log_shares.sum(axis=0) / len(ready)
        strongest = _strongest(np.abs(ratios).max(axis=0), tokens.all.at(seen))
        scores = [math.fsum(ratios[row, strongest].tolist()) / _TEMPERATURE for row in range(len(ready))]
        odds = [math.exp(score - max(scores)) for score in scores]
        total = math.fsum(odds)
        order = sorted(range(len(ready)), key=lambda row: (-scores[row], ready[row]))
        return KindScores(
            {ready[row]: odds[row] / total for row in order},
            {ready[row]: _clues(tokens, seen, ratios[row], strongest) for row in order},
            missing,
        )


def _strongest(strengths: NDArray[np.float64], tokens: Sequence[bytes]) -> list[int]:
    """Return the numbers of the strongest tokens, the strongest first; of equal ones the first by name."""
    candidates: Sequence[int] = range(len(tokens))
    if len(tokens) > _MAX_CLUES:
        weakest = np.partition(strengths, -_MAX_CLUES)[-_MAX_CLUES]
        candidates = np.flatnonzero(strengths >= weakest).tolist()
    return sorted(candidates, key=lambda i: (-strengths[i], tokens[i]))[:_MAX_CLUES]


def _clues(
    tokens: Tokens, seen: Sequence[int], ratios: NDArray[np.float64], voting: Sequence[int]
) -> tuple[Clue, ...]:
    words = tokens.shown.at([seen[i] for i in voting])
    votes = [Clue(word, float(ratios[i])) for word, i in zip(words, voting, strict=True)]
    return tuple(sorted(votes, key=lambda clue: (-abs(clue.log_ratio), clue.token)))
