import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.classifier import Classifier, Params, Score
from nbstream.bayes.counts import WEIGHT_ONE, Counts, Totals
from nbstream.tokens.tokenizer import Tokens

SCALES = st.floats(-500, 500)


def learned() -> Counts:
    counts = Counts()
    for n in range(60):
        counts.add([b"h:shared", b"b:shared", b"h:ham%d" % n, b"b:ham%d" % n, b"b:ham"], 0, WEIGHT_ONE)
        counts.add([b"h:shared", b"b:shared", b"h:spam%d" % n, b"b:spam%d" % n, b"b:spam"], 1, WEIGHT_ONE)
    return counts


def score(tokens: Tokens, counts: Counts, params: Params | None = None) -> Score:
    return Classifier(params or Params()).score(tokens, counts.look_up(tokens.all), counts.totals)


def test_an_empty_model_has_no_opinion() -> None:
    assert score(Tokens((b"h:a",), (b"b:b",)), Counts()) == Score(0.0, (), 0.0)


def test_an_empty_message_scores_the_prior() -> None:
    counts = learned()
    counts.totals = Totals((9, 99), counts.totals.tokens, counts.totals.vocabulary)
    result = score(Tokens((), ()), counts)
    assert result.log_odds == result.prior == pytest.approx(math.log(100 / 10))


def test_the_sign_of_the_score_is_that_of_the_evidence() -> None:
    counts = learned()
    assert score(Tokens((), (b"b:spam",)), counts).log_odds > 0
    assert score(Tokens((), (b"b:ham",)), counts).log_odds < 0


def test_unseen_tokens_do_not_vote() -> None:
    counts = learned()
    known = score(Tokens((), (b"b:spam",)), counts)
    assert score(Tokens((b"h:unseen",), (b"b:spam", b"b:unseen")), counts) == known


def test_clues_come_strongest_first_and_explain_the_score() -> None:
    result = score(Tokens((b"h:spam1", b"h:shared"), (b"b:ham", b"b:spam2")), learned())
    strengths = [abs(clue.log_ratio) for clue in result.clues]
    assert strengths == sorted(strengths, reverse=True)
    assert result.clues[0].token == b"b:ham"
    assert result.log_odds == pytest.approx(result.prior + sum(clue.log_ratio for clue in result.clues))


def test_only_the_strongest_of_each_group_vote() -> None:
    head, body = tuple(b"h:spam%d" % n for n in range(60)), tuple(b"b:ham%d" % n for n in range(60))
    result = score(Tokens(head, body), learned(), Params(head_clues=7, body_clues=9))
    assert len([clue for clue in result.clues if clue.token.startswith(b"h:")]) == 7
    assert len([clue for clue in result.clues if clue.token.startswith(b"b:")]) == 9


def test_each_class_has_its_own_clues_however_strong_the_other() -> None:
    body = (b"b:ham", *(b"b:spam%d" % n for n in range(60)))
    assert score(Tokens((), body), learned(), Params(body_clues=5)).clues[0].token == b"b:ham"
    assert len(score(Tokens((), body), learned(), Params(body_clues=5)).clues) == 6


@given(st.randoms(use_true_random=False))
def test_the_order_of_tokens_makes_no_difference(chance: random.Random) -> None:
    counts = learned()
    head = [b"h:%s%d" % (kind, n) for kind in (b"ham", b"spam") for n in range(25)]
    body = [b"b:%s%d" % (kind, n) for kind in (b"ham", b"spam") for n in range(25)] + [b"b:ham", b"b:spam"]
    expected = score(Tokens(tuple(head), tuple(body)), counts)
    chance.shuffle(head)
    chance.shuffle(body)
    assert score(Tokens(tuple(head), tuple(body)), counts) == expected


@given(SCALES)
def test_a_learning_weight_is_within_its_scale_and_shrinks_with_what_is_known(log_odds: float) -> None:
    classifier = Classifier()
    spam, ham = (classifier.weight(Score(log_odds), label) for label in ("spam", "ham"))
    assert 0 <= spam <= WEIGHT_ONE
    assert abs(spam + ham - WEIGHT_ONE) <= 1
    assert (spam <= ham) == (log_odds >= 0) or spam == ham


def test_an_open_question_is_learned_at_half_weight() -> None:
    assert Classifier().weight(Score(0.0), "spam") == WEIGHT_ONE // 2
    assert Classifier().weight(Score(0.0), "ham") == WEIGHT_ONE // 2


def test_a_label_that_is_learned_moves_the_score_towards_it() -> None:
    counts, tokens = Counts(), Tokens((b"h:a",), (b"b:b",))
    before = score(tokens, counts)
    counts.add(tokens.all, 1, Classifier().weight(before, "spam"))
    assert score(tokens, counts).log_odds > before.log_odds
