"""The waits before something that failed is tried again."""

from __future__ import annotations

from nbstream.store.backoff import RESTART_WAITS, Backoff


def test_waits_grow_with_each_failure_in_a_row_up_to_the_longest() -> None:
    backoff = Backoff(RESTART_WAITS)

    assert [backoff.next_wait() for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff.failures == 9


def test_after_a_success_the_waits_begin_anew() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.next_wait()

    backoff.reset()

    assert (backoff.failures, backoff.next_wait(), backoff.next_wait()) == (0, 0.1, 0.2)
