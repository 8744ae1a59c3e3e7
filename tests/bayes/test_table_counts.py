"""What the counts in a table do that others do not: they are copied into larger tables, and may get no memory."""

from __future__ import annotations

import errno
import os
import random
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from nbstream.bayes.counts import NO_CHANGE, ChangePosition, ClassCounts, CountsChange, Totals
from nbstream.bayes.table_counts import TableCounts
from nbstream.engine.table import Memory, Table, TableFailure
from tests.engine.native import table_functions


class Memories:
    """Gives memory ``left`` times; what it gave can be looked at as another process would."""

    def __init__(self, left: int = 1000) -> None:
        self.left = left
        self.reserved_bytes = 0
        self.given: list[LimitedMemory] = []
        self.published: list[LimitedMemory] = []

    def make(self, size: int) -> LimitedMemory:
        self.given.append(LimitedMemory(size, self))
        return self.given[-1]


class LimitedMemory(Memory):
    """Memory that may not be there where it is reserved."""

    def __init__(self, size: int, memories: Memories) -> None:
        super().__init__(size)
        self._memories = memories

    def reserve(self, start: int, end: int) -> None:
        self._memories.reserved_bytes += end - start
        self._memories.left -= 1
        if self._memories.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def publish(self) -> None:
        self._memories.published.append(self)


def lesson(draw: random.Random, sequence: int) -> CountsChange:
    """A change of 40 of 20,000 tokens, one of five with a long name; some are forgotten."""
    tokens = [b"token %d%s" % (n, b" of a long name" * (n % 5 == 0)) for n in draw.sample(range(20_000), k=40)]
    columns = [(column, np.array(draw.choices(range(3), k=40))) for column in (0, 1)]
    return CountsChange(
        tokens, columns, Totals((sequence, 1), (5, 5), 7), ChangePosition(5, 0, sequence), NO_CHANGE
    )


def contents(counts: ClassCounts | TableCounts) -> dict[bytes, tuple[int, ...]]:
    names, rows = counts.snapshot()
    return {name: tuple(row) for name, row in zip(names, rows.tolist(), strict=True)}


def test_counts_are_the_same_after_each_of_many_changes_in_which_tables_were_copied() -> None:
    draw, memories = random.Random(18), Memories()
    counts, expected = TableCounts.empty(table_functions(), memories.make), ClassCounts()
    for sequence in range(1, 1500):
        change = lesson(draw, sequence)
        counts.apply(change)
        expected.apply(change)
        assert counts.look_up(change.tokens).tolist() == expected.look_up(change.tokens).tolist()
        assert (len(counts), counts.position) == (len(expected), expected.position)
        if sequence % 100 == 0:
            assert contents(counts) == contents(expected)
    assert len(memories.given) > 4
    assert not memories.published


def test_each_table_is_published_when_all_is_copied_into_it() -> None:
    functions, memories, draw = table_functions(), Memories(), random.Random(1)
    counts = TableCounts.empty(functions, memories.make, identity=(7, 8))
    counts.publish()
    for sequence in range(1, 150):
        counts.apply(lesson(draw, sequence))
        seen = Table(functions, memories.published[-1]).describe()
        assert (seen.position[2], seen.names, seen.identity) == (sequence, len(counts), (7, 8))
    assert len(memories.published) > 2


