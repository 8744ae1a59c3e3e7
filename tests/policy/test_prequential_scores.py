"""The recent messages' P(spam) before their first label."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.thresholds import PrequentialScore, PrequentialScores, ScoreWindow
from nbstream.policy.verdict import ModelState

FIRSTS = st.builds(
    PrequentialScore,
    st.floats(0, 2e9),
    st.text("abcdefghij234567", min_size=1, max_size=24),
    st.floats(0, 1),
)


@given(FIRSTS)
def test_a_prequential_score_comes_back_as_it_was(first: PrequentialScore) -> None:
    assert PrequentialScore.unpack(first.pack()) == first


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"1.0 key",
        b"now key 0.5",
        b"1.0 key 0.5 0.1",
        b"nan key 0.5",
        b"1_0 key 0.5",
        b"1e999 key 0.5",
        b"1.0 key 1.5",
        b"1.0 k\ney 0.5",
    ],
)
def test_bytes_that_are_no_prequential_score_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
        PrequentialScore.unpack(packed)


def window(*prequential_scores: PrequentialScore) -> ScoreWindow:
    scores_window = ScoreWindow()
    for first in prequential_scores:
        scores_window.add(first.pack())
    return scores_window


@given(st.lists(FIRSTS, max_size=30), st.integers(0, 30))
def test_removed_prequential_scores_leave_no_trace(prequential_scores: list[PrequentialScore], count: int) -> None:
    remaining = prequential_scores[:count]
    removed = [
        prequential_score for prequential_score in prequential_scores[count:] if prequential_score not in remaining
    ]
    scores_window = window(*prequential_scores)
    for prequential_score in removed:
        scores_window.remove(prequential_score.pack())
        scores_window.remove(prequential_score.pack())

    same = window(*remaining)
    assert (
        scores_window.scores(),
        list(scores_window.ascending_probabilities),
        scores_window.last_probabilities(5),
    ) == (
        same.scores(),
        list(same.ascending_probabilities),
        same.last_probabilities(5),
    )


@given(st.lists(FIRSTS, max_size=30, unique_by=lambda first: first.pack()), st.integers(1, 40))
def test_the_oldest_are_dropped(prequential_scores: list[PrequentialScore], count: int) -> None:
    scores_window, copy = window(*prequential_scores), window(*prequential_scores)
    in_order = sorted(prequential_scores, key=lambda first: (first.at, first.pack()))

    oldest = scores_window.keep_newest(count)
    if oldest is not None:
        copy.remove_before(oldest)

    assert (oldest is None) == (len(prequential_scores) <= count)
    assert scores_window.scores() == copy.scores() == in_order[-count:]
    assert list(scores_window.ascending_probabilities) == sorted(first.probability for first in in_order[-count:])


def test_the_model_has_learned_when_the_last_class_has_as_many_as_it_needs() -> None:
    scores = PrequentialScores()
    for number, label in enumerate(("spam", "spam", "spam", "ham", "ham", "spam", "ham"), start=1):
        scores[label].add(PrequentialScore(float(number), f"m{number}", 0.5).pack())

    learned = {"ham": 3, "spam": 4}

    assert scores.learned_at(ModelState(learned, {"ham": 2, "spam": 2})) == 5.0
    assert scores.learned_at(ModelState(learned, {"ham": 0, "spam": 2})) == 2.0
    assert scores.learned_at(ModelState(learned, {"ham": 4, "spam": 2})) == -math.inf, "it is still learning"
    assert scores.learned_at(ModelState(learned)) == -math.inf


def test_what_was_learned_without_a_prequential_score_came_before_those_that_have_one() -> None:
    scores = PrequentialScores()
    for number in range(1, 21):
        scores[("ham", "spam")[number % 2]].add(PrequentialScore(float(number), f"m{number}", 0.5).pack())
    needed = {"ham": 5, "spam": 5}
    assert scores.learned_at(ModelState({"ham": 10, "spam": 10}, needed)) == 10.0

    scores["spam"].keep_newest(3)  # the window is full, as after months of spam

    assert scores.learned_at(ModelState({"ham": 12, "spam": 10}, needed)) == 6.0
    assert scores.learned_at(ModelState({"ham": 1000, "spam": 1000}, needed)) == -math.inf
