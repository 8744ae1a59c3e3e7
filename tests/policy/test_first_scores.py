"""The recent messages' P(spam) before their first label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.first_scores import FirstScore, FirstScores, FirstScoreWindow

FIRSTS = st.builds(
    FirstScore,
    st.floats(0, 2e9),
    st.text("abcdefghij234567", min_size=1, max_size=24),
    st.floats(0, 1),
    st.lists(st.tuples(st.floats(1e-6, 0.5), st.booleans()), max_size=2).map(tuple),
)


@given(FIRSTS)
def test_a_first_score_comes_back_as_it_was(first: FirstScore) -> None:
    assert FirstScore.unpack(first.pack()) == first


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"1.0 key",
        b"now key 0.5",
        b"1.0 key 0.5 0.1",
        b"nan key 0.5",
        b"1_0 key 0.5",
        b"1e999 key 0.5",
        b"1.0 key 1.5",
        b"1.0 k\ney 0.5",
        b"1.0 key 0.5 0.1:2",
    ],
)
def test_what_is_no_first_score_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        FirstScore.unpack(packed)


def window(*firsts: FirstScore) -> FirstScoreWindow:
    found = FirstScoreWindow()
    for first in firsts:
        found.add(first.pack())
    return found


@given(st.lists(FIRSTS, max_size=30), st.integers(0, 30))
def test_what_is_taken_out_was_never_there(firsts: list[FirstScore], count: int) -> None:
    kept, gone = firsts[:count], [each for each in firsts[count:] if each not in firsts[:count]]
    found = window(*firsts)
    for each in gone:
        found.remove(each.pack())
        found.remove(each.pack())

    same = window(*kept)
    assert (found.scores(), list(found.ascending_probabilities), found.recent_probabilities()) == (
        same.scores(),
        list(same.ascending_probabilities),
        same.recent_probabilities(),
    )
    rates = [rate for each in firsts for rate, _ in each.spam_by_budget]
    assert all(found.budget_use(rate) == same.budget_use(rate) for rate in rates)
    assert all(found.budget_credit(rate, 1.0) == same.budget_credit(rate, 1.0) for rate in rates)


CALLED = st.builds(
    FirstScore,
    st.integers(0, 40).map(float),
    st.text("abc", min_size=1, max_size=3),
    st.just(0.5),
    st.sampled_from([(), ((0.3, False),), ((0.3, True),), ((0.1, True), (0.3, False))]),
)


@given(st.lists(CALLED, max_size=60, unique_by=lambda first: first.pack()), st.floats(0, 5))
def test_the_credit_is_that_of_each_ham_in_the_order_of_time_and_never_above_the_most(
    firsts: list[FirstScore], most: float
) -> None:
    credit = 0.0
    for first in sorted(firsts, key=lambda first: (first.at, first.pack())):
        for rate, spam in first.spam_by_budget:
            if rate == 0.3:
                credit = min(most, credit + 0.3 - spam)

    assert window(*firsts).budget_credit(0.3, most) == pytest.approx(credit, abs=1e-9)
    assert window(*firsts).budget_credit(0.2, most) == 0


@given(st.lists(FIRSTS, max_size=30, unique_by=lambda first: first.pack()), st.integers(1, 40))
def test_the_oldest_go(firsts: list[FirstScore], count: int) -> None:
    found, copy = window(*firsts), window(*firsts)
    in_order = sorted(firsts, key=lambda first: (first.at, first.pack()))

    oldest = found.keep_newest(count)
    if oldest is not None:
        copy.remove_before(oldest)

    assert (oldest is None) == (len(firsts) <= count)
    assert found.scores() == copy.scores() == in_order[-count:]
    assert list(found.ascending_probabilities) == sorted(first.probability for first in in_order[-count:])


def test_scores_are_told_in_the_order_of_time() -> None:
    found = FirstScores()
    found["spam"].add(FirstScore(2.0, "b", 0.9).pack())
    found["ham"].add(FirstScore(3.0, "c", 0.2).pack())
    found["ham"].add(FirstScore(1.0, "a", 0.1).pack())

    assert found.labelled_probabilities() == [(1.0, "ham", 0.1), (2.0, "spam", 0.9), (3.0, "ham", 0.2)]
    assert found.probabilities("ham").tolist() == [0.1, 0.2]
    assert found["ham"].recent_probabilities(1) == [0.2]
