"""Where a filter reads counts and stores lessons, and the layer of what is learned without people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.bayes.kinds import PLAIN, messages_name
from nbstream.bayes.multinomial import HAM, SPAM
from nbstream.errors import StoreIncompatible
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerConflict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals
    from nbstream.engine.table import Table
    from nbstream.errors import StoreUnavailable
    from nbstream.policy.prequential_scores import PrequentialScores
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.model.scripts import LessonBatch
    from nbstream.store.user_labels import UserLabels

AUTOLEARN_SOURCE = "auto"
KEPT_MAIL_SOURCE = "kept"
_REMOVAL_NOTE = LessonNote(AUTOLEARN_SOURCE, "", Assessment(0.5, "unsure"), Assessment(0.5, "unsure"))


class CountSource(Protocol):
    """A source of counts: the mirror in a daemon, Redis itself in a one-shot command."""

    @property
    def native_table(self) -> Table | None:
        """The table of the native library that has the counts now, None where they are elsewhere.

        Raises ``StoreUnavailable`` where no counts are loaded.
        """

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` or sums, shape (n, classes), and the totals."""

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
        self, batch: LessonBatch, layer: LessonStore | None = None
    ) -> Sequence[bytes | LedgerConflict | StoreUnavailable | StoreIncompatible]:
        """Commit the lessons of a batch, except those of messages that are in the ledger of ``layer``.

        These are conflicts. The error of one that failed stands in its place.
        """

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


class AutolearnLayer:
    """The autolearn layer: ``model`` stores its lessons, ``counts`` is where its counts are read.

    ``user_labels`` are the messages that users have labelled in own models; None where nobody has one.
    """

    def __init__(self, model: LessonStore, counts: CountSource, user_labels: UserLabels | None = None) -> None:
        self.model = model
        self.counts = counts
        self._user_labels = user_labels

    async def note_user_label(self, message_key: str) -> None:
        """Note that a user labels the message in his own model. Raises ``StoreUnavailable``."""
        if self._user_labels:
            await self._user_labels.add(message_key)

    async def has_user_label(self, message_key: str) -> bool:
        """Return whether a user has labelled the message in his own model. Raises ``StoreUnavailable``."""
        return self._user_labels is not None and await self._user_labels.has(message_key)

    async def learn(
        self, message_key: str, entry: LedgerEntry, assessment: Assessment, taught: LessonStore
    ) -> str:
        """Learn a message unless it is in the ledger of ``taught``, which people teach, or in that of the layer.

        ``assessment`` is what the model says of it. Returns ``learned``, ``human`` or ``already``. Raises
        ``StoreUnavailable``; the call may be repeated then.
        """
        if await taught.entry(message_key):
            return "human"
        if await self.model.entry(message_key):
            return "already"
        note = LessonNote(entry.source, entry.actor, assessment, assessment)
        change = await self.model.commit_lesson(message_key, None, entry, note)
        if await taught.entry(message_key):
            await self.withdraw(message_key)
            return "human"
        if isinstance(change, LedgerConflict):
            return "already"
        await self.counts.wait_until_applied(change)
        return "learned"

    async def withdraw(self, message_key: str) -> str | None:
        """Take back exactly what was autolearned of the message, and return its label.

        Returns None where nothing was autolearned of it, or others take it back at this moment. Raises
        ``StoreUnavailable``; the call may be repeated then.
        """
        while entry := await self.model.entry(message_key):  # the layer may have been dropped meanwhile
            change = await self.model.commit_lesson(message_key, entry, None, _REMOVAL_NOTE)
            if isinstance(change, bytes):
                await self.counts.wait_until_applied(change)
                return entry.label
        return None

    async def withdraw_many(self, message_keys: Sequence[str]) -> dict[str, str | StoreIncompatible]:
        """Take back what was autolearned of several messages, and return the labels by message key.

        Messages of which nothing was autolearned are left out. Where a ledger entry cannot be read, the error
        stands in the place of the label. Raises ``StoreUnavailable``.
        """
        withdrawn: dict[str, str | StoreIncompatible] = {}
        for key, entry in zip(message_keys, await self.model.entries(message_keys), strict=True):
            if isinstance(entry, StoreIncompatible):
                withdrawn[key] = entry
            elif entry and (label := await self.withdraw(key)):
                withdrawn[key] = label
        return withdrawn
