import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes import lesson_weight, priors
from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.classifier import Classifier, ClassifierOptions, EventModelOptions, prior_log_odds
from nbstream.bayes.counts import CLASSES, WEIGHT_ONE, ClassCounts, Totals, is_sum
from nbstream.bayes.event_models import ClueLimits, FeatureCounts
from nbstream.bayes.score import Score
from nbstream.tokens.tokenizer import Tokens
from tests.bayes.sample_models import (
    CHOICES,
    classifier_of,
    feature_counts,
    sample_message,
    score_of,
    teach,
    trained_counts,
)

EMPTY = Tokens((), ())
ALONE = ("multinomial", "bernoulli", "categorical", "gaussian")

every_choice = pytest.mark.parametrize("choice", CHOICES)


# The score


@every_choice
def test_an_untaught_model_scores_every_message_0(choice: str) -> None:
    assert score_of(ClassCounts(), classifier_of(choice), sample_message("spam", 1)) == Score(0.0, (), 0.0)
    assert score_of(ClassCounts(), classifier_of(choice), EMPTY) == Score(0.0, (), 0.0)


@every_choice
def test_the_sign_of_the_score_is_that_of_the_evidence(choice: str) -> None:
    classifier = classifier_of(choice)
    counts = trained_counts(classifier)
    assert score_of(counts, classifier, sample_message("spam", 5)).log_odds > 0
    assert score_of(counts, classifier, sample_message("ham", 5)).log_odds < 0


@every_choice
def test_the_score_is_the_sum_of_the_prior_and_the_clues_rounded_once(choice: str) -> None:
    classifier = classifier_of(choice)
    counts = trained_counts(classifier)
    teach(counts, classifier, sample_message("spam", 77), "spam")
    for n in range(20):
        result = score_of(counts, classifier, sample_message(CLASSES[n % 2], n))
        assert result.prior > 0
        assert len(result.clues) > 1
        assert result.log_odds == math.fsum([result.prior, *(clue.log_ratio for clue in result.clues)])


@every_choice
def test_the_clues_come_strongest_first_and_each_says_something(choice: str) -> None:
    classifier = classifier_of(choice)
    counts = trained_counts(classifier)
    strengths = [abs(clue.log_ratio) for clue in score_of(counts, classifier, sample_message("spam", 5)).clues]
    assert strengths == sorted(strengths, reverse=True)
    assert all(strengths)
    # A number of hops that is as frequent in both classes is no clue.
    names = {clue.token for clue in score_of(counts, classifier, sample_message("spam", 5)).clues}
    assert b"attribute:hops=3" not in names


@every_choice
@given(generator=st.randoms(use_true_random=False))
def test_the_order_of_looking_up_makes_no_difference_to_the_last_bit(
    choice: str, generator: random.Random
) -> None:
    classifier = classifier_of(choice)
    counts = trained_counts(classifier, 12)
    head = [b"h:%s%d" % (kind, n) for kind in (b"ham", b"spam") for n in range(9)]
    body = [b"b:%s%d" % (kind, n) for kind in (b"ham", b"spam") for n in range(12)] + [b"b:ham", b"b:spam"]
    sample = sample_message("spam", 3)
    tokens = Tokens(head, body, sample.attributes, sample.numbers, sample.raw_header)
    expected = score_of(counts, classifier, tokens)

    generator.shuffle(head)
    generator.shuffle(body)
    shuffled = Tokens(head, body, sample.attributes, sample.numbers, sample.raw_header)
    shown_counts = feature_counts(counts, classifier, shuffled)
    if shown_counts.vocabulary_counts is not None:
        order = list(range(len(shown_counts.vocabulary_counts)))
        generator.shuffle(order)
        shown_counts = replace(shown_counts, vocabulary_counts=shown_counts.vocabulary_counts[order])

    assert classifier.score(shuffled, shown_counts) == expected


@every_choice
def test_tokens_never_seen_do_not_vote(choice: str) -> None:
    classifier = classifier_of(choice)
    counts, tokens = trained_counts(classifier), sample_message("spam", 3)
    more = Tokens(
        (b"h:unseen", *tokens.head),
        (*tokens.body, b"b:unseen"),
        tokens.attributes,
        tokens.numbers,
        tokens.raw_header,
    )
    assert score_of(counts, classifier, more) == score_of(counts, classifier, tokens)


def test_only_the_strongest_of_each_group_vote() -> None:
    classifier = Classifier(ClassifierOptions(clue_limits=(ClueLimits(0, head=7, body=9, raw_header=3),)))
    counts = trained_counts(classifier)
    head, body = tuple(b"h:spam%d" % n for n in range(9)), tuple(b"b:ham%d" % n for n in range(30))
    raw_header = tuple(b"b:spam%d" % n for n in range(30))
    result = score_of(counts, classifier, Tokens(head, body, raw_header=raw_header))
    assert len([clue for clue in result.clues if clue.token.startswith(b"b:spam")]) == 3
    assert len([clue for clue in result.clues if clue.token.startswith(b"h:")]) == 7
    assert len([clue for clue in result.clues if clue.token.startswith(b"b:ham")]) == 9


def test_each_class_has_its_own_clues_however_strong_the_other() -> None:
    classifier = Classifier(ClassifierOptions(clue_limits=(ClueLimits(0, head=5, body=5, raw_header=5),)))
    body = (b"b:ham1", *(b"b:spam%d" % n for n in range(30)), b"b:spam")
    clues = score_of(trained_counts(classifier), classifier, Tokens((), body)).clues
    assert len(clues) == 6
    assert b"b:ham1" in {clue.token for clue in clues}


