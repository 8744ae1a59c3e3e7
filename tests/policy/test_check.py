"""Why a verdict was what it was: every clue with its counts, and the sum that they make."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.check import CountedClue, CountedTokenClues, Explanation
from nbstream.policy.verdict import ModelState, Thresholds
from tests.harness.sample_models import sample_message, score_of, trained_counts


def explanation(prior: float, *ratios: float) -> Explanation:
    clues = tuple(CountedClue(b"t", ratio, 0, 0) for ratio in ratios)
    score = math.fsum([prior, *ratios])
    return Explanation(
        at=1.0,
        verdict="ham",
        reason="why",
        probability=0.5,
        score=score,
        prior=prior,
        thresholds=Thresholds(),
        state=ModelState({}),
        clues=clues,
    )


def test_every_clue_has_the_counts_of_its_log_ratio() -> None:
    counts, tokens = trained_counts(), sample_message("spam", 5)
    clues = score_of(counts, tokens).clues

    counted = CountedTokenClues(clues)

    assert [(clue.token, clue.log_ratio) for clue in counted] == [(clue.token, clue.log_ratio) for clue in clues]
    for clue in counted:
        assert [clue.ham, clue.spam] == counts.look_up([clue.token])[0].tolist()
        assert (clue.ham, clue.spam) != (0, 0)


def test_counts_are_those_of_the_moment_of_the_check() -> None:
    counts, tokens = trained_counts(), sample_message("spam", 5)
    clues = score_of(counts, tokens).clues
    before = tuple(CountedTokenClues(clues))

    counts.add(tokens.all, "ham", 5000)

    assert tuple(CountedTokenClues(clues)) == before


@given(st.floats(-50, 50), st.lists(st.floats(-700, 700), max_size=102))
def test_the_running_sum_goes_from_the_prior_to_the_score(prior: float, ratios: list[float]) -> None:
    explained = explanation(prior, *ratios)
    sums = explained.running_scores()

    assert len(sums) == len(ratios)
    assert [prior, *sums][-1] == explained.score
    for before, after, ratio in zip([prior, *sums], sums, ratios, strict=False):
        assert math.isclose(after - before, ratio, abs_tol=1e-9)
