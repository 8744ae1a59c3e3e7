"""The recent messages' P(spam) before their first label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.first_scores import First, FirstScores, Window

FIRSTS = st.builds(
    First,
    st.floats(0, 2e9),
    st.text("abcdefghij234567", min_size=1, max_size=24),
    st.floats(0, 1),
    st.lists(st.tuples(st.floats(1e-6, 0.5), st.booleans()), max_size=2).map(tuple),
)


@given(FIRSTS)
def test_a_first_score_comes_back_as_it_was(first: First) -> None:
    assert First.unpack(first.pack()) == first


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
        First.unpack(packed)


def window(*firsts: First) -> Window:
    found = Window()
    for first in firsts:
        found.add(first.pack())
    return found


@given(st.lists(FIRSTS, max_size=30), st.integers(0, 30))
def test_what_is_taken_out_was_never_there(firsts: list[First], count: int) -> None:
    kept, gone = firsts[:count], [each for each in firsts[count:] if each not in firsts[:count]]
    found = window(*firsts)
    for each in gone:
        found.remove(each.pack())
        found.remove(each.pack())

    same = window(*kept)
    assert (found.kept(), list(found.ascending), found.recent()) == (
        same.kept(),
        list(same.ascending),
        same.recent(),
    )
    rates = [rate for each in firsts for rate, _ in each.budgets]
    assert all(found.spent(rate) == same.spent(rate) for rate in rates)
    assert all(found.credit(rate, 1.0) == same.credit(rate, 1.0) for rate in rates)


CALLED = st.builds(
    First,
    st.integers(0, 40).map(float),
    st.text("abc", min_size=1, max_size=3),
    st.just(0.5),
    st.sampled_from([(), ((0.3, False),), ((0.3, True),), ((0.1, True), (0.3, False))]),
)


@given(st.lists(CALLED, max_size=60, unique_by=lambda first: first.pack()), st.floats(0, 5))
def test_the_credit_is_that_of_each_ham_in_the_order_of_time_and_never_above_the_most(
    firsts: list[First], most: float
) -> None:
    credit = 0.0
    for first in sorted(firsts, key=lambda first: (first.at, first.pack())):
        for rate, spam in first.budgets:
            if rate == 0.3:
                credit = min(most, credit + 0.3 - spam)

    assert window(*firsts).credit(0.3, most) == pytest.approx(credit, abs=1e-9)
    assert window(*firsts).credit(0.2, most) == 0


@given(st.lists(FIRSTS, max_size=30, unique_by=lambda first: first.pack()), st.integers(1, 40))
def test_the_oldest_go(firsts: list[First], count: int) -> None:
    found, copy = window(*firsts), window(*firsts)
    in_order = sorted(firsts, key=lambda first: (first.at, first.pack()))

    oldest = found.keep(count)
    if oldest is not None:
        copy.drop_before(oldest)

    assert (oldest is None) == (len(firsts) <= count)
    assert found.kept() == copy.kept() == in_order[-count:]
    assert list(found.ascending) == sorted(first.probability for first in in_order[-count:])


def test_scores_are_told_in_the_order_of_time() -> None:
    found = FirstScores()
    found["spam"].add(First(2.0, "b", 0.9).pack())
    found["ham"].add(First(3.0, "c", 0.2).pack())
    found["ham"].add(First(1.0, "a", 0.1).pack())

    assert found.ordered() == [(1.0, "ham", 0.1), (2.0, "spam", 0.9), (3.0, "ham", 0.2)]
    assert found.probabilities("ham").tolist() == [0.1, 0.2]
    assert found["ham"].recent(1) == [0.2]
