"""The native library scores as Python does: the same clues in the same order, and each float to the last bit."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nbstream.bayes.classifier import Classifier, ClueLimits
from nbstream.bayes.clues import Score
from nbstream.bayes.counts import ClassCounts, Totals
from nbstream.bayes.multinomial import TokenCounts
from nbstream.bayes.table_counts import TableCounts
from nbstream.engine.score import NativeScoring, pack_options
from nbstream.tokens.tokens import Tokens
from tests.harness.native import native_library
from tests.harness.sample_models import sample_message, teach, token_counts

LIMITS = (ClueLimits(head=2, body=3, raw_header=1), ClueLimits(head=4, body=0, raw_header=2))
# Few different counts make votes that are equal, large ones are rounded when they become floats.
COUNTS = st.sampled_from([0, 0, 1000, 1000, 2000, 300, -700, 1]) | st.integers(-(2**52), 2**53)
TOTALS = st.builds(
    Totals,
    st.tuples(st.integers(-1, 60), st.integers(-1, 60)),
    st.tuples(st.integers(-10, 2**53), st.integers(-10, 2**53)),
    st.integers(-5, 2**40),
)
ROWS = st.lists(st.tuples(st.binary(max_size=3), COUNTS, COUNTS), max_size=60, unique_by=lambda row: row[0])


def classifiers(smoothing: float = 0.12, limits: ClueLimits = LIMITS[0]) -> tuple[Classifier, Classifier]:
    """One of Python alone, and one with the native library."""
    return Classifier(None, limits, smoothing), Classifier(native_library(), limits, smoothing)


def bits(score: Score) -> tuple[bytes, ...]:
    floats = struct.pack("=2d", score.log_odds, score.prior)
    return floats, score.clues.ratios.tobytes(), score.clues.token_indices.astype(np.int64).tobytes()


@example([(b"a", 0, 1000)], Totals((-1, -1), (0, 0), 1), (0, 1), 0.12, LIMITS[0])
@given(
    ROWS,
    TOTALS,
    st.tuples(st.integers(0, 60), st.integers(0, 60)),
    st.sampled_from([0.12, 1.0, 1e-9, 1e9]),
    st.sampled_from(LIMITS),
)
def test_a_score_by_given_counts_is_the_same(
    rows: list[tuple[bytes, int, int]],
    totals: Totals,
    ends: tuple[int, int],
    smoothing: float,
    limits: ClueLimits,
) -> None:
    names = [b"t:" + name.replace(b"\n", b"") + b"%d" % n for n, (name, _, _) in enumerate(rows)]
    first, second = sorted(ends)
    tokens = Tokens(names[:first], names[first:second], raw_header=names[second:])
    counts = TokenCounts(np.array([row[1:] for row in rows], np.int64).reshape(-1, 2), totals)
    python, native = classifiers(smoothing, limits)

    scored, expected = native.score(tokens, counts), python.score(tokens, counts)

    assert bits(scored) == bits(expected)
    assert scored.clues.packed == expected.clues.packed


@given(
    st.lists(st.tuples(st.binary(max_size=3), *[COUNTS] * 6), max_size=40, unique_by=lambda row: row[0]),
    TOTALS,
    st.lists(TOTALS, max_size=3),
    st.sampled_from([0.12, 1e-9, 1e9]),
)
def test_a_score_with_own_models_is_the_same(
    rows: list[tuple[bytes, int, int, int, int, int, int]],
    totals: Totals,
    own_totals: list[Totals],
    smoothing: float,
) -> None:
    tokens = Tokens((), [b"t:" + row[0].replace(b"\n", b"") + b"%d" % n for n, row in enumerate(rows)])
    columns = np.array([row[1:] for row in rows], np.int64).reshape(-1, 6)
    counts = TokenCounts(columns[:, :2], totals)
    own = [
        TokenCounts(columns[:, start : start + 2] if start else columns[:, :2] * 0, of_level)
        for start, of_level in zip((2, 4, 0), own_totals, strict=False)
    ]
    python, native = classifiers(smoothing)

    scored, expected = native.score(tokens, counts, own), python.score(tokens, counts, own)

    assert bits(scored) == bits(expected)
    assert scored.clues.own_levels == expected.clues.own_levels


def test_a_score_by_the_counts_in_a_table_is_the_same_after_each_lesson() -> None:
    python, native = classifiers()
    counts, table_counts, own = ClassCounts(), TableCounts(native_library()), ClassCounts()
    for n in range(60):
        for label in ("ham", "spam"):
            tokens = sample_message(label, n)
            for learned in (counts, table_counts):
                teach(learned, tokens, label)

            table, totals = table_counts.native_table, table_counts.totals
            scored = native.score_in_table(tokens, table, totals)

            expected = python.score(tokens, token_counts(counts, tokens))
            assert scored is not None
            assert bits(scored) == bits(expected)
            assert scored.clues.packed == expected.clues.packed

            teach(own, sample_message("spam" if label == "ham" else "ham", n), label)
            levels = (token_counts(own, tokens),)
            blended = native.score_in_table(tokens, table, totals, levels)
            assert blended is not None
            assert bits(blended) == bits(python.score(tokens, token_counts(counts, tokens), levels))
            assert bits(blended) != bits(scored)


def test_what_the_library_cannot_compute_is_left_to_python_which_says_why() -> None:
    counts = TokenCounts(np.array([[0, 2**60]]), Totals())
    for classifier in classifiers(1e-320):
        with pytest.raises(RuntimeWarning, match="overflow"):
            classifier.score(Tokens((b"t:a",), ()), counts)


def test_tokens_that_do_not_fit_their_groups_are_no_score() -> None:
    scoring, options = NativeScoring(native_library(), 6), pack_options((1, 1, 1), (0, 0), 0, 0.12, 0.0)
    table = TableCounts(native_library()).native_table
    for sizes in ((1, 0, 0), (3, 0, 0), (2**63, 2**63, 2), (2**64 - 1, 0, 0)):
        assert scoring.score_in_table(table, b"a:1\na:2", sizes, options) is None
        assert scoring.score_rows(np.ones((2, 2), np.int64), b"a:1\na:2", sizes, options) is None
    assert scoring.score_rows(np.ones((3, 2), np.int64), b"a:1\na:2", (2, 0, 0), options) is None
    assert scoring.score_in_table(table, b"a:1\na:2", (2, 0, 0), options) is not None


def test_more_clues_than_there_is_room_for_are_no_score() -> None:
    scoring, options = NativeScoring(native_library(), 1), pack_options((2, 2, 2), (1000, 1000), 2, 0.12, 0.0)
    rows, names = np.array([[1000, 0], [0, 1000]]), b"\n".join(b"a:%062d" % number for number in range(2))
    assert scoring.score_rows(rows, names, (2, 0, 0), options) is None
