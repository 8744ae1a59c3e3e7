"""The result of scoring a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nbstream.tokens.token_groups import NOVELTY_GROUPS

if TYPE_CHECKING:
    from nbstream.bayes.clues import TokenClues


class GroupTokens(NamedTuple):
    """How many tokens of each of ``NOVELTY_GROUPS`` a message has, and how many of them learned spam has had."""

    present: tuple[int, ...] = (0,) * len(NOVELTY_GROUPS)
    in_spam: tuple[int, ...] = (0,) * len(NOVELTY_GROUPS)


NO_GROUP_TOKENS = GroupTokens()


class Score(NamedTuple):
    """A score: the ``log_odds`` of spam in nats, before calibration.

    ``clues`` are the features that voted, strongest first; ``prior`` is the rest of the log-odds. The prior and
    the log-ratios of all clues add up to ``log_odds``. ``group_tokens`` say how new the message is; see
    ``bayes.novelty``.

    This is a named tuple because each check makes one, and a frozen dataclass is slower to create.
    """

    log_odds: float
    clues: TokenClues
    prior: float = 0.0
    group_tokens: GroupTokens = NO_GROUP_TOKENS
