import random
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import WEIGHT_ONE, ClassCounts, Counts, Sums, Totals, is_sum
from nbstream.bayes.table_counts import TableCounts
from tests.harness.native import native_library

# The last one begins like a sum and is a token: it is made from a header field whose name begins so.
NAMES = [b"a", b"b", b"c", b"d", b"=d:e"]
SUM_NAMES = [b"=x", b"=y", b"=z"]
TOKENS = st.lists(st.sampled_from(NAMES), unique=True, max_size=5)
SUMS = st.lists(
    st.tuples(st.sampled_from(SUM_NAMES), st.integers(-5, 10**9)),
    unique_by=lambda named_amount: named_amount[0],
    max_size=3,
)
COLUMNS = (*CLASSES, "newsletter")
LEARNED = st.tuples(TOKENS, st.sampled_from(COLUMNS), st.integers(0, WEIGHT_ONE), SUMS)
Learned = tuple[list[bytes], str, int, Sums]


MakeCounts = Callable[[], Counts]


@pytest.fixture(params=["python", "native"], scope="module")
def make_counts(request: pytest.FixtureRequest) -> MakeCounts:
    """Counts of both engines: whatever holds for one holds for the other."""
    if request.param == "python":
        return ClassCounts
    library = native_library()
    return lambda: TableCounts(library)


def state(counts: Counts) -> tuple[list[list[int]], Totals, int]:
    return counts.look_up([*NAMES, *SUM_NAMES]).tolist(), counts.totals, len(counts)


def test_adding_counts_tokens_messages_and_vocabulary(make_counts: MakeCounts) -> None:
    counts = make_counts()
    counts.add([b"a", b"b"], "spam", 300)
    counts.add([b"b"], "ham", 1000)
    assert counts.look_up([b"a", b"b", b"c"]).tolist() == [[0, 300], [1000, 300], [0, 0]]
    assert counts.totals == Totals(messages=(1, 1), token_weights=(1000, 600), vocabulary_size=2)


def test_a_learn_of_weight_zero_counts_the_message_and_keeps_no_token(make_counts: MakeCounts) -> None:
    counts = make_counts()
    counts.add([b"a"], "ham", 0)
    assert counts.totals == Totals(messages=(1, 0), token_weights=(0, 0), vocabulary_size=0)
    assert len(counts) == 0


@given(st.lists(LEARNED, max_size=10), LEARNED)
def test_subtracting_undoes_adding_exactly(make_counts: MakeCounts, before: list[Learned], one: Learned) -> None:
    counts = make_counts()
    for learned in before:
        counts.add(*learned)
    expected = state(counts)
    counts.add(*one)
    counts.subtract(*one)
    assert state(counts) == expected


