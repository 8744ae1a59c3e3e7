"""No message costs more than five times as much as ordinary text of its size costs in Python, however it is made.

A smaller message than ``SMALLEST_SIZE`` is compared with ordinary text of that size: 190 parts cost their headers.

The cost is the CPU time of the thread, and the ordinary text is measured in the same run, before and after.
"""

from __future__ import annotations

import pytest

from nbstream.tokens.native_tokenizer import NativeTokenizer
from nbstream.tokens.tokenizer import TokenizerOptions
from tests.harness.expensive_messages import KNOWN, MAX_RATIO, SIZE, cpu_seconds, ordinary_text
from tests.harness.native import native_library

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

SMALLEST_SIZE = 100_000
SIZES = (20_000, SMALLEST_SIZE, SIZE // 5, SIZE)
MAX_NATIVE_RATIO = 3.0
"""How many times the cost of ordinary text in Python a message may cost in the library; 2.3 were seen."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", KNOWN)
def test_a_message_costs_at_most_a_few_times_as_much_as_ordinary_text(name: str, size: int) -> None:
    ordinary, message = ordinary_text(max(size, SMALLEST_SIZE)), KNOWN[name].message(size)

    seconds = [cpu_seconds(raw, 5) for raw in (ordinary, message, ordinary)]

    ratio = seconds[1] / max(seconds[0], seconds[2])
    print(f"{name}, {size} bytes: {ratio:.1f}")
    assert ratio <= MAX_RATIO


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", KNOWN)
def test_with_the_library_a_message_costs_at_most_three_times_what_ordinary_text_costs_in_python(
    name: str, size: int
) -> None:
    native = NativeTokenizer(TokenizerOptions(), native_library())
    ordinary, message = ordinary_text(max(size, SMALLEST_SIZE)), KNOWN[name].message(size)

    ratio = cpu_seconds(message, 5, native) / cpu_seconds(ordinary, 5)

    print(f"{name}, {size} bytes, by the library: {ratio:.1f}")
    assert ratio <= MAX_NATIVE_RATIO
