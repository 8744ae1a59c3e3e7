"""Clues as an explanation has them, made of what they say."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nbstream.bayes.clues import Clue, PackedClues, TokenClues
from nbstream.policy.check import CountedClue, CountedTokenClues
from nbstream.tokens.tokens import Tokens


def packed_clues(
    token_indices: list[int], ratios: list[float], counts: list[tuple[int, int]], n: int
) -> PackedClues:
    """The numbers of the clues of a message that has ``n`` tokens."""
    rows = np.array(counts, np.int64).reshape(-1, 2)
    return PackedClues.pack(np.array(token_indices, np.intp), rows, np.array(ratios, np.float64), n)


def counted_clues(tokens: Tokens, clues: Iterable[CountedClue]) -> CountedTokenClues:
    """The same clues among ``tokens``; those without counts are none of them."""
    indices = {token: index for index, token in enumerate(tokens.all)}
    voted = sorted((clue for clue in clues if clue.ham is not None), key=lambda clue: indices[clue.token])
    packed = packed_clues(
        [indices[clue.token] for clue in voted],
        [clue.log_ratio for clue in voted],
        [(clue.ham or 0, clue.spam or 0) for clue in voted],
        len(tokens.all),
    )
    others = tuple(Clue(clue.token, clue.log_ratio) for clue in clues if clue.ham is None)
    return CountedTokenClues(TokenClues(tokens, packed, (), others))
