import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nbstream.bayes import bernoulli, categorical, gaussian, multinomial
from nbstream.bayes.counts import CLASSES, WEIGHT_ONE, ClassCounts, Totals, is_sum
from nbstream.bayes.event_models import (
    BernoulliModel,
    CategoricalModel,
    ClueLimits,
    EventModel,
    FeatureCounts,
    GaussianModel,
    MultinomialModel,
)
from nbstream.bayes.multinomial import HAM, SPAM, Lidstone, MEstimate
from nbstream.tokens.attributes import ATTRIBUTE_VALUES
from nbstream.tokens.numbers import NUMBER_NAMES
from nbstream.tokens.tokenizer import Tokens
from tests.bayes.sample_models import sample_message

LIMITS = [ClueLimits(0, head=9, body=9, raw_header=9)]
MODELS: list[Callable[[], EventModel]] = [
    lambda: MultinomialModel(multinomial.MultinomialOptions(), LIMITS),
    lambda: BernoulliModel(bernoulli.BernoulliOptions()),
    lambda: CategoricalModel(categorical.CategoricalOptions()),
    lambda: GaussianModel(gaussian.GaussianOptions()),
]
NAMES = ["multinomial", "bernoulli", "categorical", "gaussian"]
EMPTY = Tokens((), ())

every_model = pytest.mark.parametrize("make", MODELS, ids=NAMES)


def trained_counts(model: EventModel, messages: int = 30) -> ClassCounts:
    counts = ClassCounts()
    for n in range(messages):
        for column, label in enumerate(CLASSES):
            tokens = sample_message(label, n)
            counts.add(tokens.all, column, WEIGHT_ONE, model.lesson_sums(tokens, WEIGHT_ONE))
    return counts


def votes(model: EventModel, counts: ClassCounts, tokens: Tokens) -> dict[bytes, float]:
    """The votes of the model on a message: name to log-ratio."""
    named_votes_by_name = model.votes(
        tokens,
        FeatureCounts(
            counts.look_up(tokens.all), counts.look_up(model.sum_names), counts.totals, counts.vocabulary_counts()
        ),
    )
    assert len({name for _, name in named_votes_by_name}) == len(named_votes_by_name)
    return {name: ratio for ratio, name in named_votes_by_name}


# What holds for all of them


@every_model
def test_the_names_of_its_sums_are_distinct_and_none_could_be_a_token(make: Callable[[], EventModel]) -> None:
    names = make().sum_names
    assert len(set(names)) == len(names)
    assert all(map(is_sum, names))
    assert [name for name in names if name.split() != [name]] == []  # they are stored separated by white space


@every_model
def test_a_lesson_adds_to_what_is_read_and_to_each_sum_once(make: Callable[[], EventModel]) -> None:
    model = make()
    learned = [name for name, _ in model.lesson_sums(sample_message("spam", 3), 700)]
    assert len(set(learned)) == len(learned)
    assert set(learned) <= set(model.sum_names)


@every_model
def test_a_lesson_without_weight_adds_nothing(make: Callable[[], EventModel]) -> None:
    assert {amount for _, amount in make().lesson_sums(sample_message("spam", 3), 0)} <= {0}


@every_model
def test_untaught_it_says_nothing(make: Callable[[], EventModel]) -> None:
    assert not any(votes(make(), ClassCounts(), sample_message("spam", 3)).values())
    assert not any(votes(make(), ClassCounts(), EMPTY).values())


@every_model
def test_taught_it_speaks_for_the_class_that_a_message_is_like(make: Callable[[], EventModel]) -> None:
    model = make()
    counts = trained_counts(model)
    assert math.fsum(votes(model, counts, sample_message("spam", 5)).values()) > 0
    assert math.fsum(votes(model, counts, sample_message("ham", 5)).values()) < 0


@every_model
def test_unlearning_leaves_no_trace(make: Callable[[], EventModel]) -> None:
    model = make()
    counts, tokens = trained_counts(model), sample_message("spam", 99)
    before = votes(model, counts, tokens)
    counts.add(tokens.all, SPAM, 333, model.lesson_sums(tokens, 333))
    during = votes(model, counts, tokens)
    counts.subtract(tokens.all, SPAM, 333, model.lesson_sums(tokens, 333))
    assert votes(model, counts, tokens) == before != during


def test_no_two_models_count_under_the_same_name() -> None:
    names = [name for make in MODELS for name in make().sum_names]
    assert len(set(names)) == len(names) > 100


# The multinomial model


