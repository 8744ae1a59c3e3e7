"""What both sides of the native library number alike is in its interface: another number is another interface."""

from __future__ import annotations

import re
from pathlib import Path

from nbstream.tokens.native_tokenizer import Question

ROOT = Path(__file__).parent.parent.parent
INTERFACE = (ROOT / "nbstream" / "engine" / "interface.h").read_text()


def test_rust_python_and_the_interface_number_the_questions_alike() -> None:
    rust = (ROOT / "native" / "src" / "foreign.rs").read_text()
    in_rust = {name.lower(): int(number) for name, number in re.findall(r"^    (\w+) = (\d+),$", rust, re.M)}
    in_interface = {name: int(number) for name, number in re.findall(r"^    NBN_(\w+) = (\d+),$", INTERFACE, re.M)}

    assert in_interface == {question.name: question.value for question in Question}
    assert in_rust == {name.replace("_", "").lower(): number for name, number in in_interface.items()}
