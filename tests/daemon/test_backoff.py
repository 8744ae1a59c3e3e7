"""Waiting before what died is started again."""

from __future__ import annotations

from nbstream.daemon.backoff import Backoff


def test_waits_double_with_each_death_in_a_row_up_to_a_minute() -> None:
    backoff = Backoff()

    assert [backoff.seconds_after(59) for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def test_a_minute_of_life_forgives_the_deaths_before() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.seconds_after(1)

    assert [backoff.seconds_after(60), backoff.seconds_after(1)] == [0.5, 1]
