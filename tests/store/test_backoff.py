"""The waits before something that failed is tried again."""

from __future__ import annotations

from nbstream.store.backoff import RESTART_WAITS, Backoff


def test_waits_grow_with_each_failure_in_a_row_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(RESTART_WAITS)
    waits = [backoff.next_wait() for _ in range(9)]

    for wait, longest in zip(waits, [0.5, 1, 2, 4, 8, 16, 32, 60, 60], strict=True):
        assert longest / 2 <= wait <= longest
    assert backoff.failures == 9

    backoff.reset()

    assert (backoff.failures, backoff.next_wait() <= 0.5) == (0, True)
