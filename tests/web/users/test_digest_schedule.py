"""``nbstream.web.users.digests``: due times in the time zone of the machine, over changes of its clocks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.web.users.digests import last_due

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(autouse=True, scope="module")
def berlin() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-11-28 07:00:00", "2026-11-28 07:00"),
        ("2026-11-28 06:59:59", "2026-11-27 07:00"),
        ("2026-11-28 23:59:59", "2026-11-28 07:00"),
        ("2026-01-01 00:00:00", "2025-12-31 07:00"),
        ("2026-03-29 12:00:00", "2026-03-29 07:00"),  # the clocks went forward in that night
        ("2026-10-25 06:59:00", "2026-10-24 07:00"),  # and back
    ],
)
def test_a_digest_is_due_at_7_in_the_morning(now: str, due: str) -> None:
    assert last_due(at(now)) == at(due)


@given(st.integers(0, 2**32))
def test_what_is_due_is_past_and_not_older_than_a_day(now: int) -> None:
    due = last_due(now)
    assert due <= now < due + 86_400 + 3600 + 1
    assert last_due(due) == due
