"""No message costs more than three times as much as ordinary text of its size, however it is made.

The cost is the CPU time of the thread, and the ordinary text is measured in the same run, before and after.
"""

from __future__ import annotations

import pytest

from tests.expensive_messages import KNOWN, MAX_RATIO, SIZE, cpu_seconds, ordinary_text

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.mark.parametrize("size", [SIZE, SIZE // 5])
@pytest.mark.parametrize("name", KNOWN)
def test_a_message_costs_at_most_three_times_as_much_as_ordinary_text(name: str, size: int) -> None:
    ordinary, message = ordinary_text(size), KNOWN[name].message(size)

    seconds = [cpu_seconds(raw, 5) for raw in (ordinary, message, ordinary)]

    ratio = seconds[1] / max(seconds[0], seconds[2])
    print(f"{name}, {size} bytes: {ratio:.1f}")
    assert ratio <= MAX_RATIO
