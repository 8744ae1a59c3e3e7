import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.classifier import Classifier, ClueLimits, prior_log_odds
from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import WEIGHT_ONE, ClassCounts
from nbstream.tokens.tokens import Tokens
from tests.harness.sample_models import sample_message, score_of, teach, trained_counts

EMPTY = Tokens((), ())


# The score


def test_an_untaught_model_scores_every_message_0() -> None:
    for tokens in (sample_message("spam", 1), EMPTY):
        score = score_of(ClassCounts(), tokens)
        assert (score.log_odds, tuple(score.clues), score.prior) == (0.0, (), 0.0)


def test_the_score_is_the_sum_of_the_prior_and_the_clues_rounded_once() -> None:
    counts = trained_counts()
    teach(counts, sample_message("spam", 77), "spam")
    for n in range(20):
        result = score_of(counts, sample_message(CLASSES[n % 2], n))
        assert result.prior > 0
        assert len(result.clues) > 1
        assert result.log_odds == math.fsum([result.prior, *(clue.log_ratio for clue in result.clues)])


@given(st.randoms(use_true_random=False))
def test_the_order_of_looking_up_makes_no_difference_to_the_last_bit(generator: random.Random) -> None:
    counts = trained_counts(12)
    head = [b"h:%s%d" % (kind, n) for kind in (b"ham", b"spam") for n in range(9)]
    body = [b"b:%s%d" % (kind, n) for kind in (b"ham", b"spam") for n in range(12)] + [b"b:ham", b"b:spam"]
    expected = score_of(counts, Tokens(tuple(head), tuple(body)))

    generator.shuffle(head)
    generator.shuffle(body)

    assert score_of(counts, Tokens(tuple(head), tuple(body))) == expected


def test_tokens_never_seen_do_not_vote() -> None:
    counts, tokens = trained_counts(), sample_message("spam", 3)
    more = Tokens((b"h:unseen", *tokens.head), (*tokens.body, b"b:unseen"), tokens.raw_header)
    assert score_of(counts, more) == score_of(counts, tokens)


def test_only_the_strongest_of_each_group_vote() -> None:
    classifier = Classifier(clue_limits=ClueLimits(head=7, body=9, raw_header=3))
    head, body = tuple(b"h:spam%d" % n for n in range(9)), tuple(b"b:ham%d" % n for n in range(30))
    raw_header = tuple(b"b:spam%d" % n for n in range(30))
    result = score_of(trained_counts(), Tokens(head, body, raw_header=raw_header), classifier)
    assert len([clue for clue in result.clues if clue.token.startswith(b"b:spam")]) == 3
    assert len([clue for clue in result.clues if clue.token.startswith(b"h:")]) == 7
    assert len([clue for clue in result.clues if clue.token.startswith(b"b:ham")]) == 9


def test_each_class_has_its_own_clues_however_strong_the_other() -> None:
    classifier = Classifier(clue_limits=ClueLimits(head=5, body=5, raw_header=5))
    body = (b"b:ham1", *(b"b:spam%d" % n for n in range(30)), b"b:spam")
    clues = score_of(trained_counts(), Tokens((), body), classifier).clues
    assert len(clues) == 6
    assert b"b:ham1" in {clue.token for clue in clues}


# The prior


@pytest.mark.parametrize(("messages", "expected"), [((0, 0), 1.0), ((0, 7), 8.0), ((7, 0), 1 / 8), ((-2, 7), 8.0)])
def test_the_prior_is_the_ratio_of_the_messages_with_one_more_for_each_class(
    messages: tuple[int, int], expected: float
) -> None:
    assert prior_log_odds(messages) == pytest.approx(math.log(expected))


# The lesson


def test_learning_and_unlearning_restores_the_score_to_the_last_bit() -> None:
    counts, tokens = trained_counts(), sample_message("spam", 3)
    before = score_of(counts, tokens)

    counts.add(tokens.all, "ham", WEIGHT_ONE // 3)
    assert score_of(counts, tokens) != before
    counts.subtract(tokens.all, "ham", WEIGHT_ONE // 3)

    assert score_of(counts, tokens) == before