@given(st.lists(LEARNED, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_order_makes_no_difference_even_through_negative_counts(
    make_counts: MakeCounts, learned: list[Learned], generator: random.Random
) -> None:
    changes = [(Counts.add, lesson) for lesson in learned] + [(Counts.subtract, lesson) for lesson in learned[1:]]
    generator.shuffle(changes)
    counts, expected = make_counts(), make_counts()
    for change, lesson in changes:
        change(counts, *lesson)
    expected.add(*learned[0])
    assert state(counts) == state(expected)


def test_set_column_sets_one_class_and_leaves_the_others(make_counts: MakeCounts) -> None:
    counts = make_counts()
    counts.set_counts([b"a", b"b"], np.array([[1, 2], [0, 4]]))

    counts.set_column([b"a", b"b", b"c"], "spam", np.array([9, 0, 5]))

    assert counts.look_up([b"a", b"b", b"c"]).tolist() == [[1, 9], [0, 0], [0, 5]]
    assert len(counts) == 2


def test_set_counts_sets_counts_forgets_rows_of_zeros_and_leaves_totals(make_counts: MakeCounts) -> None:
    counts = make_counts()
    counts.set_counts([b"a", b"b"], np.array([[1, 2], [3, -4]]))
    counts.set_counts([b"a", b"c"], np.array([[0, 0], [5, 0]]))
    assert counts.look_up([b"a", b"b", b"c"]).tolist() == [[0, 0], [3, -4], [5, 0]]
    assert len(counts) == 2
    assert counts.totals == Totals()


PUT = st.dictionaries(st.sampled_from([*NAMES, *SUM_NAMES]), st.tuples(st.integers(-2, 2), st.integers(0, 2)))


@given(st.lists(PUT, max_size=8))
def test_names_are_added_and_removed_as_in_a_dictionary(
    make_counts: MakeCounts, puts: list[dict[bytes, tuple[int, int]]]
) -> None:
    counts, expected = make_counts(), dict[bytes, tuple[int, int]]()
    for put in puts:
        counts.set_counts(list(put), np.array(list(put.values()), np.int64).reshape(-1, 2))
        expected = {name: row for name, row in (expected | put).items() if row != (0, 0)}
        assert {
            name: tuple(row) for name, row in zip(counts.snapshot()[0], counts.snapshot()[1].tolist(), strict=True)
        } == expected
        assert counts.distinct_tokens == sum(not is_sum(name) for name in expected)


def test_one_call_fills_freed_rows_and_enlarges_the_table(make_counts: MakeCounts) -> None:
    counts = make_counts()
    tokens = [b"token:%d" % n for n in range(5000)]
    counts.set_counts(tokens[:900], np.ones((900, 2), np.int64))
    counts.set_counts(tokens[:500], np.zeros((500, 2), np.int64))
    rows = np.arange(9000).reshape(-1, 2) + 1
    counts.set_counts(tokens[500:], rows)
    assert (counts.look_up(tokens[500:]) == rows).all()
    assert not counts.look_up(tokens[:500]).any()


def test_a_kind_is_a_column_that_counts_for_ham(make_counts: MakeCounts) -> None:
    counts = make_counts()
    counts.add([b"a", b"b"], "ham", 10)
    counts.add([b"a"], "spam", 5)
    counts.add([b"a", b"c"], "newsletter", 7, [(b"=x", 3)])

    assert counts.look_up([b"a", b"b", b"c", b"=x"]).tolist() == [[17, 5], [10, 0], [7, 0], [3, 0]]
    assert counts.look_up_columns([b"a", b"c"]).tolist() == [[10, 5, 7], [0, 0, 7]]
    assert counts.totals == Totals((2, 1), (34, 5), 3)
    assert counts.column_totals == Totals((1, 1, 1), (20, 5, 14), 3, COLUMNS)
    assert counts.snapshot()[1].sum() == counts.snapshot_columns()[1].sum() == 42


@given(st.lists(LEARNED, max_size=10))
def test_a_model_with_kinds_scores_as_one_that_knows_them_as_ham(
    make_counts: MakeCounts, learned: list[Learned]
) -> None:
    counts, plain = make_counts(), make_counts()
    for tokens, column, weight, sums in learned:
        counts.add(tokens, column, weight, sums)
        plain.add(tokens, "spam" if column == "spam" else "ham", weight, sums)
    assert state(counts)[:2] == state(plain)[:2]


def test_a_token_takes_at_most_two_hundred_bytes() -> None:
    counts, n = ClassCounts(), 100_000
    tokens = [b"from:%d.mail.example" % i for i in range(n)]
    counts.set_counts(tokens, np.ones((n, 2), dtype=np.int64))
    index = counts._rows
    index_bytes = sys.getsizeof(index) + sum(map(sys.getsizeof, index)) + sum(map(sys.getsizeof, index.values()))
    assert (index_bytes + counts._counts.nbytes) / n <= 200


# Sums


def test_sums_are_counted_beside_the_tokens_by_amounts_of_their_own(make_counts: MakeCounts) -> None:
    counts = make_counts()
    counts.add([b"a"], "spam", 300, [(b"=x", 300), (b"=y", 90_000)])
    counts.add([b"a", b"b"], "ham", 1000, [(b"=x", 1000)])
    assert counts.look_up([b"=x", b"=y", b"=z"]).tolist() == [[1000, 300], [0, 90_000], [0, 0]]
    assert counts.look_up([b"a", b"b"]).tolist() == [[1000, 300], [1000, 0]]


@given(st.lists(LEARNED, max_size=8))
def test_sums_belong_neither_to_the_totals_nor_to_the_vocabulary(
    make_counts: MakeCounts, learned: list[Learned]
) -> None:
    counts, without = make_counts(), make_counts()
    for tokens, column, weight, sums in learned:
        counts.add(tokens, column, weight, sums)
        without.add(tokens, column, weight)
    assert counts.totals == without.totals
    assert sorted(counts.tokens()) == sorted(without.tokens())


@pytest.mark.parametrize(
    ("name", "expected"),
    [(b"=x", True), (b"=", True), (b"=type=text/plain", True), (b"=x:y", False), (b"x", False), (b"a=b", False)],
)
def test_a_sum_begins_with_the_mark_and_has_no_colon(name: bytes, expected: bool) -> None:
    assert is_sum(name) is expected


# The vocabulary


@given(st.lists(LEARNED, max_size=8))
def test_the_vocabulary_is_all_tokens_that_count(make_counts: MakeCounts, learned: list[Learned]) -> None:
    counts = make_counts()
    for lesson in learned:
        counts.add(*lesson)
    for lesson in learned[1::2]:
        counts.subtract(*lesson)
    present = [name for name in NAMES if counts.look_up([name]).any()]
    assert sorted(counts.tokens()) == sorted(present)
    assert counts.totals.vocabulary_size == len(present)


def test_sums_are_the_very_same_array_until_a_count_changes(make_counts: MakeCounts) -> None:
    counts, names = make_counts(), (b"=x", b"=y")
    counts.add([b"t:a"], "ham", 5, [(b"=x", 5)])
    sums = counts.sums(names)
    assert counts.sums((b"=y",)).tolist() == [[0, 0]]
    assert counts.sums(names) is sums
    counts.add([b"t:a"], "spam", 7, [(b"=y", 3)])
    assert counts.sums(names).tolist() == [[5, 0], [0, 3]]
    assert sums.tolist() == [[5, 0], [0, 0]]
