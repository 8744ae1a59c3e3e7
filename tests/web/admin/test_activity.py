"""``page.activity``: samples of the daemon's metrics become rows, and rows become steps of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.web.admin.activity import (
    MESSAGE_CLASSES,
    SAMPLE_SECONDS,
    ActivityRecorder,
    ActivityRow,
    MetricsSample,
    in_steps,
    row_between,
)

NOW = 1_800_000_000.0
COUNTS = st.dictionaries(st.sampled_from(MESSAGE_CLASSES), st.integers(0, 50))


def sample(messages: Mapping[str, int], at: float = NOW) -> MetricsSample:
    return MetricsSample(at, messages, {})


@given(st.lists(COUNTS, min_size=2, max_size=10))
def test_the_rows_of_growing_counts_add_up_to_the_last_one(increments: list[Mapping[str, int]]) -> None:
    counts = [
        sample({name: sum(each.get(name, 0) for each in increments[: n + 1]) for name in MESSAGE_CLASSES})
        for n in range(len(increments))
    ]

    rows = [row_between(before, after) for before, after in pairwise(counts)]

    for name in MESSAGE_CLASSES:
        total = sum(row.classes[name] for row in rows)
        assert counts[0].messages[name] + total == counts[-1].messages[name]


@given(COUNTS, COUNTS)
def test_no_row_is_negative_and_a_count_that_began_anew_counts_whole(
    before: Mapping[str, int], after: Mapping[str, int]
) -> None:
    row = row_between(sample(before), sample(after))

    for name, count in after.items():
        former = before.get(name, 0)
        assert row.classes[name] == (count - former if count >= former else count)


async def test_a_day_is_remembered_and_what_was_counted_since_the_last_minute_shows_too() -> None:
    metrics, now = DaemonMetrics.create(PYTHON), [NOW]
    recorder = ActivityRecorder(metrics.registry.collect, lambda: now[0])
    for _ in range(1500):
        metrics.delivery.delivered("smtp", "spam")
        now[0] += SAMPLE_SECONDS
        await recorder.record()
    metrics.delivery.delivered("smtp", "spam")

    rows = recorder.rows_until(recorder.sample())

    assert [row.messages for row in rows] == [1] * 1441
    assert rows[-1].at - rows[0].at == 1440 * SAMPLE_SECONDS


@pytest.fixture
def set_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the time zone of the daemon."""

    def set_(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield set_
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
@pytest.mark.parametrize(("seconds", "step"), [(3600, 60), (86_400, 600), (86_400, 3600)])
def test_each_row_of_the_span_is_in_the_step_that_it_begins_in(
    set_zone: Callable[[str], None], zone: str, seconds: int, step: int
) -> None:
    set_zone(zone)
    rows = [ActivityRow(NOW - 61.5 * ago, {"ham": 1, "spam": ago}) for ago in range(2000)]

    steps = in_steps(rows, NOW, seconds, step)

    assert len(steps) == seconds // step
    assert all(later.at - earlier.at == step for earlier, later in pairwise(steps))
    assert steps[-1].at <= NOW < steps[-1].at + step
    assert all(time.localtime(each.at).tm_min * 60 % min(step, 3600) == 0 for each in steps)
    for each in steps:
        inside = [row for row in rows if each.at <= int(row.at) < each.at + step]
        assert (each.classes["ham"], each.classes["spam"]) == (
            len(inside),
            sum(row.classes["spam"] for row in inside),
        )
