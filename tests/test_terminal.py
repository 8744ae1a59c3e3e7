"""Times as commands print them."""

from __future__ import annotations

from datetime import datetime

import pytest

from nbstream.terminal import local_time


def test_a_time_has_its_offset() -> None:
    assert datetime.fromisoformat(local_time(1_700_000_000.9)).timestamp() == 1_700_000_000


@pytest.mark.parametrize("number", [1e12, 1e30, -1e30, float("nan"), float("inf")])
def test_a_number_that_is_no_time_is_a_dash(number: float) -> None:
    assert local_time(number) == "-"
