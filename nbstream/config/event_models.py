"""The settings of the event models: which of them vote, and how each of them counts."""

from __future__ import annotations

from pydantic import ValidationInfo, field_validator

from nbstream.config.section import PositiveNumber, Section


class MultinomialSettings(Section):
    """The multinomial event model: the shares of tokens in each class, smoothed by ``alpha`` or by ``m``."""

    alpha: PositiveNumber | None = 0.12
    """The number of occurrences that each token is given in each class (Lidstone's smoothing; 1 is Laplace's). A
    larger number makes the model more cautious.
    """

    m: PositiveNumber | None = None
    """Replaces ``alpha``, which must be ``null`` then: the number of occurrences that each class is given in all,
    shared out as the tokens are distributed over all classes (the m-estimate).
    """

    complement: bool = False
    """Estimate each class from all the other classes. With two classes this makes no difference."""

    @field_validator("m")
    @classmethod
    def _one_smoothing(cls, value: float | None, info: ValidationInfo) -> float | None:
        if "alpha" in info.data and (value is None) == (info.data["alpha"] is None):
            raise ValueError("must be a number where alpha is null, and null where alpha is a number")
        return value


class BernoulliSettings(Section):
    """The Bernoulli event model: the presence and absence of the tokens that ``min_messages`` have."""

    alpha: PositiveNumber = 1
    """The number of messages with a token, and of messages without it, that each class is given."""

    min_messages: PositiveNumber = 5
    """A token belongs to the vocabulary of this event model once this many messages, counted by their weight, have
    had it.
    """


class CategoricalSettings(Section):
    """The categorical event model: the attributes of a message."""

    alpha: PositiveNumber = 1
    """The number of messages with each value of an attribute that each class is given."""


class GaussianSettings(Section):
    """The Gaussian event model: the numbers of a message."""

    variance_floor: PositiveNumber = 400
    """This number is added to each variance."""

    min_messages: PositiveNumber = 10
    """A number votes once each class has this many messages, counted by their weight."""


class EventModelsSettings(Section):
    """The event models that vote. None stands for one that does not vote."""

    multinomial: MultinomialSettings | None = MultinomialSettings()
    """Tokens vote by their share of all tokens of each class; only the strongest clues vote."""

    bernoulli: BernoulliSettings | None = None
    """Every token of the vocabulary votes, by its presence or by its absence. It is meant for
    ``model.learning_weights: full``. After each lesson the next check reads the whole vocabulary once (0.3 s for a
    million tokens).
    """

    categorical: CategoricalSettings | None = None
    """Attributes vote, for example the content type, the charset and the mail program."""

    gaussian: GaussianSettings | None = None
    """Numbers vote, for example the size, the number of links, the share of capitals and the time of day."""

    @field_validator("gaussian")
    @classmethod
    def _at_least_one(cls, value: GaussianSettings | None, info: ValidationInfo) -> GaussianSettings | None:
        if value is None and len(info.data) == 3 and not any(info.data.values()):
            raise ValueError("must be given where all the other event models are null")
        return value
