"""Novelty: what is taken back of a message that is unlike learned spam."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.classifier import Classifier
from nbstream.bayes.clues import GroupTokens, Score, TokenClues
from nbstream.bayes.counts import WEIGHT_ONE, ClassCounts, is_sum
from nbstream.bayes.multinomial import SPAM, TokenCounts
from nbstream.bayes.novelty import CHECK_SUMS, NOVELTY_SUMS, NoveltyDiscount
from nbstream.tokens.tokens import Tokens
from tests.harness.counted_clues import packed_clues
from tests.harness.native import native_library

NOTHING: NDArray[np.int64] = np.zeros((len(CHECK_SUMS), 2), np.int64)
LIKE = GroupTokens((20,) * 4, (20,) * 4)
NEW = GroupTokens((20,) * 4, (2,) * 4)


def after(sums: NDArray[np.int64], lessons: Sequence[GroupTokens], sign: int = 1) -> NDArray[np.int64]:
    """The sums once these spam were learned, each with sums by ``NOTHING``."""
    result = sums.copy()
    for tokens in lessons:
        result[len(SCORE_BINS) - 1, SPAM] += sign * WEIGHT_ONE
        for name, amount in NoveltyDiscount().lesson_sums(tokens, NOTHING):
            result[CHECK_SUMS.index(name), SPAM] += sign * amount
    return result


def scored(text: float, rest: float, tokens: GroupTokens = NEW, prior: float = 0.0) -> Score:
    """A score whose clues from words and whose other clues add up to these log-ratios."""
    counts = ClassCounts()
    counts.add([b"body:offer", b"from:a"], "spam", WEIGHT_ONE)
    names = Tokens([b"from:a"], [b"body:offer"])
    clues = TokenClues(names, packed_clues([0, 1], [rest, text], [(0, 1), (0, 1)], 2))
    return Score(prior + text + rest, clues, prior, tokens)


def test_the_names_are_those_of_sums() -> None:
    assert all(map(is_sum, NOVELTY_SUMS))
    assert len(set(CHECK_SUMS)) == len(CHECK_SUMS)


def test_what_is_like_learned_spam_loses_nothing() -> None:
    sums = after(NOTHING, [LIKE] * 100)

    assert NoveltyDiscount().discount(scored(10, 10, LIKE), sums) is None


def test_what_is_unlike_learned_spam_loses_more_of_its_header_than_of_its_words() -> None:
    discount = NoveltyDiscount().discount(scored(10, 10), after(NOTHING, [LIKE] * 100))

    assert discount is not None
    z = discount.deviations
    assert discount.log_odds == pytest.approx(10 * math.exp(-0.1 * z) + 10 * math.exp(-0.6 * z))
    assert discount.taken_back == pytest.approx(20 - discount.log_odds)
    assert discount.new_groups()[0] == ("structure", 20, 2)


@given(
    st.floats(-100, 100),
    st.floats(-100, 100),
    st.lists(st.integers(0, 500), min_size=4, max_size=4),
    st.lists(st.integers(0, 500), min_size=4, max_size=4),
    st.lists(st.sampled_from([LIKE, NEW]), max_size=30),
)
def test_a_score_stays_between_zero_and_itself(
    text: float, rest: float, present: list[int], in_spam: list[int], lessons: list[GroupTokens]
) -> None:
    tokens = GroupTokens(tuple(present), tuple(map(min, in_spam, present)))
    discount = NoveltyDiscount().discount(scored(text, rest, tokens), after(NOTHING, lessons))

    assert discount is None or 0 <= discount.log_odds <= discount.full_log_odds == text + rest


@given(st.lists(st.sampled_from([LIKE, NEW]), max_size=20), st.lists(st.sampled_from([LIKE, NEW]), max_size=20))
def test_what_is_taken_back_leaves_no_trace(kept: list[GroupTokens], undone: list[GroupTokens]) -> None:
    sums = after(after(after(NOTHING, kept), undone), undone, -1)

    assert (sums == after(NOTHING, kept)).all()


def test_fields_that_a_sender_adds_count_up_to_half_of_what_spam_has() -> None:
    sums = after(NOTHING, [LIKE] * 100)
    some, many = (GroupTokens((20, 20, 20, 20 + n), (20,) * 4) for n in (10, 1000))

    discounts = [NoveltyDiscount().discount(scored(10, 10, tokens), sums) for tokens in (some, many)]
    assert discounts[0] == discounts[1] or None not in discounts
    assert [discount and discount.log_odds for discount in discounts[:1]] == [
        discount and discount.log_odds for discount in discounts[1:]
    ]


@pytest.mark.parametrize("own", [False, True])
def test_both_engines_count_the_same_tokens(own: bool) -> None:
    head = [b"from:a@b.example", b"received:mx", b"order:to>from", b"to.shape:a", b"type:text/html", b"x-field:y"]
    counts, below = ClassCounts(), ClassCounts()
    counts.add([*head[:2], b"body:offer"], "spam", WEIGHT_ONE)
    counts.add(head[2:], "ham", WEIGHT_ONE)
    below.add([head[3]], "spam", WEIGHT_ONE)
    tokens = Tokens(head, [b"body:offer"], [b"raw:_To:"])
    of_message = TokenCounts(counts.look_up(tokens.all), counts.totals)
    levels = [TokenCounts(below.look_up(tokens.all), below.totals)] if own else []

    python, native = (
        Classifier(library).score(tokens, of_message, levels) for library in (None, native_library())
    )

    assert python.group_tokens == native.group_tokens == GroupTokens((1, 2, 1, 1), (0, 2, int(own), 0))
