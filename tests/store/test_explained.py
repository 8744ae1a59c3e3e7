"""An explanation is kept as it was, to the last bit, or refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.errors import StoreIncompatible
from nbstream.policy.explanation import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds
from nbstream.store.explained import pack, unpack

TOKENS = (b"subject:x", b"from:\xc3\xa9", b"body:1")
FINITE = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(-(2**53), 2**53)
CLUES = st.lists(
    st.one_of(
        st.builds(CountedClue, st.sampled_from(TOKENS), FINITE, COUNTS, COUNTS),
        st.builds(
            CountedClue, st.sampled_from([b"attribute:type=text/plain", b"number:size"]), FINITE, COUNTS, COUNTS
        ),
        st.builds(CountedClue, st.just(b"bernoulli:absent"), FINITE, st.none(), st.none()),
    ),
    max_size=110,
).map(tuple)
EXPLANATIONS = st.builds(
    Explanation,
    at=st.floats(0, 4e9),
    verdict=st.sampled_from(["ham", "reject"]),
    reason=st.text(st.characters(codec="ascii"), max_size=80),
    probability=st.floats(0, 1),
    score=FINITE,
    prior=FINITE,
    thresholds=st.sampled_from([Thresholds(), Thresholds(0.1, 0.2, 0.3)]),
    state=st.builds(
        ModelState, st.fixed_dictionaries({"ham": COUNTS, "spam": COUNTS}), st.fixed_dictionaries({"ham": COUNTS})
    ),
    clues=CLUES,
)
ONE = Explanation(
    1.5, "spam", "why", 0.99, 3.1, 0.1, Thresholds(), ModelState({"ham": 1, "spam": 2}, {"ham": 50, "spam": 50}),
    (CountedClue(b"body:1", 3.0, 0, 2000),),
)  # fmt: skip


@given(EXPLANATIONS)
def test_what_is_unpacked_is_what_was_packed(explanation: Explanation) -> None:
    assert unpack(pack(explanation, TOKENS), TOKENS) == explanation


def test_the_least_and_the_largest_ratios_come_back() -> None:
    ratios = (math.ulp(0.0), -math.ulp(0.0), 1.7976931348623157e308, 0.1 + 0.2)
    told = Explanation(
        **{name: getattr(ONE, name) for name in ONE.__slots__ if name != "clues"},
        clues=tuple(CountedClue(b"body:1", ratio, 1, 1) for ratio in ratios),
    )

    assert [clue.log_ratio for clue in unpack(pack(told, TOKENS), TOKENS).clues] == list(ratios)


@pytest.mark.parametrize("length", range(1, len(pack(ONE, TOKENS))))
def test_what_is_cut_is_refused(length: int) -> None:
    with pytest.raises(StoreIncompatible):
        unpack(pack(ONE, TOKENS)[:length], TOKENS)


def test_what_another_version_wrote_or_is_of_another_message_is_refused() -> None:
    packed = pack(ONE, TOKENS)

    with pytest.raises(StoreIncompatible):
        unpack(b"2" + packed[1:], TOKENS)
    with pytest.raises(StoreIncompatible):
        unpack(packed, TOKENS[:1])
