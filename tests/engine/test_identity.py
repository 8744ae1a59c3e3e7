"""Both engines give the same keys, tokens, clues, scores and verdicts. ``make soak`` compares many more."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from nbstream.engine.choice import PYTHON
from tests.engine import identity
from tests.engine.compared_mail import mutated_mail
from tests.harness.native import native_library


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 8))])
def test_the_engines_agree_on_mutated_mail(seed: int) -> None:
    native_library()
    report = identity.compare(mutated_mail(400, seed), seed)
    assert (report.messages, report.differences, report.panics) == (400, [], [])


def test_a_panic_of_the_library_is_an_error() -> None:
    def messages() -> Iterator[tuple[str, bytes]]:
        os.write(2, b"something else\nthread '<unnamed>' panicked at src/lib.rs:1:2:\n")
        yield "one", b"Subject: hello\n\nhow are you"

    report = identity.compare(messages(), seed=1, engine=PYTHON)

    assert (report.differences, report.panics) == ([], ["thread '<unnamed>' panicked at src/lib.rs:1:2:"])
    assert not report.is_clean
