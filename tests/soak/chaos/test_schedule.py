"""The schedule of a chaos run: a pure function of its seed."""

from __future__ import annotations

import pytest

from tests.soak.chaos.schedule import TRAITS, Kind, plan


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert plan(7, 60.0, 50, list(Kind)) == plan(7, 60.0, 50, list(reversed(Kind)))


def test_another_seed_gives_another_schedule() -> None:
    assert plan(7, 60.0, 50, list(Kind)) != plan(8, 60.0, 50, list(Kind))


@pytest.mark.parametrize("seed", range(5))
def test_events_are_in_order_within_the_run(seed: int) -> None:
    events = plan(seed, 60.0, 100, list(Kind))

    assert [event.number for event in events] == list(range(100))
    assert sorted(events, key=lambda event: event.at) == list(events)
    assert 0.0 <= events[0].at < 1.0
    assert events[-1].at <= 60.0


def test_each_kind_comes_before_any_comes_twice() -> None:
    kinds = [event.kind for event in plan(7, 60.0, 2 * len(Kind), list(Kind))]

    assert set(kinds[: len(Kind)]) == set(kinds[len(Kind) :]) == set(Kind)


def test_every_event_has_a_target_and_a_time_of_its_kind() -> None:
    for event in plan(7, 600.0, 1000, list(Kind)):
        shortest, longest = TRAITS[event.kind].seconds
        assert event.target in TRAITS[event.kind].targets
        assert shortest <= event.seconds <= longest


def test_only_the_given_kinds_come() -> None:
    kinds = {Kind.RELOAD, Kind.CUT_LINK}

    assert {event.kind for event in plan(7, 60.0, 10, kinds)} == kinds
