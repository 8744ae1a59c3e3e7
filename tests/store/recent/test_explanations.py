"""A stored explanation comes back to the last bit, or is refused."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.clues import GroupTokens
from nbstream.bayes.novelty import Discount
from nbstream.errors import StoreIncompatible
from nbstream.policy.check import CountedClue, CountedTokenClues, Explanation
from nbstream.policy.verdict import ModelState, Thresholds
from nbstream.store.recent.stored_form import pack_explanation, unpack_explanation
from nbstream.tokens.tokens import Tokens
from tests.harness.counted_clues import counted_clues
from tests.harness.sample_models import sample_message, score_of, trained_counts

TOKENS = Tokens((b"subject:x", b"from:\xc3\xa9"), (b"body:1",))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
COUNTS = st.integers(-(2**53), 2**53)
CLUES = st.lists(
    st.one_of(
        st.builds(CountedClue, st.sampled_from(TOKENS.all.names), FINITE, COUNTS, COUNTS, st.just(0)),
        st.builds(
            CountedClue, st.sampled_from([b"autolearn:limit", b"body:1"]), FINITE, st.none(), st.none(), st.just(0)
        ),
    ),
    max_size=110,
    unique_by=lambda clue: clue.token,
).map(lambda clues: counted_clues(TOKENS, clues))
GROUPS = st.tuples(*[st.integers(0, 2000)] * 4)
DISCOUNTS = st.none() | st.builds(
    lambda left, more, deviations, known, new: Discount(
        left, left + more, deviations, GroupTokens(tuple(map(sum, zip(known, new, strict=True))), known)
    ),
    *[st.floats(0, 1e6)] * 3,
    *[GROUPS] * 2,
)
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
    discount=DISCOUNTS,
    full_probability=st.just(0.0),
).map(lambda one: replace(one, full_probability=0.5) if one.discount else one)
ONE = Explanation(
    at=1.5,
    verdict="spam",
    reason="why",
    probability=0.99,
    score=3.1,
    prior=0.1,
    thresholds=Thresholds(),
    state=ModelState({"ham": 1, "spam": 2}, {"ham": 50, "spam": 50}),
    clues=counted_clues(TOKENS, [CountedClue(b"body:1", 3.0, 0, 2000)]),
)


@given(EXPLANATIONS)
def test_what_is_unpacked_is_what_was_packed(explanation: Explanation) -> None:
    assert unpack_explanation(pack_explanation(explanation), TOKENS) == explanation


def test_the_clues_of_a_check_come_back() -> None:
    counts, tokens = trained_counts(), sample_message("spam", 5)
    score = score_of(counts, tokens)
    counted = CountedTokenClues(score.clues)
    explanation = replace(ONE, clues=counted)

    unpacked = unpack_explanation(pack_explanation(explanation), tokens)

    assert unpacked == explanation == replace(ONE, clues=tuple(counted))
    assert len(counted) == len(score.clues) > 0
    assert [clue.token for clue in counted] == [clue.token for clue in score.clues]


@pytest.mark.parametrize("length", range(len(pack_explanation(ONE))))
def test_a_cut_explanation_is_refused(length: int) -> None:
    with pytest.raises(StoreIncompatible):
        unpack_explanation(pack_explanation(ONE)[:length], TOKENS)


def test_an_explanation_of_another_message_is_refused() -> None:
    packed = pack_explanation(ONE)

    with pytest.raises(StoreIncompatible):
        unpack_explanation(packed + b"x", TOKENS)
    with pytest.raises(StoreIncompatible):
        unpack_explanation(packed, Tokens((b"subject:x",), ()))
    with pytest.raises(StoreIncompatible):
        unpack_explanation(struct.pack("<4dIIB", 0, 0, 0, 0, 100_000, 0, 4) + b"[" * 100_000, TOKENS)
