import random
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.counts import CLASSES, WEIGHT_ONE, Counts, Totals

TOKENS = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), unique=True, max_size=5)
LEARNED = st.tuples(TOKENS, st.integers(0, len(CLASSES) - 1), st.integers(0, WEIGHT_ONE))


def state(counts: Counts) -> tuple[list[list[int]], Totals, int]:
    return counts.look_up([b"a", b"b", b"c", b"d", b"e"]).tolist(), counts.totals, len(counts)


def test_an_unknown_token_has_no_counts() -> None:
    assert Counts().look_up([b"a", b"b"]).tolist() == [[0, 0], [0, 0]]
    assert Counts().look_up([]).shape == (0, 2)


def test_adding_counts_tokens_messages_and_vocabulary() -> None:
    counts = Counts()
    counts.add([b"a", b"b"], 1, 300)
    counts.add([b"b"], 0, 1000)
    assert counts.look_up([b"a", b"b", b"c"]).tolist() == [[0, 300], [1000, 300], [0, 0]]
    assert counts.totals == Totals(messages=(1, 1), tokens=(1000, 600), vocabulary=2)


def test_a_learn_of_weight_zero_counts_the_message_and_keeps_no_token() -> None:
    counts = Counts()
    counts.add([b"a"], 0, 0)
    assert counts.totals == Totals(messages=(1, 0), tokens=(0, 0), vocabulary=0)
    assert len(counts) == 0


@given(st.lists(LEARNED, max_size=10), LEARNED)
def test_subtracting_undoes_adding_exactly(
    before: list[tuple[list[bytes], int, int]], one: tuple[list[bytes], int, int]
) -> None:
    counts = Counts()
    for learned in before:
        counts.add(*learned)
    expected = state(counts)
    counts.add(*one)
    counts.subtract(*one)
    assert state(counts) == expected


@given(st.lists(LEARNED, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_order_makes_no_difference_even_through_negative_counts(
    learned: list[tuple[list[bytes], int, int]], chance: random.Random
) -> None:
    changes = [(Counts.add, each) for each in learned] + [(Counts.subtract, each) for each in learned[1:]]
    chance.shuffle(changes)
    counts, expected = Counts(), Counts()
    for change, each in changes:
        change(counts, *each)
    expected.add(*learned[0])
    assert state(counts) == state(expected)


def test_put_column_sets_one_class_and_leaves_the_others() -> None:
    counts = Counts()
    counts.put([b"a", b"b"], np.array([[1, 2], [0, 4]]))

    counts.put_column([b"a", b"b", b"c"], 1, np.array([9, 0, 5]))

    assert counts.look_up([b"a", b"b", b"c"]).tolist() == [[1, 9], [0, 0], [0, 5]]
    assert len(counts) == 2


def test_put_sets_counts_forgets_rows_of_zeros_and_leaves_totals() -> None:
    counts = Counts()
    counts.put([b"a", b"b"], np.array([[1, 2], [3, -4]]))
    counts.put([b"a", b"c"], np.array([[0, 0], [5, 0]]))
    assert counts.look_up([b"a", b"b", b"c"]).tolist() == [[0, 0], [3, -4], [5, 0]]
    assert len(counts) == 2
    assert counts.totals == Totals()


def test_a_forgotten_tokens_place_is_used_again_and_clean() -> None:
    counts = Counts()
    for n in range(5000):
        counts.put([b"%d" % n], np.array([[1, 1]]))
        counts.put([b"%d" % n], np.array([[0, 0]]))
    counts.put([b"x"], np.array([[7, 0]]))
    assert len(counts) == 1
    assert counts.look_up([b"x", b"4999"]).tolist() == [[7, 0], [0, 0]]


def test_many_tokens_keep_their_counts_while_the_table_grows() -> None:
    counts = Counts()
    tokens = [b"token:%d" % n for n in range(10_000)]
    rows = np.arange(20_000).reshape(-1, 2) + 1
    counts.put(tokens, rows)
    assert (counts.look_up(tokens) == rows).all()


def test_a_look_up_is_a_copy() -> None:
    counts = Counts()
    counts.add([b"a"], 0, 5)
    counts.look_up([b"a", b"z"])[:] = 99
    assert counts.look_up([b"a", b"z"]).tolist() == [[5, 0], [0, 0]]


def test_totals_are_set_as_a_whole() -> None:
    counts = Counts()
    counts.totals = Totals((1, 2), (3, 4), 5)
    assert counts.totals.vocabulary == 5


def test_more_than_two_classes_are_counted() -> None:
    counts = Counts(classes=4)
    counts.add([b"a"], 3, 10)
    assert counts.look_up([b"a"]).tolist() == [[0, 0, 0, 10]]
    assert counts.totals.messages == (0, 0, 0, 1)


def test_a_token_takes_at_most_two_hundred_bytes() -> None:
    counts, n = Counts(), 100_000
    tokens = [b"from:%d.mail.example" % i for i in range(n)]
    counts.put(tokens, np.ones((n, 2), dtype=np.int64))
    index = counts._rows
    held = sys.getsizeof(index) + sum(map(sys.getsizeof, index)) + sum(map(sys.getsizeof, index.values()))
    assert (held + counts._counts.nbytes) / n <= 200
