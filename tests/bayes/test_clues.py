import math
import random
from typing import TypeAlias

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.clues import Clue, TokenClues, strongest_indices
from nbstream.tokens.tokens import Tokens
from tests.harness.counted_clues import packed_clues

Vote: TypeAlias = tuple[float, bytes]

# Few different ratios, so that many are equal.
VOTES = st.lists(
    st.tuples(st.sampled_from([-5.0, -1.0, -0.0, 0.0, 1.0, 2.5]), st.integers(0, 99)),
    unique_by=lambda vote: vote[1],
).map(lambda votes: [(ratio, b"token:%d" % n) for ratio, n in votes])


def strongest_of(votes: list[Vote], limit: int) -> list[Vote]:
    """From ham to spam."""
    indices = strongest_indices([name for _, name in votes], np.array([ratio for ratio, _ in votes]), limit)
    return sorted(votes[index] for index in indices)


def test_what_says_nothing_is_no_clue_and_what_says_the_least_is_one() -> None:
    least = math.ulp(0.0)
    assert strongest_of([(0.0, b"a"), (-0.0, b"b"), (least, b"c"), (-least, b"d")], 4) == [
        (-least, b"d"),
        (least, b"c"),
    ]


@given(VOTES, st.integers(0, 8))
def test_they_are_the_ends_of_all_votes_in_order(votes: list[Vote], limit: int) -> None:
    ordered = sorted(votes)
    hams = [vote for vote in ordered if vote[0] < 0]
    spams = [vote for vote in ordered if vote[0] > 0]
    assert strongest_of(votes, limit) == hams[:limit] + spams[max(0, len(spams) - limit) :]


@given(VOTES, st.integers(0, 8), st.randoms(use_true_random=False))
def test_which_are_chosen_does_not_depend_on_the_order_of_looking_up(
    votes: list[Vote], limit: int, generator: random.Random
) -> None:
    expected = strongest_of(votes, limit)
    generator.shuffle(votes)
    assert strongest_of(votes, limit) == expected


@given(VOTES, st.integers(0, 3), st.integers(-5, 20), st.integers(-5, 20))
def test_some_of_the_clues_are_those_of_all_of_them(votes: list[Vote], others: int, first: int, end: int) -> None:
    """Some of them are no tokens."""
    ratios, names = [ratio for ratio, _ in votes][others:], [name for _, name in votes][others:]
    no_tokens = tuple(Clue(name, ratio) for ratio, name in votes[:others])

    def clues() -> TokenClues:
        packed = packed_clues(list(range(len(names))), ratios, [(0, 0)] * len(names), len(names))
        return TokenClues(Tokens((), names), packed, (), no_tokens)

    everything = tuple(clues())

    assert everything == tuple(Clue(name, ratio) for ratio, name in sorted_by_strength(votes))
    assert clues()[first:end] == everything[first:end]
    assert clues()[:first] == everything[:first]


def sorted_by_strength(votes: list[Vote]) -> list[Vote]:
    """All, those that say nothing too."""
    return sorted(votes, key=lambda vote: (-abs(vote[0]), vote[1]))
