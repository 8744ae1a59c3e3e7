"""The caller of ``learn.lua`` and the script itself name the same keys and arguments in the same order."""

from __future__ import annotations

import re

import pytest

from nbstream.bayes.counts import CLASSES
from nbstream.store.lua import lua_script
from nbstream.store.model.history import history_fields
from nbstream.store.model.keys import ModelKeys
from nbstream.store.model.learn_script import (
    LearnScriptArguments,
    LearnScriptKeys,
    LessonCommit,
    pack_arguments,
    pack_keys,
)
from nbstream.store.model.retention import RetentionLimits
from tests.store.lessons import TOKENS, entry
from tests.store.notes import NOTE

SCRIPT = re.sub(r"--.*", "", lua_script("learn.lua"))


def unpacked_names(table: str) -> list[str]:
    """The names that the script gives to the values of KEYS or ARGV, in order."""
    (names,) = re.findall(rf"local ([\w\s,]+?)\s*= unpack\({table}\)", SCRIPT)
    return re.findall(r"\w+", names)


def test_the_script_names_the_keys_as_its_caller_does() -> None:
    assert unpacked_names("KEYS") == list(LearnScriptKeys._fields)


def test_the_script_names_the_arguments_as_its_caller_does() -> None:
    assert unpacked_names("ARGV") == list(LearnScriptArguments._fields)


@pytest.mark.parametrize("table", ["KEYS", "ARGV"])
def test_the_script_reads_no_key_and_no_argument_by_a_number(table: str) -> None:
    assert not re.findall(rf"{table}\[\d+\]", SCRIPT)


def test_the_keys_of_the_classes_follow_the_named_keys() -> None:
    keys = ModelKeys("test")

    assert pack_keys(keys, "m1")[len(LearnScriptKeys._fields) :] == [*keys.counts, *keys.first_scores]


def test_the_fields_of_the_record_and_of_the_new_entry_follow_the_named_arguments() -> None:
    new, limits = entry("spam", TOKENS, sums=[(b"=x", 7)]), RetentionLimits(1, 2, 3, 4)

    packed = pack_arguments(lesson := LessonCommit("m1", None, new, NOTE), limits)

    named = LearnScriptArguments._make(packed[: len(LearnScriptArguments._fields)])
    fields = packed[len(LearnScriptArguments._fields) :]
    assert (named.old_column, named.new_column) == (0, CLASSES.index("spam") + 1)
    assert fields[: named.history_length] == history_fields(new, NOTE, lesson.attempt)
    assert fields[named.history_length :] == [item for field in new.pack().items() for item in field]
    assert len(fields) == named.history_length + named.entry_length
