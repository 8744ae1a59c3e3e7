"""What checks would say if some entries were not learned, or others were: counts with changes on top, unwritten.

Rules: reads only; what is on top are changes of counts, as in ``ClassCounts``, so taking an entry out and putting
it in cancel each other exactly. The counts below are read when they are asked for, but how many tokens the changes
bring or take is counted once, so a preview is of one moment.
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

_LOOK_UP_STEP = 2000  # tokens looked up at once: 1 to 2 ms of Redis


class ReadableCounts(Protocol):
    """The counts below: a model in Redis."""

    @property
    def half_life(self) -> HalfLife:
        """The time base in which they are counted."""

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` or sums, shape (n, classes), and the totals."""

    async def counts(self) -> ClassCounts:
        """All of them."""

    async def first_scores(self) -> FirstScores:
        """The recent messages' P(spam) before their first label."""


class HypotheticalCounts:
    """Counts as they would be; a ``CountSource``. Memory: about 150 bytes a token that is changed."""

    def __init__(self, model: ReadableCounts) -> None:
        self._model = model
        self._changes = ClassCounts()
        self._vocabulary_growth: int | None = None
        self._vocabulary: NDArray[np.int64] | None = None

    @property
    def half_life(self) -> HalfLife:
        """The time base of the counts below, and so of what is on top."""
        return self._model.half_life

    def replace_entry(self, old: LedgerEntry | None, new: LedgerEntry | None) -> None:
        """Suppose that ``old`` were taken back and ``new`` added. Before the first look-up."""
        if old:
            self._changes.subtract(old.tokens, CLASSES.index(old.label), old.weight, old.sums)
        if new:
            self._changes.add(new.tokens, CLASSES.index(new.label), new.weight, new.sums)

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` or sums, shape (n, classes), and the totals."""
        rows, totals = await self._model.look_up(tokens)
        if self._vocabulary_growth is None:
            self._vocabulary_growth = await self._count_vocabulary_growth()
        more = self._changes.totals
        return rows + self._changes.look_up(tokens), Totals(
            _add_by_class(totals.messages, more.messages),
            _add_by_class(totals.tokens, more.tokens),
            totals.vocabulary_size + self._vocabulary_growth,
        )

    async def vocabulary_counts(self) -> NDArray[np.int64]:
        """The counts of all tokens, without sums; all are read once."""
        if self._vocabulary is None:
            counts, changed = await self._model.counts(), self._changes.tokens()
            counts.set_counts(changed, counts.look_up(changed) + self._changes.look_up(changed))
            self._vocabulary = counts.vocabulary_counts()
        return self._vocabulary

    async def first_scores(self) -> FirstScores:
        """Those of the model below: a budget's thresholds are taken to stay as they are."""
        return await self._model.first_scores()

    async def wait_until_applied(self, change: bytes) -> None:
        """Return at once: every look-up sees every change."""

    async def _count_vocabulary_growth(self) -> int:
        """How many more tokens would have a count above zero; below zero for fewer."""
        tokens, grown = self._changes.tokens(), 0
        for first in range(0, len(tokens), _LOOK_UP_STEP):
            step = tokens[first : first + _LOOK_UP_STEP]
            before, _ = await self._model.look_up(step)
            after = before + self._changes.look_up(step)
            grown += int((after > 0).any(axis=1).sum()) - int((before > 0).any(axis=1).sum())
        return grown


@dataclass(frozen=True, slots=True)
class Preview:
    """Of so many messages, how many verdicts would change from what to what."""

    messages: int
    changes: Mapping[tuple[str, str], int]


async def preview_verdicts(remembered: AsyncIterable[CheckedMessage], scorer: Scorer) -> Preview:
    """What ``scorer`` would say of messages that were checked, against what was said of them then.

    Those that a rule for recipients decided are left out.
    """
    messages, changes = 0, Counter[tuple[str, str]]()
    async for checked in remembered:
        if checked.policy != DEFAULT_RULE_NAME:
            continue  # a rule for its recipients decided it, whose thresholds are others
        check = scorer.check(checked.key, checked.tokens, await scorer.read_counts(checked.tokens))
        messages += 1
        if str(check.verdict) != checked.verdict:
            changes[checked.verdict, str(check.verdict)] += 1
    return Preview(messages, changes)


def _add_by_class(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))
