"""The fair sample: which messages are drawn, whatever they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.fair_sample import NO_SAMPLE, FairSample

KEYS = [f"message{number}" for number in range(20_000)]
SAMPLES = st.builds(
    FairSample,
    st.text("0123456789abcdef", max_size=32),
    st.lists(st.tuples(st.floats(0, 2e9), st.floats(0, 1)), max_size=4).map(lambda pairs: tuple(sorted(pairs))),
)


def drawn(sample: FairSample, at: float = 100.0) -> set[str]:
    return {key for key in KEYS if sample.draws(key, at)}


@pytest.mark.parametrize("share", [0.02, 0.2, 0.9])
def test_the_share_of_all_messages_is_drawn(share: float) -> None:
    sample = FairSample("secret").with_share(share, 0.0)

    deviation = (share * (1 - share) / len(KEYS)) ** 0.5
    assert len(drawn(sample)) / len(KEYS) == pytest.approx(share, abs=4 * deviation)


def test_whoever_does_not_know_the_key_does_not_know_what_is_drawn() -> None:
    one, other = (drawn(FairSample(key).with_share(0.2, 0.0)) for key in ("one", "other"))

    # Of what one key draws, the other draws no more than of all messages.
    assert len(one & other) / len(one) == pytest.approx(0.2, abs=0.03)


def test_nothing_is_drawn_before_the_first_share_nor_after_a_share_of_none() -> None:
    sample = FairSample("secret").with_share(1.0, 10.0).with_share(0.0, 20.0)

    assert [sample.draws("message", at) for at in (9.0, 10.0, 19.0, 20.0)] == [False, True, True, False]
    assert not NO_SAMPLE.draws("message", 10.0)


def test_another_share_leaves_what_was_drawn_before_in_the_sample() -> None:
    sample = FairSample("secret").with_share(0.5, 0.0)
    lowered = sample.with_share(0.1, 50.0)

    assert drawn(lowered, at=49.0) == drawn(sample)
    assert drawn(lowered, at=50.0) < drawn(sample)
    assert lowered.with_share(0.1, 60.0) is lowered
    assert (lowered.share, lowered.largest_share, lowered.since) == (0.1, 0.5, 0.0)


def test_a_sample_remembers_a_bounded_number_of_shares() -> None:
    sample = FairSample("secret")
    for number in range(1000):
        sample = sample.with_share(0.1 + number % 2 / 10, float(number))

    assert len(sample.pack()) < 1000
    assert drawn(sample, at=999.0)
    assert not drawn(sample, at=900.0)


@given(SAMPLES)
def test_a_sample_comes_back_as_it_was(sample: FairSample) -> None:
    assert FairSample.unpack(sample.pack()) == sample


@pytest.mark.parametrize(
    "packed", ["key 0.0", "key 0.0:2", "key nan:0.5", "key 0.0:0.1:0.2", "key 0.0:x", "k" * 65]
)
def test_texts_that_are_no_sample_are_refused(packed: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        FairSample.unpack(packed)
