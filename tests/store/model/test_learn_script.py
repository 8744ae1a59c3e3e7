"""The caller of ``learn.lua`` and the script itself name the same keys and arguments in the same order."""

from __future__ import annotations

import re

import pytest

from nbstream.bayes.counts import CLASSES
from nbstream.store.lua import lua_script
from nbstream.store.model.history import history_fields
from nbstream.store.model.keys import ModelKeys, RetentionLimits
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.scripts import (
    MAX_BATCH_COUNTS,
    MAX_BATCH_LESSONS,
    ClassArguments,
    LearnScriptArguments,
    LearnScriptKeys,
    LessonArguments,
    LessonBatch,
    LessonCommit,
    pack_names,
)
from tests.store.lessons import TOKENS, entry
from tests.store.notes import NOTE

SCRIPT = re.sub(r"--.*", "", lua_script("learn.lua"))
LIMITS = RetentionLimits(1000, 2, 3, 4)


def unpacked_names(source: str) -> list[str]:
    """The names that the script gives to some values of KEYS or ARGV, in order."""
    (names,) = re.findall(rf"local ([\w\s,]+?)\s*= unpack\({re.escape(source)}\)", SCRIPT)
    return re.findall(r"\w+", names)


def new_lesson(message_key: str, new: LedgerEntry) -> LessonCommit:
    return LessonCommit(message_key, None, new, NOTE)


def test_the_script_names_the_keys_as_its_caller_does() -> None:
    names = list(LearnScriptKeys._fields)
    assert unpacked_names(f"KEYS, 1, {len(names)}") == names


def test_the_script_names_the_arguments_as_its_caller_does() -> None:
    names = list(LearnScriptArguments._fields)
    assert unpacked_names(f"ARGV, 1, {len(names)}") == names
    assert f"next_argument = {{}}, {len(names) + 1}\n" in SCRIPT


@pytest.mark.parametrize("arguments", [ClassArguments, LessonArguments])
def test_the_script_names_the_arguments_of_classes_and_lessons_as_its_caller_does(
    arguments: type[ClassArguments | LessonArguments],
) -> None:
    names = list(arguments._fields)
    assert unpacked_names(f"ARGV, next_argument, next_argument + {len(names) - 1}") == names


@pytest.mark.parametrize("table", ["KEYS", "ARGV"])
def test_the_script_reads_no_key_and_no_argument_by_a_number(table: str) -> None:
    assert not re.findall(rf"{table}\[\d+\]", SCRIPT)


def test_the_keys_of_the_classes_and_of_the_messages_follow_the_named_keys() -> None:
    keys, batch = ModelKeys("test"), LessonBatch(new_lesson(f"m{n}", entry("spam", TOKENS)) for n in range(2))

    assert batch.pack_keys(keys)[len(LearnScriptKeys._fields) :] == [
        *keys.counts,
        *keys.prequential_scores,
        keys.ledger("m0"),
        keys.ledger("m1"),
    ]


def test_the_arguments_of_the_classes_and_of_the_lessons_follow_the_named_arguments() -> None:
    new = [entry("spam", TOKENS[:n], weight=n, sums=[(b"=x", 7)]) for n in (1, 3)]
    batch = LessonBatch(new_lesson(f"m{n}", of_one) for n, of_one in enumerate(new))

    arguments = iter(batch.pack_arguments(LIMITS))

    named = LearnScriptArguments._make(next(arguments) for _ in LearnScriptArguments._fields)
    classes = {label: ClassArguments._make(next(arguments) for _ in ClassArguments._fields) for label in CLASSES}
    lessons = []
    for _ in new:
        lessons.append(LessonArguments._make(next(arguments) for _ in LessonArguments._fields))
        note = [next(arguments) for _ in range(lessons[-1].history_length)]
        packed = [next(arguments) for _ in range(lessons[-1].entry_length)]
        lesson = batch.lessons[len(lessons) - 1]
        assert (note, packed) == (lesson.note_fields, lesson.entry_fields)
    assert next(arguments, None) is None
    names = [*TOKENS[:3], b"=x"]
    assert (named.names, named.packed_names) == (
        b"".join(b"%b\0" % name for name in names),
        pack_names(b"\n".join(names)),
    )
    assert (named.name_count, named.token_count) == (4, 3)
    assert (named.lesson_count, named.max_changes) == (2, LIMITS.max_changes)
    assert classes["ham"] == (b"", 0, 0)
    assert (classes["spam"].messages, classes["spam"].weight) == (2, 1 * 1 + 3 * 3)
    assert classes["spam"].additions == b"\xdd\0\0\0\4" + b"".join(
        b"\xd3" + amount.to_bytes(8, "big", signed=True) for amount in (4, 3, 3, 14)
    )
    assert [lesson.new_column for lesson in lessons] == [CLASSES.index("spam") + 1] * 2


def test_a_lesson_is_packed_with_the_fields_of_its_record_and_of_its_new_entry() -> None:
    new, removal = entry("spam", TOKENS), LessonCommit("m", entry("ham", TOKENS), None, NOTE)
    learned = new_lesson("m", new)

    assert learned.note_fields == history_fields(new, NOTE, learned.attempt)
    assert dict(zip(learned.entry_fields[0::2], learned.entry_fields[1::2], strict=True)) == new.pack()
    assert removal.entry_fields == []


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
