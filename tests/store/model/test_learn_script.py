"""How lessons are packed for ``learn.lua``."""

from __future__ import annotations

import pytest

from nbstream.store.model.history import history_fields
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.scripts import (
    MAX_BATCH_COUNTS,
    MAX_BATCH_LESSONS,
    Lesson,
    LessonBatch,
)
from tests.harness.lessons import NOTE, TOKENS, entry


def new_lesson(message_key: str, new: LedgerEntry) -> Lesson:
    return Lesson(message_key, None, new, NOTE)


def test_a_lesson_is_packed_with_the_fields_of_its_record_and_of_its_new_entry() -> None:
    new, removal = entry("spam", TOKENS), Lesson("m", entry("ham", TOKENS), None, NOTE)
    learned = new_lesson("m", new)

    assert learned.note_fields == history_fields(new, NOTE, learned.attempt)
    assert learned.packed_entry == new.pack()
    assert removal.packed_entry == {}


def long_entry(first: int, tokens: int) -> LedgerEntry:
    return entry("ham", [b"token%d" % n for n in range(first, first + tokens)])


@pytest.mark.parametrize(
    ("entries", "sizes"),
    [
        ([entry("spam", TOKENS)] * (2 * MAX_BATCH_LESSONS + 1), [MAX_BATCH_LESSONS, MAX_BATCH_LESSONS, 1]),
        ([long_entry(0, 2000)] * 6, [6]),
        ([long_entry(2000 * n, 2000) for n in range(7)], [3, 3, 1]),
        ([long_entry(0, MAX_BATCH_COUNTS + 1), *[entry("spam", TOKENS)] * 3], [1, 3]),
    ],
    ids=["many", "of the same tokens", "of other tokens", "of too many tokens"],
)
def test_batches_are_bounded_by_the_number_of_lessons_and_by_the_counts_that_they_change(
    entries: list[LedgerEntry], sizes: list[int]
) -> None:
    batches = [LessonBatch()]
    for n, new in enumerate(entries):
        lesson = new_lesson(f"m{n}", new)
        if not batches[-1].has_room(lesson):
            batches.append(LessonBatch())
        batches[-1].add(lesson)

    assert [len(batch.lessons) for batch in batches] == sizes
