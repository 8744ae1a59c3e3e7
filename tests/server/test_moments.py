"""``nbstream.server.moments``."""

from __future__ import annotations

from datetime import datetime

import pytest

from nbstream.server.moments import parse_moment


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("2h", 7200), ("3d", 259_200), ("0m", 0)])
def test_an_age_counts_from_now(text: str, seconds: int) -> None:
    assert parse_moment(text, 1e9) == 1e9 - seconds


def test_a_time_is_local_unless_it_has_an_offset() -> None:
    assert parse_moment("2026-01-31T12:00+01:00", 0) == 1769857200
    local = datetime(2026, 1, 31, 12).astimezone().timestamp()
    assert parse_moment("2026-01-31T12:00", 0) == parse_moment("2026-01-31 12:00", 0) == local


@pytest.mark.parametrize(
    "text", ["999999d", "0001-02-03T00:00+00:00", "1970-01-01T00:00+01:00", "9999-12-31T23:59-12:00"]
)
def test_each_moment_can_be_said_as_a_time(text: str) -> None:
    moment = parse_moment(text, 1e9)

    assert parse_moment(datetime.fromtimestamp(moment).astimezone().isoformat(), 1e9) == moment >= 0


@pytest.mark.parametrize("text", ["", "2", "2w", "-2h", "9999999h", "tomorrow", "0001-01-01", "9" * 500])
def test_anything_else_is_an_error_that_says_what_is_wanted(text: str) -> None:
    with pytest.raises(ValueError, match="is none of 30m, 2h, 3d"):
        parse_moment(text, 0)
