"""The seeds of the fuzzer of the stream entries, and mutations of them."""

from __future__ import annotations

import pytest

from tests.fuzz.stream import SEEDS, check
from tests.mutation import mutations


@pytest.mark.parametrize("seed", SEEDS, ids=range(len(SEEDS)))
def test_seeds(seed: bytes) -> None:
    check(seed)


def test_mutations() -> None:
    for data in mutations(SEEDS, 1000):
        check(data)
