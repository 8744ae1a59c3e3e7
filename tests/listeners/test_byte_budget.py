"""The bytes in memory over all connections of a listener."""

from __future__ import annotations

from nbstream.listeners.byte_budget import ByteBudget


def test_what_does_not_fit_is_not_reserved() -> None:
    budget = ByteBudget(10)

    assert budget.reserve(7)
    assert not budget.reserve(4)
    assert budget.reserved == 7
    assert budget.reserve(3)
    assert budget.is_exhausted


def test_released_bytes_can_be_reserved_again() -> None:
    budget = ByteBudget(10)
    budget.reserve(10)

    budget.release(10)

    assert budget.reserve(10)


def test_bytes_that_are_in_memory_already_are_counted_beyond_the_limit() -> None:
    budget = ByteBudget(10)

    budget.reserve_anyway(15)

    assert budget.is_exhausted
    assert budget.reserved == 15