# The prior


def test_an_empty_message_scores_the_prior() -> None:
    classifier = Classifier()
    counts = trained_counts(classifier)
    counts.set_totals(replace(counts.totals, messages=(9, 99)))
    result = score_of(counts, classifier, EMPTY)
    assert result.log_odds == result.prior == pytest.approx(math.log(100 / 10))


@pytest.mark.parametrize(("alpha", "expected"), [(0.0, 99 / 9), (1.0, 100 / 10), (50.0, 149 / 59)])
def test_the_prior_is_the_ratio_of_the_messages_and_those_that_each_class_is_given(
    alpha: float, expected: float
) -> None:
    assert prior_log_odds(Totals(messages=(9, 99)), priors.PriorOptions(alpha)) == pytest.approx(
        math.log(expected)
    )


@pytest.mark.parametrize("messages", [(0, 0), (0, 7), (7, 0), (-2, 7)])
def test_the_prior_is_0_where_a_class_has_no_messages(messages: tuple[int, int]) -> None:
    assert prior_log_odds(Totals(messages=messages), priors.PriorOptions(alpha=0.0)) == 0.0


# The event models together


def test_the_votes_of_all_models_add_up() -> None:
    all_models = classifier_of("all together")
    counts, tokens = trained_counts(all_models), sample_message("ham", 4)
    alone = {choice: score_of(counts, classifier_of(choice), tokens) for choice in ALONE}

    together = score_of(counts, all_models, tokens)

    clues = [clue for score in alone.values() for clue in score.clues]
    assert sorted(clue.token for clue in together.clues) == sorted(clue.token for clue in clues)
    assert set(together.clues) == set(clues)
    assert together.log_odds == math.fsum([together.prior, *(clue.log_ratio for clue in clues)])
    assert all(score.clues for score in alone.values())


def test_the_sums_of_all_models_and_of_the_calibration_have_names_of_their_own() -> None:
    names = (*classifier_of("all together").sum_names, *SCORE_BINS)
    assert len(set(names)) == len(names)
    assert all(map(is_sum, names))
    assert set(names) == {*SCORE_BINS, *(name for choice in ALONE for name in classifier_of(choice).sum_names)}


@every_choice
def test_a_lesson_adds_to_the_sums_that_a_score_reads_each_once(choice: str) -> None:
    classifier = classifier_of(choice)
    _, sums = classifier.weigh_lesson(sample_message("spam", 3), 0.0, "spam")
    names = [name for name, _ in sums]
    assert len(set(names)) == len(names)
    assert set(names) <= set(classifier.sum_names)


def test_only_the_bernoulli_model_needs_the_whole_vocabulary() -> None:
    needing = [choice for choice in CHOICES if classifier_of(choice).needs_vocabulary]
    assert needing == ["bernoulli", "all together"]


@every_choice
def test_a_model_that_is_not_configured_adds_no_sums(choice: str) -> None:
    classifier = classifier_of(choice)
    _, sums = classifier.weigh_lesson(sample_message("spam", 3), 0.0, "spam")
    assert (not sums) == (not classifier.sum_names) == choice.startswith("multinomial")


def test_without_any_model_a_score_is_the_prior() -> None:
    classifier = Classifier(ClassifierOptions(EventModelOptions(multinomial=None)))
    counted_nothing = FeatureCounts(ClassCounts().look_up([]), ClassCounts().look_up([]), Totals(messages=(1, 3)))
    assert classifier.score(EMPTY, counted_nothing).log_odds == pytest.approx(math.log(4 / 2))


# The lesson


@every_choice
@pytest.mark.parametrize(("label", "sign"), [("spam", 1), ("ham", -1)])
def test_a_correction_moves_the_score_towards_its_label(choice: str, label: str, sign: int) -> None:
    classifier = classifier_of(choice)
    counts, tokens = trained_counts(classifier), sample_message("ham" if label == "spam" else "spam", 3)
    before = score_of(counts, classifier, tokens)
    teach(counts, classifier, tokens, label)
    assert sign * score_of(counts, classifier, tokens).log_odds > sign * before.log_odds


@every_choice
def test_learning_and_unlearning_restores_the_score_to_the_last_bit(choice: str) -> None:
    classifier = Classifier(ClassifierOptions(CHOICES[choice]))
    counts, tokens = trained_counts(classifier), sample_message("spam", 3)
    before = score_of(counts, classifier, tokens)
    weight, sums = classifier.weigh_lesson(tokens, before.log_odds, "ham")

    counts.add(tokens.all, 0, weight, sums)
    assert score_of(counts, classifier, tokens) != before
    counts.subtract(tokens.all, 0, weight, sums)

    assert score_of(counts, classifier, tokens) == before


@every_choice
@pytest.mark.parametrize("certain", [False, True])
def test_tokens_and_sums_are_learned_with_the_weight_of_the_message(choice: str, certain: bool) -> None:
    classifier = Classifier(ClassifierOptions(CHOICES[choice]))
    weight, sums = classifier.weigh_lesson(sample_message("spam", 3), -40.0, "spam", certain=certain)
    assert weight == lesson_weight.lesson_weight(
        -40.0, "spam", lesson_weight.LessonWeightOptions(), certain=certain
    )
    full, sums_in_full = classifier_of(choice).weigh_lesson(sample_message("spam", 3), -40.0, "spam")
    assert full == WEIGHT_ONE
    assert [(name, amount * WEIGHT_ONE) for name, amount in sums] == [
        (name, amount * weight) for name, amount in sums_in_full
    ]
