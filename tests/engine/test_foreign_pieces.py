"""The questions of the native library have the same numbers on both sides: the interface does not list them."""

from __future__ import annotations

import re
from pathlib import Path

from nbstream.tokens.foreign_pieces import Question

RUST = Path(__file__).parent.parent.parent / "native" / "src" / "foreign.rs"


def test_rust_and_python_number_the_questions_alike() -> None:
    numbers = {
        name.lower(): int(number) for name, number in re.findall(r"^    (\w+) = (\d+),$", RUST.read_text(), re.M)
    }
    assert numbers == {question.name.replace("_", "").lower(): question.value for question in Question}
