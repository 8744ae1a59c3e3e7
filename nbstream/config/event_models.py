"""The settings of the event models: which of them vote, and how each counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from nbstream.config.section import Section

Positive = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)]  # 1e-320 gives infinite scores


class Multinomial(Section):
    """The shares of tokens in each class, smoothed by ``alpha`` or by ``m``."""

    alpha: Positive | None = 0.12
    """The number of occurrences that each token is given in each class (Lidstone's smoothing; 1 is Laplace's). A
    larger number makes the model more cautious.
    """

    m: Positive | None = None
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


class Bernoulli(Section):
    """The presence and absence of the tokens that ``min_messages`` hold."""

    alpha: Positive = 1
    """The number of messages with a token, and of messages without it, that each class is given."""

    min_messages: Positive = 5
    """A token belongs to the vocabulary of this event model once so many messages, counted by their weight, have
    held it.
    """


class Categorical(Section):
    """The attributes of a message."""

    alpha: Positive = 1
    """The number of messages with each value of an attribute that each class is given."""


class Gaussian(Section):
    """The numbers of a message."""

    variance_floor: Positive = 400
    """This number is added to each variance."""

    min_messages: Positive = 10
    """A number votes once each class has so many messages, counted by their weight."""


class EventModels(Section):
    """The event models that vote; None is one that does not."""

    multinomial: Multinomial | None = Multinomial()
    """Tokens vote by their share of all tokens of each class; only the strongest clues vote."""

    bernoulli: Bernoulli | None = None
    """Every token of the vocabulary votes, by its presence or by its absence. It is meant for
    ``model.learning_weights: full``. After each lesson the next check reads the whole vocabulary once (0.3 s for a
    million tokens).
    """

    categorical: Categorical | None = None
    """Attributes vote, for example the content type, the charset and the mail program."""

    gaussian: Gaussian | None = None
    """Numbers vote, for example the size, the number of links, the share of capitals and the time of day."""

    @field_validator("gaussian")
    @classmethod
    def _at_least_one(cls, value: Gaussian | None, info: ValidationInfo) -> Gaussian | None:
        if value is None and len(info.data) == 3 and not any(info.data.values()):
            raise ValueError("must be given where all the other event models are null")
        return value
