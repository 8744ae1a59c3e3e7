"""The bytes in memory over all connections of a listener."""

from __future__ import annotations

import pytest

from nbstream.server.limits import BytesInFlight


def test_what_does_not_fit_is_not_reserved() -> None:
    bytes_in_flight = BytesInFlight(20)

    assert bytes_in_flight.reserve(7)
    assert not bytes_in_flight.reserve(4)
    assert bytes_in_flight.reserved == 7
    assert bytes_in_flight.reserve(3)
    assert bytes_in_flight.is_exhausted


def test_a_message_is_counted_with_the_copy_that_is_made_of_it() -> None:
    bytes_in_flight = BytesInFlight(100)
    assert bytes_in_flight.reserve(20)

    assert not bytes_in_flight.reserve(31)
    assert bytes_in_flight.reserve(30)


def test_a_message_that_is_alone_always_fits_however_it_comes() -> None:
    bytes_in_flight = BytesInFlight(10)

    assert bytes_in_flight.reserve(7)
    assert bytes_in_flight.reserve(30, held=7)
    assert not bytes_in_flight.reserve(1)
    bytes_in_flight.release(37)
    assert bytes_in_flight.reserve(1)
    assert not bytes_in_flight.reserve(9)


def test_released_bytes_can_be_reserved_again() -> None:
    bytes_in_flight = BytesInFlight(10)
    bytes_in_flight.reserve(10)

    bytes_in_flight.release(10)

    assert bytes_in_flight.reserve(10)


def test_bytes_that_are_in_memory_already_are_counted_beyond_the_limit() -> None:
    bytes_in_flight = BytesInFlight(10)

    bytes_in_flight.reserve_anyway(15)

    assert bytes_in_flight.is_exhausted
    assert bytes_in_flight.reserved == 15


def test_no_more_is_released_than_was_reserved() -> None:
    bytes_in_flight = BytesInFlight(10)
    bytes_in_flight.reserve(4)

    with pytest.raises(AssertionError, match="5 bytes are released, and 4 were reserved"):
        bytes_in_flight.release(5)

    assert bytes_in_flight.reserved == 4