def test_the_more_messages_a_model_knows_the_more_clues_vote() -> None:
    limits = [ClueLimits(0, 1, 2, 1), ClueLimits(40, 2, 3, 1), ClueLimits(100, 3, 4, 2)]
    model = MultinomialModel(multinomial.MultinomialOptions(), limits)
    counts = trained_counts(model)
    tokens = Tokens(
        tuple(b"h:spam%d" % n for n in range(3)),
        tuple(b"b:ham%d" % n for n in range(4)),
        raw_header=tuple(b"b:spam%d" % n for n in range(4)),
    )

    def votes_of(messages: tuple[int, int]) -> int:
        totals = replace(counts.totals, messages=messages)
        return len(model.votes(tokens, FeatureCounts(counts.look_up(tokens.all), counts.look_up(()), totals)))

    assert [votes_of(known) for known in [(0, 39), (20, 20), (0, 99), (60, 40), (9000, 0)]] == [4, 6, 6, 9, 9]


def test_the_strongest_tokens_of_each_group_vote_each_way_for_itself() -> None:
    model = MultinomialModel(multinomial.MultinomialOptions(), [ClueLimits(0, head=1, body=2, raw_header=3)])
    counts = trained_counts(model)
    tokens = Tokens(
        (b"h:spam1", b"h:ham1", b"h:spam2"), (b"b:spam", b"b:ham", b"b:spam1", b"b:spam2", b"b:shared")
    )
    votes_by_name = votes(model, counts, tokens)
    # Equal ones by name: the later one for spam.
    assert set(votes_by_name) == {b"h:spam2", b"h:ham1", b"b:spam", b"b:spam2", b"b:ham"}


@pytest.mark.parametrize("smoothing", [Lidstone(0.12), Lidstone(3.0), MEstimate(1.0)])
@pytest.mark.parametrize("complement", [False, True])
def test_a_vote_is_the_difference_of_the_log_probabilities(
    smoothing: multinomial.Smoothing, complement: bool
) -> None:
    options = multinomial.MultinomialOptions(smoothing, complement)
    model = MultinomialModel(options, LIMITS)
    counts, tokens = trained_counts(model), sample_message("spam", 4)
    rows = multinomial.token_log_probabilities(counts.look_up(tokens.all), counts.totals, options)
    expected = {
        name: row[SPAM] - row[HAM]
        for name, row in zip(tokens.all, rows.tolist(), strict=True)
        if abs(row[SPAM] - row[HAM]) > 1e-12
    }
    assert {
        name: ratio for name, ratio in votes(model, counts, tokens).items() if abs(ratio) > 1e-12
    } == pytest.approx(expected)


@pytest.mark.parametrize("smoothing", [Lidstone(0.12), MEstimate(1.0)])
def test_a_token_never_seen_does_not_vote(smoothing: multinomial.Smoothing) -> None:
    model = MultinomialModel(multinomial.MultinomialOptions(smoothing), LIMITS)
    assert votes(model, trained_counts(model), Tokens((b"h:new",), (b"b:new",))) == {}


# The Bernoulli model


def test_every_token_of_the_vocabulary_votes_present_or_absent() -> None:
    model = BernoulliModel(bernoulli.BernoulliOptions(alpha=1.0, min_messages=5.0))
    counts, tokens = trained_counts(model), sample_message("spam", 1)

    expected = 0.0
    for name, (ham, spam) in zip(counts.tokens(), counts.vocabulary_counts().tolist(), strict=True):
        if ham + spam >= 5 * WEIGHT_ONE:
            present = [(weight / WEIGHT_ONE + 1) / (30 + 2) for weight in (ham, spam)]
            chances = present if name in tokens.all else [1 - chance for chance in present]
            expected += math.log(chances[SPAM] / chances[HAM])

    assert math.fsum(votes(model, counts, tokens).values()) == pytest.approx(expected)


def test_a_message_without_tokens_is_classified_by_their_absence() -> None:
    model = BernoulliModel(bernoulli.BernoulliOptions())
    counts = trained_counts(model)
    for _ in range(30):
        counts.add([b"h:signature"], HAM, WEIGHT_ONE, model.lesson_sums(EMPTY, WEIGHT_ONE))
        counts.add([], SPAM, WEIGHT_ONE, model.lesson_sums(EMPTY, WEIGHT_ONE))
    votes_by_name = votes(model, counts, EMPTY)
    assert votes_by_name[b"bernoulli:present"] == 0
    assert votes_by_name[b"bernoulli:absent"] > 0


def test_each_answer_is_that_of_the_counts_as_they_are_now() -> None:
    model = BernoulliModel(bernoulli.BernoulliOptions())
    counts = ClassCounts()
    for n in range(40):
        label = CLASSES[n % 3 % 2]
        tokens = sample_message(label, n)
        counts.add(tokens.all, CLASSES.index(label), WEIGHT_ONE, model.lesson_sums(tokens, WEIGHT_ONE))
        for _ in range(2):
            fresh = votes(BernoulliModel(bernoulli.BernoulliOptions()), counts, tokens)
            assert votes(model, counts, tokens) == fresh


