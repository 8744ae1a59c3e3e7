"""Both engines give the same keys, tokens, clues, scores and verdicts. ``make soak`` compares many more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from nbstream.engine.choice import PYTHON
from nbstream.tokens.native_tokenizer import make_tokenizer
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from tests.engine import engine_pair, identity
from tests.engine.compared_mail import mutated_mail
from tests.engine.engine_pair import where_they_differ
from tests.engine.native import native_library
from tests.engine.valgrind import library_errors


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 8))])
def test_the_engines_agree_on_mutated_mail(seed: int) -> None:
    native_library()
    report = identity.compare(mutated_mail(800, seed), seed)
    assert (report.messages, report.differences, report.panics) == (800, [], [])


def test_a_difference_is_found_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that is another one after all: it makes fewer tokens."""
    other = replace(PYTHON, reason="another")

    made = []  # in turn those of one engine and of the other

    def make(options: TokenizerOptions, library: Any) -> Tokenizer:
        made.append(options)
        is_other = len(made) > len(engine_pair.SETTINGS)
        return make_tokenizer(
            replace(options, max_tokens=options.max_tokens // 4) if is_other else options, library
        )

    monkeypatch.setattr(engine_pair, "make_tokenizer", make)
    long = ("long", b"Subject: hello\n\n" + b" ".join(b"word%d" % n for n in range(3000)))
    report = identity.compare([long, ("short", b"Subject: hello\n\nhow are you")], seed=1, engine=other)

    assert [difference.name.partition(",")[0] for difference in report.differences] == ["long"]
    (difference,) = report.differences
    assert difference.what == "sizes"
    assert difference.python != difference.native


def test_a_panic_of_the_library_is_an_error() -> None:
    def messages() -> Iterator[tuple[str, bytes]]:
        os.write(2, b"something else\nthread '<unnamed>' panicked at src/lib.rs:1:2:\n")
        yield "one", b"Subject: hello\n\nhow are you"

    report = identity.compare(messages(), seed=1, engine=PYTHON)

    assert (report.differences, report.panics) == ([], ["thread '<unnamed>' panicked at src/lib.rs:1:2:"])
    assert not report.is_clean


def test_the_first_token_that_differs_is_shown() -> None:
    python, native = where_they_differ(b"a\nb\nc\nd", b"a\nb\nx\nd")
    assert (python, native) == ("2: [b'c', b'd']", "2: [b'x', b'd']")
    assert where_they_differ(b"a", b"a\nb")[1] == "1: [b'b']"


def test_errors_of_valgrind_count_where_the_library_has_a_part() -> None:
    log = (
        "==7== Invalid read of size 8\n==7==    at 0x1: list_dealloc (listobject.c:1)\n==7== \n"
        "==7== Invalid read of size 1\n==7==    at 0x2: look_up (table.rs:12)\n==7== \n"
    )
    assert [error.splitlines()[0] for error in library_errors(log)] == ["Invalid read of size 1"]
