"""What is packed comes back, in as few bytes as all of its numbers need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.counted_clues import packed_clues

NUMBERS = st.tuples(
    st.integers(-(2**53), 2**53) | st.integers(-9, 9),
    st.integers(-(2**53), 2**53) | st.integers(-9, 9),
    st.floats(allow_nan=False),
)


@given(st.dictionaries(st.integers(0, 2**17), NUMBERS, max_size=40), st.integers(0, 9))
def test_what_is_packed_comes_back(clues: dict[int, tuple[int, int, float]], more_tokens: int) -> None:
    indices, counts = sorted(clues), [clues[index][:2] for index in sorted(clues)]
    ratios = [clues[index][2] for index in sorted(clues)]

    packed = packed_clues(indices, ratios, counts, max(clues, default=0) + 1 + more_tokens)

    assert packed.token_indices.tolist() == indices
    assert packed.counts.tolist() == list(map(list, counts))
    assert packed.ratios.tolist() == ratios
    assert len(packed.content) == packed.size