def test_while_a_table_grows_each_change_does_a_bounded_part_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is counted, not its time: rows that are copied, and bytes that the kernel has to clear."""
    functions, memories, copied, tokens = table_functions(), Memories(), 0, 300
    counts = TableCounts.empty(functions, memories.make, tokens=200_000)
    copy_rows = functions.copy_rows

    def count_rows(source: int, target: int, first: int, rows: int) -> int:
        nonlocal copied
        copied += rows
        return int(copy_rows(source, target, first, rows))

    monkeypatch.setattr(functions, "copy_rows", count_rows)
    for sequence in range(1, 1500):
        names = [b"%d of %d" % (n, sequence) for n in range(tokens)]
        rows = [(0, np.ones(tokens, np.int64))]
        place = ChangePosition(5, 0, sequence)
        copied = memories.reserved_bytes = 0
        counts.apply(CountsChange(names, rows, Totals((0, 0), (0, 0), tokens * sequence), place, place))
        assert copied <= 2 * 8 * tokens  # twice where the next rows have to be reserved first
        assert memories.reserved_bytes <= 4 << 20
    assert len(memories.given) > 3
    assert len(counts) == 1499 * tokens


def test_short_names_reserve_no_memory_for_long_ones() -> None:
    memories, tokens = Memories(), 50_000
    counts = TableCounts.empty(table_functions(), memories.make, tokens=tokens)
    rows = np.ones((100, 2), np.int64)
    for first in range(0, tokens, 100):
        counts.set_counts([b"token %d" % n for n in range(first, first + 100)], rows)
    described = counts.table.describe()
    assert described.long_names_used == 0
    assert memories.reserved_bytes <= described.bytes_used + (2 << 20)


def test_one_change_may_be_larger_than_the_table() -> None:
    counts = TableCounts.empty(table_functions())
    names = [b"%d %s" % (n, b"x" * 100) for n in range(20_000)]
    rows = np.arange(40_000).reshape(-1, 2) + 1
    counts.set_counts(names, rows)
    assert (counts.look_up(names) == rows).all()


@pytest.mark.parametrize("left", range(3, 16))
def test_where_no_memory_is_given_a_change_is_whole_or_not_there(left: int) -> None:
    functions, memories, draw = table_functions(), Memories(left), random.Random(3)
    counts, expected = TableCounts.empty(functions, memories.make), ClassCounts()
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):  # noqa: PT012 - any of the changes may be the one
        for sequence in range(1, 10_000):
            change = lesson(draw, sequence)
            counts.apply(change)
            expected.apply(change)
    if counts.position != expected.position:
        expected.apply(change)
    assert contents(counts) == contents(expected)
    assert counts.totals == expected.totals


def test_counts_are_taken_over_without_the_change_that_was_not_ended() -> None:
    functions, memories = table_functions(), Memories()
    counts = TableCounts.empty(functions, memories.make)
    counts.set_counts([b"a"], np.array([[1, 2]]))
    counts.publish()
    counts.table.begin()
    counts.table.set_counts(b"a\nb", np.array([[9, 9], [9, 9]]))

    successor = TableCounts.take_over(functions, memories.make, memories.published[-1])

    assert contents(successor) == {b"a": (1, 2)}
    successor.set_counts([b"b"], np.array([[3, 3]]))
    assert contents(successor) == {b"a": (1, 2), b"b": (3, 3)}


def test_names_and_their_number_must_agree() -> None:
    counts = TableCounts.empty(table_functions())
    with pytest.raises(ValueError, match="do not fit"):
        counts.look_up([b"a\nb"])


def test_memory_of_this_process_asks_for_huge_pages() -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage").exists():
        pytest.skip("this kernel has no huge pages")
    memory = Memory(8 << 20)
    first = np.frombuffer(memory.buffer, np.uint8).ctypes.data
    mappings = re.findall(
        r"^([0-9a-f]+)-([0-9a-f]+) .*?^VmFlags: (.*?)$",
        Path("/proc/self/smaps").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    flags = [flags.split() for start, end, flags in mappings if int(start, 16) <= first < int(end, 16)]
    assert ["hg" in each for each in flags] == [True]


def test_memory_without_a_table_is_refused() -> None:
    with pytest.raises(TableFailure, match="no table"):
        Table(table_functions(), Memory(4096))


def test_a_change_that_is_committed_and_was_never_begun_is_damage() -> None:
    counts = TableCounts.empty(table_functions())
    counts.apply(lesson(random.Random(1), 1))
    buffer = counts.table.memory.buffer
    buffer[64:72] = (1 << 40).to_bytes(8, "little")  # what was committed

    for read in (counts.snapshot, lambda: counts.totals, lambda: counts.look_up_with_totals([b"token 1"])):
        with pytest.raises(TableFailure):
            read()


def test_whatever_is_overwritten_gives_counts_or_an_error() -> None:
    """Numbers of a damaged header neither ask for absurd memory nor let a change go on for ever."""
    draw = random.Random(18)
    for _ in range(150):
        counts = TableCounts.empty(table_functions())
        for sequence in range(1, 5):
            counts.apply(lesson(draw, sequence))
        buffer = counts.table.memory.buffer
        for _ in range(draw.choice([1, 1, 3, 30])):
            at = 8 * draw.randrange(draw.choice([16, 64, 64, len(buffer) // 8]))
            buffer[at : at + 8] = draw.choice(
                [bytes(8), b"\xff" * 8, draw.randbytes(8), bytes([draw.randrange(256), 4] + [0] * 6)]
            )

        with suppress(TableFailure):
            counts.snapshot()
        with suppress(TableFailure):
            assert len(counts) >= counts.distinct_tokens >= 0
        with suppress(TableFailure):
            assert counts.look_up([b"token 1", b"token 5 of a long name", b"none"]).shape == (3, 2)
        with suppress(TableFailure):
            for sequence in range(5, 30):
                counts.apply(lesson(draw, sequence))
