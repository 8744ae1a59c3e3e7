"""From settings to parts: what is chosen in the file is what votes and what is learned."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream import config
from nbstream.assembly.filter import classifier_options, make_filter, open_one_shot_filter
from nbstream.assembly.store import open_temporary_model
from nbstream.bayes import bernoulli, categorical, gaussian, lesson_weight, multinomial, priors
from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.classifier import ClassifierOptions, EventModelOptions
from nbstream.mail.message import Message
from nbstream.store.model.memory_model import MemoryModel
from tests.conftest import RedisServer
from tests.letters import letters


def settings_of(folder: Path, model: str) -> config.Settings:
    file = folder / "nbstream.yaml"
    file.write_text(f"model: {model}")
    return config.load_settings(file)


def test_the_defaults_of_the_settings_are_those_of_the_parts() -> None:
    assert classifier_options(config.Settings()) == ClassifierOptions()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "{multinomial: {alpha: 2}}",
            EventModelOptions(multinomial.MultinomialOptions(multinomial.Lidstone(2.0))),
        ),
        (
            "{multinomial: {alpha: null, m: 7, complement: true}}",
            EventModelOptions(multinomial.MultinomialOptions(multinomial.MEstimate(7.0), complement=True)),
        ),
        (
            "{multinomial: null, bernoulli: {min_messages: 3}}",
            EventModelOptions(None, bernoulli=bernoulli.BernoulliOptions(min_messages=3.0)),
        ),
        (
            "{categorical: {alpha: 0.5}, gaussian: {variance_floor: 9}}",
            EventModelOptions(
                categorical=categorical.CategoricalOptions(0.5),
                gaussian=gaussian.GaussianOptions(variance_floor=9.0),
            ),
        ),
    ],
)
def test_the_event_models_are_those_of_the_settings(
    tmp_path: Path, text: str, expected: EventModelOptions
) -> None:
    settings = settings_of(tmp_path, f"{{event_models: {text}}}")
    assert classifier_options(settings).event_models == expected


def test_the_prior_and_the_weights_are_those_of_the_settings(tmp_path: Path) -> None:
    params = classifier_options(settings_of(tmp_path, "{prior_messages: 0, learning_weights: full}"))
    assert (params.prior, params.lesson_weight) == (priors.PriorOptions(0.0), None)
    params = classifier_options(settings_of(tmp_path, "{prior_messages: 3, learning_weights: error}"))
    assert (params.prior, params.lesson_weight) == (priors.PriorOptions(3.0), lesson_weight.LessonWeightOptions())


@pytest.mark.parametrize(
    ("event_models", "learned"),
    [
        ("{multinomial: {}}", set()),
        ("{multinomial: null, bernoulli: {}}", {b"=messages"}),
        ("{multinomial: null, categorical: {}}", {b"=type=none"}),
        ("{multinomial: null, gaussian: {}}", {b"=size.n"}),
        ("{bernoulli: {}, categorical: {}, gaussian: {}}", {b"=messages", b"=type=none", b"=size.n"}),
    ],
)
async def test_only_what_is_chosen_is_learned_beside_the_tokens(
    tmp_path: Path, event_models: str, learned: set[bytes]
) -> None:
    model, message = MemoryModel(), Message.parse(next(letters(1))[1])
    spam_filter = make_filter(settings_of(tmp_path, f"{{event_models: {event_models}}}"), model, model)

    await spam_filter.learn(message, "spam", "test")

    entry = await model.entry(message.key)
    assert entry is not None
    sums = {name for name, _ in entry.sums if name not in SCORE_BINS}
    assert sums & {b"=messages", b"=type=none", b"=size.n"} == learned
    assert bool(sums) == bool(learned)


@pytest.mark.parametrize("number", ["1.0e-9", "1.0e+9"])
async def test_the_smallest_and_the_largest_numbers_that_are_taken_give_finite_scores(
    tmp_path: Path, number: str
) -> None:
    chosen = (
        f"{{multinomial: {{alpha: {number}}}, bernoulli: {{alpha: {number}, min_messages: {number}}}, "
        f"categorical: {{alpha: {number}}}, gaussian: {{variance_floor: {number}, min_messages: {number}}}}}"
    )
    model = MemoryModel()
    spam_filter = make_filter(settings_of(tmp_path, f"{{event_models: {chosen}}}"), model, model)
    for label, raw in letters(40):
        lesson = await spam_filter.learn(Message.parse(raw), label, "test")
        assert abs(lesson.after.score) < 1e15
        assert 0 < lesson.after.probability < 1


async def test_every_model_keeps_as_many_first_scores_as_the_settings_say(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    file = tmp_path / "nb.yaml"
    file.write_text(f"redis: {{url: '{shared_redis.url}'}}\nmemory: {{first_scores: 1234}}\n")
    settings = config.load_settings(file)

    async with (
        open_temporary_model(settings, "test") as temporary,
        open_one_shot_filter(settings) as (_, model),
    ):
        assert (temporary.retention.max_first_scores, model.retention.max_first_scores) == (1234, 1234)
