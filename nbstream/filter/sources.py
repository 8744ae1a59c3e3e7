"""Where a filter reads counts and stores lessons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.bayes.kinds import PLAIN, messages_name
from nbstream.bayes.multinomial import HAM, SPAM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nbstream.bayes.counts import AutomaticCounts, Totals
    from nbstream.engine.table import Table
    from nbstream.errors import StoreIncompatible, StoreUnavailable
    from nbstream.policy.thresholds import PrequentialScores
    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
    from nbstream.store.model.scripts import LessonBatch


class CountSource(Protocol):
    """A source of counts: the mirror in a daemon, Redis itself in a one-shot command."""

    @property
    def native_table(self) -> Table | None:
        """The table of the native library that has the counts now, None where they are elsewhere.

        Raises ``StoreUnavailable`` where no counts are loaded.
        """

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` or sums, shape (n, classes), and the totals, as people taught them."""

    async def look_up_automatic(self, tokens: Sequence[bytes]) -> AutomaticCounts:
        """Return the counts of ``tokens`` as they were learned without people."""

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (n, classes): the very same array until one of them changes."""

    async def prequential_scores(self) -> PrequentialScores:
        """Return the P(spam) that recent messages had before their first label."""

    async def wait_until_applied(self, change: bytes) -> None:
        """Return when ``look_up`` shows the change with this stream id. Raises ``StoreUnavailable``."""


class LessonStore(Protocol):
    """A store of lessons: a model in Redis, or a model in memory. ``Model`` documents what each method ensures."""

    async def entry(self, message_key: str) -> LedgerEntry | None:
        """Return the ledger entry of the message, or None."""

    async def entries(self, message_keys: Sequence[str]) -> Sequence[LedgerEntry | StoreIncompatible | None]:
        """Return the ledger entry of each message, None, or the error where the entry cannot be read."""

    async def commit_lesson(
        self, message_key: str, old: LedgerEntry | None, new: LedgerEntry | None, note: LessonNote
    ) -> bytes | LedgerConflict:
        """Take back ``old`` and add ``new`` in one step, and return the stream id of the change.

        Returns a ``LedgerConflict`` with the present entry, and changes nothing, where that is not ``old``.
        """

    async def commit_lessons(
        self, batch: LessonBatch
    ) -> Sequence[bytes | LedgerConflict | StoreUnavailable | StoreIncompatible]:
        """Commit the lessons of a batch; the error of one that failed stands in its place."""

    async def confirm(self) -> None:
        """Return when what was acknowledged is as safe as each commit makes it. Raises ``StoreUnavailable``."""

    async def last_change(self) -> bytes:
        """Return the stream id of the last change; it is empty before the first change."""


async def learned_by_class(counts: CountSource, kinds: Sequence[str]) -> dict[str, int]:
    """Return how many messages each class has learned: ham of no other kind, the other ``kinds``, and spam."""
    others = [kind for kind in kinds if kind != PLAIN]
    rows, totals = await counts.look_up([messages_name(kind) for kind in others])
    messages = [round(count / WEIGHT_ONE) for count in rows[:, HAM].tolist()]
    plain = totals.messages[HAM] - sum(messages)
    return {PLAIN: plain, **dict(zip(others, messages, strict=True)), "spam": totals.messages[SPAM]}
