"""The settings of the event models: which of them vote, and how each counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from nbstream.config.section import Section

Positive = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)]  # 1e-320 gives infinite scores


class Multinomial(Section):
    """The shares of tokens in each class, smoothed by ``alpha`` or by ``m``."""

    alpha: Positive | None = 0.12
    m: Positive | None = None
    complement: bool = False

    @field_validator("m")
    @classmethod
    def _one_smoothing(cls, value: float | None, info: ValidationInfo) -> float | None:
        if "alpha" in info.data and (value is None) == (info.data["alpha"] is None):
            raise ValueError("must be a number where alpha is null, and null where alpha is a number")
        return value


class Bernoulli(Section):
    """The presence and absence of the tokens that ``min_messages`` hold."""

    alpha: Positive = 1
    min_messages: Positive = 5


class Categorical(Section):
    """The attributes of a message."""

    alpha: Positive = 1


class Gaussian(Section):
    """The numbers of a message."""

    variance_floor: Positive = 400
    min_messages: Positive = 10


class EventModels(Section):
    """The event models that vote; None is one that does not."""

    multinomial: Multinomial | None = Multinomial()
    bernoulli: Bernoulli | None = None
    categorical: Categorical | None = None
    gaussian: Gaussian | None = None

    @field_validator("gaussian")
    @classmethod
    def _at_least_one(cls, value: Gaussian | None, info: ValidationInfo) -> Gaussian | None:
        if value is None and len(info.data) == 3 and not any(info.data.values()):
            raise ValueError("must be given where all the other event models are null")
        return value
