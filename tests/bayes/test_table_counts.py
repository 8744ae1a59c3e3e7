"""What the counts in a table do that others do not: they are copied into larger rows, beside changes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nbstream.bayes.counts import ClassCounts, Totals
from nbstream.bayes.table_counts import TableCounts
from tests.harness.native import native_library


def contents(counts: ClassCounts | TableCounts) -> dict[bytes, tuple[int, ...]]:
    names, rows = counts.snapshot()
    return {name: tuple(row) for name, row in zip(names, rows.tolist(), strict=True)}


def test_counts_are_the_same_after_each_of_many_changes_in_which_rows_were_copied() -> None:
    """Each change sets 40 of 20,000 tokens, one of five with a long name; some are forgotten."""
    draw, counts, expected = random.Random(18), TableCounts(native_library()), ClassCounts()
    for number in range(1, 1500):
        tokens = [b"token %d%s" % (n, b" of a long name" * (n % 5 == 0)) for n in draw.sample(range(20_000), k=40)]
        column = ("ham", "spam", *[f"kind-{n}" for n in range(number // 500)])[number % (2 + number // 500)]
        values = np.array(draw.choices(range(3), k=40))
        for each in (counts, expected):
            each.set_column(tokens, column, values)
            each.set_totals(Totals((number, 1), (5, 5), 7))
        assert counts.look_up(tokens).tolist() == expected.look_up(tokens).tolist()
        assert (len(counts), counts.totals) == (len(expected), expected.totals)
    assert contents(counts) == contents(expected)
    assert counts.look_up_columns(tokens).tolist() == expected.look_up_columns(tokens).tolist()


def test_one_change_may_be_larger_than_the_table() -> None:
    counts = TableCounts(native_library())
    names = [b"%d %s" % (n, b"x" * 100) for n in range(20_000)]
    rows = np.arange(40_000).reshape(-1, 2) + 1
    counts.set_counts(names, rows)
    assert (counts.look_up(names) == rows).all()


def test_a_table_that_could_not_be_addressed_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot have"):
        TableCounts(native_library(), 1 << 40)
