"""``nbstream.wire.moments``."""

from __future__ import annotations

from datetime import datetime

import pytest

from nbstream.wire.moments import parse_moment


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("2h", 7200), ("3d", 259_200), ("0m", 0)])
def test_an_age_counts_from_now(text: str, seconds: int) -> None:
    assert parse_moment(text, 1e9) == 1e9 - seconds


def test_a_time_is_local_unless_it_has_an_offset() -> None:
    assert parse_moment("2026-01-31T12:00+01:00", 0) == 1769857200
    local = datetime(2026, 1, 31, 12).astimezone().timestamp()
    assert parse_moment("2026-01-31T12:00", 0) == parse_moment("2026-01-31 12:00", 0) == local


@pytest.mark.parametrize("text", ["", "2", "2w", "-2h", "9999999h", "tomorrow", "0001-01-01", "9" * 500])
def test_anything_else_is_an_error_that_says_what_is_wanted(text: str) -> None:
    with pytest.raises(ValueError, match="is none of 30m, 2h, 3d"):
        parse_moment(text, 0)
