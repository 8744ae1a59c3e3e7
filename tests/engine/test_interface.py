"""What both sides of the native library number alike is in its interface: another number is another interface."""

from __future__ import annotations

import re
from pathlib import Path

from nbstream.engine import table
from nbstream.tokens.native_tokenizer import Question

ROOT = Path(__file__).parent.parent.parent
INTERFACE = (ROOT / "nbstream" / "engine" / "interface.h").read_text()


def test_rust_python_and_the_interface_number_the_questions_alike() -> None:
    rust = (ROOT / "native" / "src" / "foreign.rs").read_text()
    in_rust = {name.lower(): int(number) for name, number in re.findall(r"^    (\w+) = (\d+),$", rust, re.M)}
    in_interface = {name: int(number) for name, number in re.findall(r"^    NBN_(\w+) = (\d+),$", INTERFACE, re.M)}

    assert in_interface == {question.name: question.value for question in Question}
    assert in_rust == {name.replace("_", "").lower(): number for name, number in in_interface.items()}


def test_rust_python_and_the_interface_find_the_epoch_of_a_table_at_the_same_place() -> None:
    layout = (ROOT / "native" / "src" / "table" / "layout.rs").read_text()
    (word,) = re.findall(r"const AT_COMMITTED: usize = (\d+);", layout)
    (offset,) = re.findall(r"^#define NBN_TABLE_COMMITTED_OFFSET (\d+)$", INTERFACE, re.M)

    assert int(offset) == table._COMMITTED_OFFSET == 8 * int(word)


def test_rust_python_and_the_interface_give_a_row_of_a_table_as_many_bytes() -> None:
    layout = (ROOT / "native" / "src" / "table" / "layout.rs").read_text()
    (words,) = re.findall(r"const ROW_WORDS: usize = (\d+);", layout)
    (row_bytes,) = re.findall(r"^#define NBN_TABLE_ROW_BYTES (\d+)$", INTERFACE, re.M)

    assert int(row_bytes) == table.ROW_BYTES == 8 * int(words)
