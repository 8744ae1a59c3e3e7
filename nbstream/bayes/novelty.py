"""Novelty: how much of a message's header and structure no learned spam has had, and what that takes back.

Naive Bayes adds up what it knows and says nothing of what it does not know. Ham of a kind that was never taught,
such as a first newsletter, shares its markup with spam, and all else in it is unknown: so its score is that of
spam. What tells it apart is that its senders, hosts and forms are not those of spam either.

Rules: pure. The discount only lowers a score above 0, never below 0, and never makes ham of a message. The score
itself stays as it is: ranking, lesson weights and the calibration go by it. What the discount has to know of the
past are sums of integers, which each lesson adds and takes back exactly (see ``bayes.counts``).

Four groups of tokens of the head are looked at: structure, sender, form and layout; see ``tokens.token_groups``.

- For each group g, with t tokens in the message and m tokens in the mean of learned spam, n = min(t, 1.5 m). So
  whoever adds fields of their own makes a message little newer. k is the number of those with a count above 0 in
  spam, in any model that scores the message, and at most n.
- The novelty of the message is the mean over the groups of -ln((k + 1.7) / (n + 2)).
- z is how many standard deviations it lies above the mean novelty of labelled spam, where each message counts as
  it was before its first label. Twenty messages of novelty 0.16, with deviation 0.08 and 20 tokens in each
  group, count too.
- The discounted log-odds are prior + f(text, 0.1) + f(rest, 0.6), at least 0, where f(x, a) = x exp(-a z) for x
  > 0, else x. The text are the clues from words of body and subject, the rest are all other clues.

For the choice of groups and constants, and what was tried and not chosen, see docs/experiments.md, "Mail of a
kind that was never taught".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.clues import GroupTokens
from nbstream.bayes.counts import SUM_PREFIX, WEIGHT_ONE
from nbstream.bayes.multinomial import SPAM
from nbstream.tokens.token_groups import NOVELTY_GROUPS, TEXT_PREFIXES, GroupName, novelty_group

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nbstream.bayes.clues import Score
    from nbstream.bayes.counts import Sums


_UNIT = 1_000_000  # of the sums of novelty and of its square
_MOST_TOKENS = 1.5  # of the mean of learned spam
_PRIOR_MESSAGES, _PRIOR_NOVELTY, _PRIOR_DEVIATION, _PRIOR_TOKENS = 20, 0.16, 0.08, 20
_MIN_DEVIATION = 0.05
_TEXT_RATE, _REST_RATE = 0.1, 0.6  # for each standard deviation

NOVELTY_SUMS = tuple(
    SUM_PREFIX + name
    for name in (b"novelty", b"novelty-squared", *(b"tokens-of-" + group.encode() for group in NOVELTY_GROUPS))
)
"""The names of the sums of novelty, of its square, and of the tokens of each group, over labelled messages."""

CHECK_SUMS = (*SCORE_BINS, *NOVELTY_SUMS)
"""The names of all sums that a check needs."""


def count_group_tokens(head: Sequence[bytes], rows: Sequence[NDArray[np.int64]]) -> GroupTokens:
    """Return the numbers of tokens of each group.

    ``head`` are the first tokens of the message, and ``rows`` has their counts in each model, shape (tokens,
    classes).
    """
    present, in_spam = [0] * len(NOVELTY_GROUPS), [0] * len(NOVELTY_GROUPS)
    columns = [of_model[: len(head), SPAM].tolist() for of_model in rows]
    for i, token in enumerate(head):
        group = novelty_group(token)
        if group is not None:
            present[group] += 1
            in_spam[group] += any(column[i] > 0 for column in columns)
    return GroupTokens(tuple(present), tuple(in_spam))


class Discount(NamedTuple):
    """What a message loses that is unlike learned spam.

    ``log_odds`` are those that are left, in nats, of ``full_log_odds``. ``deviations`` is how far its novelty
    lies above the mean of learned spam, in standard deviations, and ``tokens`` are what it was computed from.
    """

    log_odds: float
    full_log_odds: float
    deviations: float
    tokens: GroupTokens

    @property
    def taken_back(self) -> float:
        """How many nats are taken back."""
        return self.full_log_odds - self.log_odds

    def new_groups(self) -> list[tuple[GroupName, int, int]]:
        """Return (group, tokens, tokens known from spam) of the groups with unknown tokens, the newest first."""
        groups = [g for g in zip(NOVELTY_GROUPS, *self.tokens, strict=True) if g[2] < g[1]]
        return sorted(groups, key=lambda group: (group[2] + 1) / (group[1] + 1))


class SpamNovelty(NamedTuple):
    """The novelty of labelled spam: mean, standard deviation, and the mean tokens of each group."""

    mean: float
    deviation: float
    tokens: tuple[float, ...]


class NoveltyDiscount:
    """Discounts the evidence for spam in mail that is unlike learned spam."""

    def __init__(self) -> None:
        self._last: tuple[NDArray[np.int64], SpamNovelty] | None = None

    def discount(self, score: Score, sums: NDArray[np.int64]) -> Discount | None:
        """Return the discount of a message with this score, None where there is none.

        ``sums`` are the counts of ``CHECK_SUMS``, shape (sums, classes), and are not changed later.
        """
        if score.log_odds <= 0:
            return None
        spam = self.of_spam(sums)
        deviations = (_novelty(score.group_tokens, spam.tokens) - spam.mean) / spam.deviation
        if deviations <= 0:
            return None
        text = _text_ratio(score)
        rest = score.log_odds - score.prior - text
        left = math.fsum((score.prior, _fade(text, _TEXT_RATE * deviations), _fade(rest, _REST_RATE * deviations)))
        return Discount(max(0.0, min(score.log_odds, left)), score.log_odds, deviations, score.group_tokens)

    def lesson_sums(self, tokens: GroupTokens, sums: NDArray[np.int64]) -> Sums:
        """Return the sums that a message adds, by its tokens and the sums before its label."""
        novelty = _novelty(tokens, self.of_spam(sums).tokens)
        amounts = round(_UNIT * novelty), round(_UNIT * novelty * novelty), *tokens.present
        return [(name, amount) for name, amount in zip(NOVELTY_SUMS, amounts, strict=True) if amount]

    def of_spam(self, sums: NDArray[np.int64]) -> SpamNovelty:
        """Return the novelty of labelled spam, computed again when something was learned."""
        if self._last is None or self._last[0] is not sums:
            column: list[int] = sums[:, SPAM].tolist()
            bins, (novelty, squared, *tokens) = column[: len(SCORE_BINS)], column[len(SCORE_BINS) :]
            self._last = sums, _mean_novelty(max(0, sum(bins)) / WEIGHT_ONE, novelty, squared, tokens)
        return self._last[1]


def _mean_novelty(messages: float, novelty: int, squared: int, tokens: Sequence[int]) -> SpamNovelty:
    count = messages + _PRIOR_MESSAGES
    mean = (max(0, novelty) / _UNIT + _PRIOR_MESSAGES * _PRIOR_NOVELTY) / count
    prior_square = _PRIOR_DEVIATION**2 + _PRIOR_NOVELTY**2
    variance = (max(0, squared) / _UNIT + _PRIOR_MESSAGES * prior_square) / count - mean * mean
    return SpamNovelty(
        mean,
        math.sqrt(max(variance, _MIN_DEVIATION**2)),
        tuple((max(0, of_group) + _PRIOR_MESSAGES * _PRIOR_TOKENS) / count for of_group in tokens),
    )


def _novelty(tokens: GroupTokens, mean_tokens: Sequence[float]) -> float:
    """Return the mean over the groups of -ln((k + 1.7) / (n + 2))."""
    logarithms = []
    for present, in_spam, mean in zip(*tokens, mean_tokens, strict=True):
        n = min(present, _MOST_TOKENS * mean)
        logarithms.append(math.log((min(in_spam, n) + 1.7) / (n + 2)))
    return -math.fsum(logarithms) / len(logarithms)


def _text_ratio(score: Score) -> float:
    """Return the sum of the log-ratios of the clues from words of body and subject."""
    ratios = score.clues.ratios.tolist()
    ranked = zip(*score.clues.ranked(), strict=True)
    return math.fsum([ratios[position] for name, position in ranked if name.startswith(TEXT_PREFIXES)])


def _fade(ratio: float, exponent: float) -> float:
    return ratio * math.exp(-exponent) if ratio > 0 else ratio
