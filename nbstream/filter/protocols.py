"""What the filter needs from other parts: counts to read, a store for lessons, and observers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals
    from nbstream.bayes.half_life import HalfLife
    from nbstream.engine.table import Table
    from nbstream.errors import StoreIncompatible, StoreUnavailable
    from nbstream.filter.results import Check, CheckSeconds, Lesson
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
    from nbstream.store.model.scripts import LessonBatch
    from nbstream.store.recent.checked_messages import CheckedMessage
    from nbstream.tokens.tokenizer import Tokens


class CountSource(Protocol):
    """A source of counts: the mirror in a daemon, Redis itself in a one-shot command."""

    @property
    def half_life(self) -> HalfLife:
        """The time base of the counts."""

    @property
    def native_table(self) -> Table | None:
        """The table of the native library that has the counts now, None where they are elsewhere.

        Raises ``StoreUnavailable`` where no counts are loaded.
        """

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` or sums, shape (n, classes), and the totals."""

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (n, classes): the very same array until one of them changes."""

    async def first_scores(self) -> FirstScores:
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
        """Commit the lessons of a batch. The error of one that failed stands in its place."""

    async def confirm(self) -> None:
        """Return when what was acknowledged is as safe as each commit makes it. Raises ``StoreUnavailable``."""

    async def last_change(self) -> bytes:
        """Return the stream id of the last change; it is empty before the first change."""


class CheckedMessageSource(Protocol):
    """A store of checked messages."""

    async def recall(self, message_key: str) -> CheckedMessage | None:
        """Return the message if it is remembered, else None. Raises ``StoreUnavailable``."""


class CanarySource(Protocol):
    """What knows which messages are canaries."""

    def redeem(self, message_key: str) -> bool:
        """Return whether the message with this key is a canary: True once at most for each of them."""


class WithdrawableLayer(Protocol):
    """What was autolearned, and is taken back when a person gives a label."""

    @property
    def counts(self) -> CountSource:
        """The counts of what was autolearned."""

    async def withdraw(self, message_key: str) -> str | None:
        """Take back what was autolearned of the message and return its label, or None where there is nothing.

        Raises ``StoreUnavailable``.
        """

    async def withdraw_many(self, message_keys: Sequence[str]) -> Mapping[str, str | StoreIncompatible]:
        """Take back what was autolearned of several messages and return the labels, or errors, by message key."""


class FilterObserver(Protocol):
    """Receives what the filter reports while it works; metrics are one of the observers."""

    def checked(
        self, check: Check, tokens: Tokens, seconds: CheckSeconds, build_envelope: BuildEnvelope | None
    ) -> None:
        """Report that one message with these tokens was checked.

        ``build_envelope`` builds what is known of its envelope, None where nobody knows anything; it takes time
        that a check does not have, so an observer calls it later.
        """

    def feedback_taken(self, lesson: Lesson, source: str, actor: str) -> None:
        """Report feedback for one message that was taken or changed nothing."""

    def feedback_failed(self, label: str | None, source: str) -> None:
        """Report feedback for one message that could not be stored."""

    def store_refused(self) -> None:
        """Report that Redis could be reached but refused to write the feedback for one message."""


class SilentObserver:
    """An observer that reports to nobody."""

    def checked(
        self, check: Check, tokens: Tokens, seconds: CheckSeconds, build_envelope: BuildEnvelope | None
    ) -> None:
        """Report nothing."""

    def feedback_taken(self, lesson: Lesson, source: str, actor: str) -> None:
        """Report nothing."""

    def feedback_failed(self, label: str | None, source: str) -> None:
        """Report nothing."""

    def store_refused(self) -> None:
        """Report nothing."""
