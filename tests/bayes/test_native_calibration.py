"""The native library gives the same probability as Python, to the last bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.calibration import PROBABILITY_BOUNDS, SCORE_BINS, Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.bayes.clues import GroupTokens
from nbstream.bayes.counts import Totals
from nbstream.bayes.multinomial import TokenCounts
from nbstream.bayes.novelty import NoveltyDiscount
from nbstream.engine.score import pack_calibration
from nbstream.tokens.tokens import Tokens
from tests.bayes.test_calibration import COUNTS, MESSAGES, Labels
from tests.bayes.test_novelty import LIKE, NEW, NOTHING, after
from tests.harness.native import native_library

HEAD = [name + b":%d" % n for name in (b"subject", b"type", b"from", b"date", b"field", b"x") for n in range(4)]
BODY = [b"body:%d" % n for n in range(8)]
ROW = st.sampled_from([(0, 0), (0, 1000), (0, 4000), (0, 60_000), (1000, 0), (2000, 3000)])


@given(COUNTS, MESSAGES, st.floats(-1e3, 1e3) | st.floats(allow_nan=False, allow_infinity=False))
def test_the_probability_is_the_same(counts: Labels, messages: tuple[int, int], log_odds: float) -> None:
    totals = Totals(messages)
    expected = Calibration().probability(log_odds, counts, totals)
    assert Calibration(library=native_library()).probability(log_odds, counts, totals) == expected


@given(
    st.lists(ROW, min_size=len(HEAD + BODY), max_size=len(HEAD + BODY)),
    COUNTS,
    MESSAGES,
    st.lists(st.sampled_from([LIKE, NEW, GroupTokens((4,) * 4, (4,) * 4)]), max_size=30),
)
def test_the_probability_of_a_score_and_its_discount_are_the_same(
    rows: list[tuple[int, int]], labels: Labels, messages: tuple[int, int], lessons: list[GroupTokens]
) -> None:
    tokens, totals, sums = Tokens(HEAD, BODY), Totals(messages, (10**6, 10**6), 1000), after(NOTHING, lessons)
    sums[: len(SCORE_BINS)] += labels
    calibration, novelty, library = Calibration(), NoveltyDiscount(), native_library()
    pairs, divisor = calibration.pairs(sums), calibration.divisor(totals)
    packed = pack_calibration(pairs, divisor, PROBABILITY_BOUNDS, novelty.of_spam(sums))

    score = Classifier(library).score(tokens, TokenCounts(np.array(rows), totals), calibration=packed)

    full = calibration.probability(score.log_odds, sums, totals)
    expected = full, full, score.log_odds, 0.0
    if full > 0.5 and (discount := novelty.discount(score, sums)):
        left = calibration.probability(discount.log_odds, sums, totals)
        expected = max(0.5, min(full, left)), full, discount.log_odds, discount.deviations
    assert score.likelihood == expected
