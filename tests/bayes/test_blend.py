"""The blend: an own model changes what it was taught of, and nothing else."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nbstream.bayes.classifier import Classifier, OwnLevel, PriorStrength, blend_log_ratios
from nbstream.bayes.clues import Score, TokenClues
from nbstream.bayes.counts import ClassCounts, Totals
from nbstream.bayes.multinomial import ALPHA, TokenCounts, token_log_ratios
from nbstream.tokens.tokens import Tokens
from tests.harness.sample_models import sample_message, teach, token_counts, trained_counts

STRENGTH = PriorStrength(occurrences=0.5, per_probability=10.0, balancing=1000.0)
COMMON = TokenCounts(np.array([[5000, 0], [4000, 4000], [0, 0]]), Totals((9, 9), (60_000, 80_000), 20))
NOTHING = np.zeros((3, 2), np.int64)
EVEN = Totals((1, 1), (5000, 5000), 3)
COUNTS = st.lists(st.tuples(st.integers(-3000, 9000), st.integers(-3000, 9000)), min_size=3, max_size=3)


def blended(*own: TokenCounts, strength: PriorStrength = STRENGTH) -> NDArray[np.float64]:
    """The log-ratios of the three tokens by the common model and these levels."""
    ratios = token_log_ratios(COMMON.rows, COMMON.totals)
    return blend_log_ratios(ratios, COMMON, [OwnLevel.of(level, strength) for level in own], ALPHA, strength)


def own_counts(*rows: tuple[int, int], totals: Totals = EVEN) -> TokenCounts:
    return TokenCounts(np.array(rows, np.int64), totals)


# One level


def test_without_own_counts_of_a_token_its_ratio_is_the_common_one_to_the_last_bit() -> None:
    common = token_log_ratios(COMMON.rows, COMMON.totals)
    ratios = blended(own_counts((0, 0), (0, 1000), (-500, 0)))
    assert ratios[[0, 2]].tobytes() == common[[0, 2]].tobytes()
    assert ratios[1] != common[1]
    assert blended(own_counts(*NOTHING)).tobytes() == blended().tobytes() == common.tobytes()


def test_the_ratio_is_that_of_the_own_occurrences_and_those_of_the_prior() -> None:
    ratios = blended(own_counts((0, 350), (350, 0), (0, 0)))
    masses = 60.0 + ALPHA * 20, 80.0 + ALPHA * 20
    ham, spam = (5.0 + ALPHA) / masses[0], ALPHA / masses[1]
    assert ratios[0] == pytest.approx(math.log((0.35 + 0.5 * spam / (ham + spam)) / (0.5 * ham / (ham + spam))))
    ham, spam = 4.0 / masses[0], 4.0 / masses[1]
    weight = 0.5 + 10.0 * ham * spam / (ham + spam)
    share = (4.0 + ALPHA) / masses[0] / ((4.0 + ALPHA) / masses[0] + (4.0 + ALPHA) / masses[1])
    assert ratios[1] == pytest.approx(math.log(weight * (1 - share) / (0.35 + weight * share)))


def test_a_token_that_only_the_own_model_has_seen_begins_at_no_opinion() -> None:
    assert blended(own_counts((0, 0), (0, 0), (0, 350)))[2] == pytest.approx(math.log((0.35 + 0.25) / 0.25))


def test_a_weak_prior_is_left_sooner_than_a_strong_one() -> None:
    lesson = own_counts((0, 350), (0, 350), (0, 350))
    weak = blended(lesson, strength=PriorStrength(0.1, 10.0, 1000.0))
    strong = blended(lesson, strength=PriorStrength(1.0, 100.0, 1000.0))
    assert (weak > strong).all()
    assert (strong > blended()).all()


def test_a_token_of_both_classes_moves_less_the_more_messages_have_it_and_one_of_one_class_does_not() -> None:
    common = TokenCounts(
        np.array([[9000, 9000], [100, 100], [9000, 0], [100, 0]]), Totals((9, 9), (60_000, 60_000), 20)
    )
    own = OwnLevel.of(TokenCounts(np.array([[0, 900]] * 4), EVEN), STRENGTH)
    of_all, of_some, of_many_ham, of_some_ham = blend_log_ratios(
        token_log_ratios(common.rows, common.totals), common, [own], ALPHA, STRENGTH
    )
    assert 0 < of_all < of_some
    assert of_many_ham > 0
    assert of_some_ham > 0


def test_what_an_own_model_learned_much_of_has_its_own_ratio() -> None:
    ratio = blended(own_counts((1_000_000, 3_000_000), (0, 0), (0, 0)))[0]
    assert ratio == pytest.approx(math.log(3), abs=0.01)


def test_the_class_that_an_own_model_has_more_of_counts_less_for_each_occurrence() -> None:
    rows = ((1000, 1000), (0, 0), (0, 0))
    ratio = blended(own_counts(*rows, totals=Totals((1, 9), (100_000, 9_000_000), 3)))[0]
    assert ratio < blended(own_counts(*rows))[0]


# More levels


@given(COUNTS, COUNTS)
def test_an_empty_level_between_changes_nothing(
    domain: list[tuple[int, int]], user: list[tuple[int, int]]
) -> None:
    empty = TokenCounts(NOTHING, Totals())
    domain_counts, user_counts = own_counts(*domain), own_counts(*user)
    expected = blended(domain_counts, user_counts).tobytes()
    assert blended(domain_counts, empty, user_counts).tobytes() == expected
    assert blended(domain_counts, user_counts, empty).tobytes() == expected


def test_each_level_is_the_prior_of_the_next() -> None:
    domain, user = own_counts((0, 2000), (0, 0), (0, 0)), own_counts((300, 0), (0, 0), (0, 0))
    by_both = blended(domain, user)[0]
    assert blended(user)[0] < by_both < blended(domain)[0]


# The classifier


def score(counts: ClassCounts, tokens: Tokens, *own: ClassCounts) -> Score:
    levels = tuple(token_counts(level, tokens) for level in own)
    return Classifier(strength=STRENGTH).score(tokens, token_counts(counts, tokens), levels)


def test_the_score_of_empty_own_models_is_the_common_one_to_the_last_bit() -> None:
    counts, tokens, unlearned = trained_counts(), sample_message("spam", 5), ClassCounts()
    unlearned.add(tokens.all, "ham", 350)
    unlearned.subtract(tokens.all, "ham", 350)
    common = score(counts, tokens)
    assert score(counts, tokens, ClassCounts(), unlearned) == common
    assert isinstance(common.clues, TokenClues)
    assert common.clues.own_levels == b""


def test_a_few_lessons_of_a_user_turn_what_the_common_model_is_sure_of() -> None:
    counts, tokens, user = trained_counts(), sample_message("ham", 5), ClassCounts()
    assert score(counts, tokens).log_odds < 0
    for _ in range(3):
        teach(user, tokens, "spam")
    turned = score(counts, tokens, user)
    assert turned.log_odds > 0
    assert turned.prior == score(counts, tokens).prior
    assert math.fsum([turned.prior, *(clue.log_ratio for clue in turned.clues)]) == turned.log_odds


def test_each_clue_says_which_level_changed_it() -> None:
    counts, tokens = trained_counts(), sample_message("ham", 5)
    domain, user = ClassCounts(), ClassCounts()
    domain.add([b"b:ham"], "spam", 350)
    teach(user, Tokens((), (b"b:ham", b"b:shared")), "spam")
    clues = score(counts, tokens, domain, user).clues
    assert isinstance(clues, TokenClues)
    names = [tokens.all.names[i] for i in clues.token_indices]
    levels = dict(zip(names, clues.own_levels, strict=True))
    assert levels == {b"h:ham5": 0, b"b:ham": 3, b"b:shared": 2, b"b:ham5": 0}
