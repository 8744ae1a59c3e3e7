"""The measures, against counting by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nbstream.evaluation import measures

Flags = NDArray[np.bool_]
Numbers = NDArray[np.float64]

# Few different scores, so that many are equal.
scored = st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=1, max_size=40)


def arrays(pairs: list[tuple[bool, int]]) -> tuple[Flags, Numbers]:
    return np.array([spam for spam, _ in pairs]), np.array([float(score) for _, score in pairs])


def scores_by_class(pairs: list[tuple[bool, int]]) -> tuple[list[int], list[int]]:
    """The scores of ham, and of spam."""
    return [score for spam, score in pairs if not spam], [score for spam, score in pairs if spam]


@given(scored)
def test_one_minus_auc_is_the_share_of_pairs_in_the_wrong_order(pairs: list[tuple[bool, int]]) -> None:
    hams, spams = scores_by_class(pairs)

    percent = measures.one_minus_auc_percent(*arrays(pairs))

    if not hams or not spams:
        assert percent is None
        return
    wrong = sum((ham > spam) + (ham == spam) / 2 for ham in hams for spam in spams)
    assert percent == 100 * wrong / (len(hams) * len(spams))


@given(scored, st.sampled_from([0.0, 0.1, 0.29, 0.5, 0.9]))
def test_fn_at_fp_is_the_miss_rate_of_the_lowest_permitted_threshold(
    pairs: list[tuple[bool, int]], rate: float
) -> None:
    hams, spams = scores_by_class(pairs)

    percent = measures.fn_at_fp_percent(*arrays(pairs), rate)

    if not hams or not spams:
        assert percent is None
        return
    allowed = math.floor(round(rate * len(hams), 6))
    thresholds = [*sorted({*hams, *spams}), math.inf]
    lowest = next(candidate for candidate in thresholds if sum(ham >= candidate for ham in hams) <= allowed)
    assert percent == 100 * sum(spam < lowest for spam in spams) / len(spams)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_hm_and_sm_are_shares_of_their_own_class(cases: list[tuple[bool, bool]]) -> None:
    is_spam = np.array([spam for spam, _ in cases], dtype=np.bool_)
    called_spam = np.array([called_spam for _, called_spam in cases], dtype=np.bool_)
    hams, spams = [c for spam, c in cases if not spam], [c for spam, c in cases if spam]

    assert measures.hm_percent(is_spam, called_spam) == (100 * sum(hams) / len(hams) if hams else None)
    assert measures.sm_percent(is_spam, called_spam) == (
        100 * (len(spams) - sum(spams)) / len(spams) if spams else None
    )


def verdicts(hams: int, lost: int, spams: int, missed: int) -> tuple[Flags, Flags]:
    is_spam = np.array([False] * hams + [True] * spams)
    called_spam = np.array([True] * lost + [False] * (hams - lost) + [False] * missed + [True] * (spams - missed))
    return is_spam, called_spam


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.1, 0.2, 0.5, 0.9])), min_size=1, max_size=60))
def test_calibration_error_does_not_depend_on_the_order_of_the_stream(cases: list[tuple[bool, float]]) -> None:
    by_probability = sorted(cases)

    values = [
        measures.expected_calibration_error(
            np.array([s for s, _ in candidate]), np.array([p for _, p in candidate])
        )
        for candidate in (cases, by_probability, by_probability[::-1])
    ]

    assert values[0] == pytest.approx(values[1])
    assert values[0] == pytest.approx(values[2])


def test_calibration_error_of_distinct_probabilities_is_the_mean_over_equal_bins() -> None:
    probability = np.array([0.01, 0.03, 0.20, 0.40, 0.60, 0.98])
    is_spam = np.array([False, False, True, False, True, True])

    # Pairs: means 0.02, 0.30, 0.79; shares of spam 0, 1/2, 1.
    expected = (0.02 + 0.20 + 0.21) / 3
    assert measures.expected_calibration_error(is_spam, probability, bins=3) == pytest.approx(expected)


def test_without_messages_every_measure_is_undefined() -> None:
    none, no_scores = np.array([], dtype=np.bool_), np.array([], dtype=np.float64)

    assert measures.one_minus_auc_percent(none, no_scores) is None
    assert measures.fn_at_fp_percent(none, no_scores, 0.001) is None
    assert measures.hm_percent(none, none) is None
    assert measures.sm_percent(none, none) is None
    assert measures.lam_percent(none, none) is None
    assert measures.expected_calibration_error(none, no_scores) is None
