"""What the filter asks of those around it: where counts are read, where lessons are kept, who wants to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals
    from nbstream.bayes.half_life import HalfLife
    from nbstream.errors import StoreIncompatible, StoreUnavailable
    from nbstream.filter.results import Check, CheckSeconds, Lesson
    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.learn_script import LessonCommit
    from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
    from nbstream.store.recent.checked_messages import CheckedMessage
    from nbstream.tokens.tokenizer import Tokens


class CountSource(Protocol):
    """Where counts are read: the mirror in a daemon, Redis itself in a one-shot command."""

    @property
    def half_life(self) -> HalfLife:
        """The time base in which they are counted."""

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` or sums, shape (n, classes), and the totals."""

    async def vocabulary_counts(self) -> NDArray[np.int64]:
        """The counts of all tokens, without sums; the very same array until one of them changes."""

    async def first_scores(self) -> FirstScores:
        """The recent messages' P(spam) before their first label."""

    async def wait_until_applied(self, change: bytes) -> None:
        """Return when ``look_up`` shows the change of that stream id; raises ``StoreUnavailable``."""


class LessonStore(Protocol):
    """Where lessons are kept: a model in Redis, or one in memory. What each promises is said by ``Model``."""

    async def entry(self, message_key: str) -> LedgerEntry | None:
        """What the message was learned as, or None."""

    async def entries(self, message_keys: Sequence[str]) -> Sequence[LedgerEntry | StoreIncompatible | None]:
        """What each of these messages was learned as, None, or why that cannot be read."""

    async def commit_lesson(
        self, message_key: str, old: LedgerEntry | None, new: LedgerEntry | None, note: LessonNote
    ) -> bytes | LedgerConflict:
        """Take back ``old`` and add ``new``; the change's stream id, or what is kept where that is not ``old``."""

    async def commit_lessons(
        self, changes: Sequence[LessonCommit]
    ) -> Sequence[bytes | LedgerConflict | StoreUnavailable | StoreIncompatible]:
        """The same for several messages, each by itself; in the place of one that failed its error."""

    async def last_change(self) -> bytes:
        """The stream id of the last change; empty before the first."""

    async def ledger_keys(self, former_keys: Mapping[str, str]) -> Mapping[str, str]:
        """Of messages (key: former key) those that the ledger has under the former key alone, with that key."""


class CheckedMessageSource(Protocol):
    """Where checked messages are remembered."""

    async def recall(self, message_key: str) -> CheckedMessage | None:
        """The message, if it is remembered. Raises ``StoreUnavailable``."""


class WithdrawableLayer(Protocol):
    """What was learned without people, and goes when they have their say."""

    async def withdraw(self, message_key: str) -> str | None:
        """Take back what was learned of the message; its label, None for nothing. Raises ``StoreUnavailable``."""

    async def withdraw_many(self, message_keys: Sequence[str]) -> Mapping[str, str | StoreIncompatible]:
        """The same for several messages: of those of which something was learned the labels, or why not."""

    async def ledger_keys(self, former_keys: Mapping[str, str]) -> Mapping[str, str]:
        """As of ``LessonStore``."""


class FilterObserver(Protocol):
    """What the filter reports while it works; metrics are one of its readers."""

    def checked(self, check: Check, tokens: Tokens, seconds: CheckSeconds) -> None:
        """One message of these tokens was checked."""

    def feedback_taken(self, lesson: Lesson, source: str, actor: str) -> None:
        """One message's feedback was taken, or changed nothing."""

    def feedback_failed(self, label: str | None, source: str) -> None:
        """One message's feedback could not be stored."""

    def store_refused(self) -> None:
        """Redis could be reached, but refused to write one message's feedback."""


class SilentObserver:
    """An observer that reports to nobody."""

    def checked(self, check: Check, tokens: Tokens, seconds: CheckSeconds) -> None:
        """Report nothing."""

    def feedback_taken(self, lesson: Lesson, source: str, actor: str) -> None:
        """Report nothing."""

    def feedback_failed(self, label: str | None, source: str) -> None:
        """Report nothing."""

    def store_refused(self) -> None:
        """Report nothing."""
