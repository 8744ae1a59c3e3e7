"""The seeds and the former findings of every fuzz target, and mutations of them."""

from __future__ import annotations

import pytest

from tests.fuzz.target import load_target, target_names
from tests.harness.mutation import mutations

every_target = pytest.mark.parametrize("name", target_names())


@every_target
def test_seeds_and_former_findings(name: str) -> None:
    target = load_target(name)
    for data in (b"", *target.seeds, *target.findings):
        target.check(data)


@every_target
def test_mutations(name: str) -> None:
    target = load_target(name)
    for data in mutations(target.seeds, target.mutations, words=target.words):
        target.check(data[: target.max_bytes])
