"""When a label that is given again is reinforced, and when it is a retry."""

from __future__ import annotations

import pytest

from nbstream.policy.feedback_source import REINFORCEMENT_PAUSE_SECONDS, FeedbackSource, Reinforcement

NEVER, AFTER_PAUSE, AT_ONCE = Reinforcement


def test_the_same_source_waits_ten_minutes() -> None:
    source = FeedbackSource("smtp", "ann", AFTER_PAUSE)

    waits = [
        source.seconds_until_reinforcing("smtp", "ann", seconds) for seconds in (0.0, 150.0, 599.0, 600.0, 1e9)
    ]

    assert REINFORCEMENT_PAUSE_SECONDS == 600
    assert waits == [600.0, 450.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("last", [("http", "ann"), ("smtp", "bob")])
def test_another_source_and_another_actor_may_reinforce_at_once(last: tuple[str, str]) -> None:
    assert FeedbackSource("smtp", "ann", AFTER_PAUSE).seconds_until_reinforcing(*last, 0.0) == 0


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_whoever_says_so_may_reinforce_at_once_and_bulk_never(seconds: float) -> None:
    assert FeedbackSource("cli", "user ann", AT_ONCE).seconds_until_reinforcing("cli", "user ann", seconds) == 0
    assert FeedbackSource("cli", "user ann", NEVER).seconds_until_reinforcing("smtp", "bob", seconds) is None


def test_a_source_never_reinforces_unless_it_says_so() -> None:
    assert FeedbackSource("stream", "shop").reinforcement is NEVER


def test_a_lesson_of_a_machine_whose_clock_is_ahead_is_waited_for_no_longer_than_ten_minutes() -> None:
    assert FeedbackSource("smtp", "ann", AFTER_PAUSE).seconds_until_reinforcing("smtp", "ann", -600.0) == 600


def test_a_time_that_is_further_ahead_is_taken_for_unknown_and_holds_up_nobody() -> None:
    assert FeedbackSource("smtp", "ann", AFTER_PAUSE).seconds_until_reinforcing("smtp", "ann", -601.0) == 0