def test_weights_that_changed_alone_are_seen() -> None:
    model = BernoulliModel(bernoulli.BernoulliOptions())
    counts = trained_counts(model)
    vocabulary, none = counts.vocabulary_counts(), counts.look_up([])
    few, many = np.array([[30_000, 30_000]]), np.array([[90_000, 30_000]])
    assert model.votes(EMPTY, FeatureCounts(none, few, Totals(), vocabulary)) != model.votes(
        EMPTY, FeatureCounts(none, many, Totals(), vocabulary)
    )


def test_a_vocabulary_that_changed_alone_is_seen() -> None:
    model = BernoulliModel(bernoulli.BernoulliOptions())
    counts = trained_counts(model)
    before = votes(model, counts, EMPTY)
    for _ in range(20):  # other tokens of as many messages
        counts.subtract([b"b:spam"], SPAM, WEIGHT_ONE)
        counts.add([b"b:other"], HAM, WEIGHT_ONE)
    assert (
        votes(model, counts, EMPTY) == votes(BernoulliModel(bernoulli.BernoulliOptions()), counts, EMPTY) != before
    )


# The categorical model


def test_each_attribute_votes_by_its_value() -> None:
    model = CategoricalModel(categorical.CategoricalOptions(alpha=1.0))
    counts = trained_counts(model, 12)
    votes_by_name = votes(model, counts, sample_message("spam", 1))
    # Of 12 ham 3 are HTML, of 12 spam all; the number of hops is the same in both.
    values = len(ATTRIBUTE_VALUES["type"])
    expected = math.log((12 + 1) / (12 + values)) - math.log((3 + 1) / (12 + values))
    assert votes_by_name == pytest.approx({b"attribute:type=text/html": expected, b"attribute:hops=2": 0.0})


def test_a_message_without_an_attribute_does_not_vote_by_it() -> None:
    model = CategoricalModel(categorical.CategoricalOptions())
    counts = trained_counts(model)
    only = Tokens((), (), (("hops", "2"),))
    assert list(votes(model, counts, only)) == [b"attribute:hops=2"]
    assert votes(model, counts, EMPTY) == {}


def test_every_value_of_every_attribute_can_be_learned_and_is_read_again() -> None:
    for name, values in ATTRIBUTE_VALUES.items():
        for value in values:
            model, counts, tokens = (
                CategoricalModel(categorical.CategoricalOptions()),
                ClassCounts(),
                Tokens((), (), ((name, value),)),
            )
            counts.add([], SPAM, WEIGHT_ONE, model.lesson_sums(tokens, WEIGHT_ONE))
            assert votes(model, counts, tokens)[f"attribute:{name}={value}".encode()] > 0
            others = [Tokens((), (), ((name, other),)) for other in values if other != value]
            assert all(sum(votes(model, counts, other).values()) < 0 for other in others)


# The Gaussian model


def test_each_number_votes_by_its_density() -> None:
    options = gaussian.GaussianOptions(variance_floor=4.0, min_messages=2.0)
    model, counts = GaussianModel(options), ClassCounts()
    for column, number in ((HAM, 100), (HAM, 120), (SPAM, 300), (SPAM, 300)):
        counts.add(
            [], column, WEIGHT_ONE, model.lesson_sums(Tokens((), (), (), (("hour.x", number),)), WEIGHT_ONE)
        )

    votes_by_name = votes(model, counts, Tokens((), (), (), (("hour.x", 200),)))

    ham = -((200 - 110) ** 2) / (2 * (100 + 4)) - math.log(100 + 4) / 2
    spam = -((200 - 300) ** 2) / (2 * 4) - math.log(4) / 2
    assert votes_by_name == pytest.approx({b"number:hour.x": spam - ham})


def test_a_number_that_a_message_does_not_have_does_not_vote() -> None:
    model = GaussianModel(gaussian.GaussianOptions())
    counts = trained_counts(model)
    assert list(votes(model, counts, Tokens((), (), (), (("words", 300),)))) == [b"number:words"]
    assert votes(model, counts, EMPTY) == {}


def test_a_number_that_one_class_hardly_had_says_nothing() -> None:
    model = GaussianModel(gaussian.GaussianOptions(min_messages=31.0))
    assert not any(votes(model, trained_counts(model, 30), sample_message("spam", 1)).values())


def test_every_number_is_learned_and_read_for_itself() -> None:
    model = GaussianModel(gaussian.GaussianOptions(min_messages=1.0))
    for position, name in enumerate(NUMBER_NAMES):
        counts = ClassCounts()
        for column, number in ((HAM, 100), (SPAM, 900)):
            numbers = tuple((number_name, number if number_name == name else 500) for number_name in NUMBER_NAMES)
            counts.add([], column, WEIGHT_ONE, model.lesson_sums(Tokens((), (), (), numbers), WEIGHT_ONE))
        votes_by_name = votes(
            model, counts, Tokens((), (), (), tuple((number_name, 880) for number_name in NUMBER_NAMES))
        )
        assert votes_by_name[b"number:" + name.encode()] > 0
        assert [ratio for ratio in votes_by_name.values() if ratio] == [list(votes_by_name.values())[position]]
