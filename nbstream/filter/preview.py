"""The verdicts that checks would give if some ledger entries were others. Nothing is written.

Rules: the changes are kept as counts (``ClassCounts``) and are added to those of the model at each look-up.
Therefore taking an entry out and putting it in again cancel each other exactly. The counts of the model are read
when they are needed, but the change of the vocabulary's size is counted once: a preview holds for one moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nbstream.bayes.counts import CLASSES, ClassCounts, Totals
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.half_life import HalfLife
    from nbstream.filter.scorer import Scorer
    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.recent.checked_messages import CheckedMessage

_LOOK_UP_STEP = 2000  # tokens of one look-up: 1 to 2 ms of Redis


class ReadableCounts(Protocol):
    """The counts that a preview starts from: a model in Redis."""

    @property
    def half_life(self) -> HalfLife:
        """The time base of the counts."""

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` or sums, shape (n, classes), and the totals."""

    async def first_scores(self) -> FirstScores:
        """Return the P(spam) that recent messages had before their first label."""


class HypotheticalCounts:
    """The counts as they would be after some changes (a ``CountSource``).

    Memory: about 150 bytes for each token that is changed.
    """

    def __init__(self, model: ReadableCounts) -> None:
        self._model = model
        self._changes = ClassCounts()
        self._vocabulary_growth: int | None = None

    @property
    def half_life(self) -> HalfLife:
        """The time base of the model, and of the changes."""
        return self._model.half_life

    @property
    def native_table(self) -> None:
        """None: the counts are not in a table."""

    def replace_entry(self, old: LedgerEntry | None, new: LedgerEntry | None) -> None:
        """Suppose that ``old`` is taken back and ``new`` is added. Call it before the first look-up."""
        if old:
            self._changes.subtract(old.tokens, CLASSES.index(old.label), old.weight, old.sums)
        if new:
            self._changes.add(new.tokens, CLASSES.index(new.label), new.weight, new.sums)

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` or sums, shape (n, classes), and the totals."""
        rows, totals = await self._model.look_up(tokens)
        if self._vocabulary_growth is None:
            self._vocabulary_growth = await self._count_vocabulary_growth()
        changes = self._changes.totals
        return rows + self._changes.look_up(tokens), Totals(
            _add_by_class(totals.messages, changes.messages),
            _add_by_class(totals.token_weights, changes.token_weights),
            totals.vocabulary_size + self._vocabulary_growth,
        )

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (n, classes)."""
        return (await self.look_up(names))[0]

    async def first_scores(self) -> FirstScores:
        """Return those of the model: the preview assumes that the thresholds of budgets stay as they are."""
        return await self._model.first_scores()

    async def wait_until_applied(self, change: bytes) -> None:
        """Return at once: each look-up sees each change."""

    async def _count_vocabulary_growth(self) -> int:
        """Return how many more tokens would have a count above zero; a negative number means fewer."""
        tokens, growth = self._changes.tokens(), 0
        for first in range(0, len(tokens), _LOOK_UP_STEP):
            step = tokens[first : first + _LOOK_UP_STEP]
            before, _ = await self._model.look_up(step)
            after = before + self._changes.look_up(step)
            growth += int((after > 0).any(axis=1).sum()) - int((before > 0).any(axis=1).sum())
        return growth


@dataclass(frozen=True, slots=True)
class Preview:
    """The number of messages looked at, and the number of changed verdicts by (old verdict, new verdict)."""

    messages: int
    changes: Mapping[tuple[str, str], int]


async def preview_verdicts(
    checked_messages: AsyncIterable[CheckedMessage], before: Scorer, after: Scorer
) -> Preview:
    """Compare the verdicts that ``before`` gives to checked messages with those that ``after`` gives.

    What else has been learned since their checks is therefore on both sides. Messages that a recipient rule
    decided are left out: the thresholds of such a rule are others.
    """
    messages, changes = 0, Counter[tuple[str, str]]()
    async for checked in checked_messages:
        if checked.policy != DEFAULT_RULE_NAME:
            continue
        was, would = [(await scorer.check_now(checked.key, checked.tokens)).verdict for scorer in (before, after)]
        messages += 1
        if was is not would:
            changes[str(was), str(would)] += 1
    return Preview(messages, changes)


def _add_by_class(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))
