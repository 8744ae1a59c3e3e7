"""Own models over a common one, on a stream whose messages have users, against each of the two alone.

Rules: the common model learns the labels of the first messages, as from an administrator, and nothing later.
After that each message is checked by the common model alone, by the own model of its user over the common one, and
by a model of the user alone, which began empty. A user corrects what lies in the wrong folder, at once: each of
the two models of his learns the labels of its own errors. While a model is learning, it gets all labels.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nbstream.errors import InputError
from nbstream.evaluation import measures
from nbstream.filter import Filter
from nbstream.store.model.memory_model import MemoryModel

if TYPE_CHECKING:
    from nbstream.evaluation.streams import LabelledContent
    from nbstream.mail.message import Message
    from nbstream.policy.header import MessageReader

_SOURCE = "evaluate"
STEPS = (0, 1, 5, 20, 100)
"""The numbers of corrections of a user from which on messages are measured together."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a model said of a message.

    ``score`` are log-odds in nats; ``corrections`` is how often the user had corrected the model before.
    """

    score: float
    called_spam: bool
    corrections: int = 0


@dataclass(frozen=True, slots=True)
class UserRow:
    """One message: what its user calls it, and the outcomes of the three."""

    user: str
    label: str
    name: str
    common: Outcome
    blended: Outcome
    alone: Outcome


class _UserFilters:
    """A filter of each user, who corrects its errors at once; ``make_filter`` makes one over an empty model."""

    def __init__(self, make_filter: Callable[[], Filter]) -> None:
        self._make_filter = make_filter
        self._filters: dict[str, Filter] = {}
        self._corrections: dict[str, int] = {}

    async def check_and_correct(self, user: str, message: Message, label: str) -> Outcome:
        """Return the outcome of a message, and learn its label if that is wrong, or the model is learning."""
        if user not in self._filters:
            self._filters[user], self._corrections[user] = self._make_filter(), 0
        check = await self._filters[user].check(message)
        outcome = Outcome(check.score, check.verdict.is_spam, self._corrections[user])
        if check.state.is_learning or outcome.called_spam != (label == "spam"):
            self._corrections[user] += 1
            await self._filters[user].learn(message, label, _SOURCE)
        return outcome


def _filter_below(common: Filter) -> Filter:
    """Return a filter of an empty own model below the common one."""
    model = MemoryModel()
    return Filter(replace(common.parts, model=model, counts=model, parents=(common.parts.counts,)), common.policy)


async def evaluate_own_models(
    make_filter: Callable[[], Filter], stream: Iterable[LabelledContent], taught: int, reader: MessageReader
) -> list[UserRow]:
    """Return the rows of the messages after the first ``taught`` ones, whose labels the common model learns.

    ``make_filter`` makes a filter over an empty model in memory. Raises the errors of filter and stream.
    """
    common, rows = make_filter(), list[UserRow]()
    blended, alone = _UserFilters(lambda: _filter_below(common)), _UserFilters(make_filter)
    for position, labelled in enumerate(stream):
        await asyncio.sleep(0)  # lets Ctrl-C interrupt the run
        if isinstance(labelled.content, str) or (position >= taught and not labelled.user):
            raise InputError(f"{labelled.name}: its line in the index names no user")
        message = reader.read_incoming(labelled.content)
        if position < taught:
            await common.learn(message, labelled.label, _SOURCE)
            continue
        check = await common.check(message)
        rows.append(
            UserRow(
                labelled.user,
                labelled.label,
                labelled.name,
                Outcome(check.score, check.verdict.is_spam),
                await blended.check_and_correct(labelled.user, message, labelled.label),
                await alone.check_and_correct(labelled.user, message, labelled.label),
            )
        )
    return rows


@dataclass(frozen=True, slots=True)
class ModelMeasures:
    """The measures of one model over some messages, in percent; None where one is undefined."""

    messages: int
    one_minus_auc: float | None
    hm: float | None
    sm: float | None

    @classmethod
    def of(cls, labels: Sequence[str], outcomes: Sequence[Outcome]) -> ModelMeasures:
        """Return the measures of ``outcomes`` of messages with these labels."""
        is_spam = np.array([label == "spam" for label in labels], np.bool_)
        called_spam = np.array([outcome.called_spam for outcome in outcomes], np.bool_)
        return cls(
            len(labels),
            measures.one_minus_auc_percent(is_spam, np.array([outcome.score for outcome in outcomes])),
            measures.hm_percent(is_spam, called_spam),
            measures.sm_percent(is_spam, called_spam),
        )


@dataclass(frozen=True, slots=True)
class Step:
    """The measures of messages whose user had given so many ``corrections`` or more, up to those of the next step.

    ``common`` and ``blended`` are over the same messages, by the corrections of the own model over the common one;
    ``alone`` is over those with as many corrections of the model of the user alone.
    """

    corrections: int
    common: ModelMeasures
    blended: ModelMeasures
    alone: ModelMeasures


@dataclass(frozen=True, slots=True)
class OwnModelsReport:
    """The report: all messages together, then by the number of corrections of their users."""

    users: int
    corrections: int
    whole: Step
    steps: tuple[Step, ...]

    @classmethod
    def from_rows(cls, rows: Sequence[UserRow]) -> OwnModelsReport:
        """Return the report on ``rows``."""
        wrong = sum(row.blended.called_spam != (row.label == "spam") for row in rows)
        ends = (*STEPS[1:], None)
        steps = tuple(_step(rows, start, end) for start, end in zip(STEPS, ends, strict=True))
        return cls(len({row.user for row in rows}), wrong, _step(rows, 0, None), steps)

    def to_json(self) -> str:
        """Return the report as a JSON object."""
        return json.dumps(asdict(self), indent=2)

    def to_text(self) -> str:
        """Return the report as a table: (1-AUC)%, hm% and sm% of each model."""
        lines = [
            f"{self.users} users, {self.corrections} corrections of own models over the common one",
            "                      (1-AUC)% / hm% / sm% (messages)",
            f"{'corrections':12} {'common':>30} {'own over common':>30} {'own alone':>30}",
        ]
        for name, step in (("all", self.whole), *((f"from {step.corrections}", step) for step in self.steps)):
            cells = " ".join(f"{_cell(one):>30}" for one in (step.common, step.blended, step.alone))
            lines.append(f"{name:12} {cells}")
        return "\n".join(lines)


def _step(rows: Sequence[UserRow], start: int, end: int | None) -> Step:
    def is_in(outcome: Outcome) -> bool:
        return outcome.corrections >= start and (end is None or outcome.corrections < end)

    blended, alone = [row for row in rows if is_in(row.blended)], [row for row in rows if is_in(row.alone)]
    labels = [row.label for row in blended]
    return Step(
        start,
        ModelMeasures.of(labels, [row.common for row in blended]),
        ModelMeasures.of(labels, [row.blended for row in blended]),
        ModelMeasures.of([row.label for row in alone], [row.alone for row in alone]),
    )


def _cell(one: ModelMeasures) -> str:
    auc = "-" if one.one_minus_auc is None else f"{one.one_minus_auc:.4f}"
    hm, sm = ("-" if value is None else f"{value:.2f}" for value in (one.hm, one.sm))
    return f"{auc} / {hm} / {sm} ({one.messages})"
