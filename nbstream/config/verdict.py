"""The settings of the thresholds."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from nbstream.config.section import Probability, Section
from nbstream.config.values import (
    MAX_FALSE_POSITIVE_COST,
    FalsePositiveCost,
    FalsePositiveRate,
    read_reject_threshold,
    read_until_promised,
)
from nbstream.policy.config_bounds import MAX_FALSE_POSITIVE_RATE, MIN_FALSE_POSITIVE_RATE


class VerdictSettings(Section):
    """The P(spam) from which a message gets each verdict.

    Exactly one of ``spam``, ``false_positive_cost`` and ``max_false_positive_rate`` is a number. ``spam`` has its
    default only where neither of the others is given.
    """

    unsure: Probability = 0.5
    """From this P(spam) on a message is unsure; below it a message is ham. Unsure messages are good candidates for
    a correction.
    """

    spam: Probability | None = 0.95
    """From this P(spam) on a message is spam: a fixed threshold. A higher value calls less ham spam and misses
    more spam. It must be at least ``unsure``.
    """

    false_positive_cost: Annotated[float, Field(gt=0, le=MAX_FALSE_POSITIVE_COST, allow_inf_nan=False)] | None = (
        None
    )
    """Replaces ``spam``: how many missed spam messages one lost ham message is worth. With a cost of C the
    threshold is C / (1 + C); with 99 it is 0.99.
    """

    max_false_positive_rate: (
        Annotated[float, Field(ge=MIN_FALSE_POSITIVE_RATE, le=MAX_FALSE_POSITIVE_RATE, allow_inf_nan=False)] | None
    ) = None
    """Replaces ``spam``: a budget. 0.001 allows one ham message in a thousand to be called spam. The threshold is
    then the lowest that keeps the budget; it is computed from the labelled ham and moves as more is learned. The
    budget needs the labels of all ham, or of a fair sample, not of errors alone: 2,995 labelled ham messages for
    0.001, 299 for 0.01, 29,956 for 0.0001. The newest 50,000 of each class are kept.
    """

    until_promised: Annotated[float | str, BeforeValidator(read_until_promised)] = "unsure"
    """The threshold while a budget cannot be promised yet. ``unsure`` calls nothing spam; a number is a P(spam).
    """

    reject: (
        Annotated[float | FalsePositiveCost | FalsePositiveRate, BeforeValidator(read_reject_threshold)] | None
    ) = None
    """From this P(spam) on a message is refused instead of delivered (see ``actions.reject``). ``null`` never
    refuses. It also takes ``{false_positive_cost: C}`` or ``{max_false_positive_rate: R}``; nothing is refused by
    a budget before the budget can be promised. It must be at least ``spam``. Do not set it behind Postfix's
    ``content_filter``, nor before the figures of your own mail say that it is safe.
    """

    @property
    def fixed_spam_threshold(self) -> float | None:
        """The threshold for spam as a P(spam), or None where it comes from a budget."""
        cost = self.false_positive_cost
        return self.spam if cost is None else cost / (1 + cost)

    @property
    def budget_rates(self) -> dict[str, float]:
        """The rates of the budgets among the thresholds, by their keys."""
        reject = self.reject.rate if isinstance(self.reject, FalsePositiveRate) else None
        rates = {"max_false_positive_rate": self.max_false_positive_rate, "reject": reject}
        return {key: rate for key, rate in rates.items() if rate is not None}

    @model_validator(mode="before")
    @classmethod
    def _no_default_beside_another_form(cls, data: object) -> object:
        other_forms = ("false_positive_cost", "max_false_positive_rate")
        has_other_form = isinstance(data, dict) and any(data.get(name) is not None for name in other_forms)
        if isinstance(data, dict) and "spam" not in data and has_other_form:
            return {"spam": None, **data}
        return data

    @field_validator("spam")
    @classmethod
    def _spam_from_unsure(cls, value: float | None, info: ValidationInfo) -> float | None:
        unsure = info.data.get("unsure", 0.0)
        if value is not None and value < unsure:
            raise ValueError(f"must be at least verdict.unsure ({unsure})")
        return value

    @field_validator("false_positive_cost")
    @classmethod
    def _cost_alone(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and info.data.get("spam") is not None:
            raise ValueError("must be null where verdict.spam is a number: they are two forms of one threshold")
        unsure = info.data.get("unsure", 0.0)
        if value is not None and value / (1 + value) < unsure:
            raise ValueError(f"must be at least {unsure / (1 - unsure):g}, which is verdict.unsure ({unsure})")
        return value

    @field_validator("max_false_positive_rate")
    @classmethod
    def _one_form(cls, value: float | None, info: ValidationInfo) -> float | None:
        if not {"spam", "false_positive_cost"} <= info.data.keys():
            return value  # one of them is refused itself
        given = [name for name in ("spam", "false_positive_cost") if info.data[name] is not None]
        if value is not None and given:
            raise ValueError(f"must be null where verdict.{given[0]} is a number: they are forms of one threshold")
        if value is None and not given:
            raise ValueError("must be a number where verdict.spam and verdict.false_positive_cost are null")
        return value

    @field_validator("until_promised")
    @classmethod
    def _until_promised_from_unsure(cls, value: float | str, info: ValidationInfo) -> float | str:
        unsure = info.data.get("unsure", 0.0)
        if isinstance(value, float) and value < unsure:
            raise ValueError(f"must be unsure, or at least verdict.unsure ({unsure})")
        return value

    @field_validator("reject")
    @classmethod
    def _reject_from_spam(
        cls, value: float | FalsePositiveCost | FalsePositiveRate | None, info: ValidationInfo
    ) -> float | FalsePositiveCost | FalsePositiveRate | None:
        cost, rate = info.data.get("false_positive_cost"), info.data.get("max_false_positive_rate")
        spam = cost / (1 + cost) if cost is not None else info.data.get("spam") or 0.0
        if isinstance(value, FalsePositiveRate) and rate is not None and value.rate > rate:
            raise ValueError(f"must be null or no more than verdict.max_false_positive_rate ({rate})")
        reject = value.ratio / (1 + value.ratio) if isinstance(value, FalsePositiveCost) else value
        if isinstance(reject, float) and reject < spam:
            raise ValueError(f"must be null or at least verdict.spam ({spam})")
        return value
