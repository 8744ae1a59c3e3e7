"""What is known of a message by its id alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nbstream.tokens.tokenizer import Tokens

if TYPE_CHECKING:
    from nbstream.filter.protocols import LessonStore
    from nbstream.filter.scorer import Scorer
    from nbstream.policy.explanation import Explanation
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.recent.checked_messages import CheckedMessage


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """``then`` is what was thought of the message when it was checked, ``now`` what is thought now.

    ``remembered`` and ``entry`` are what is kept of it as checked and as learned: at least one of them.
    """

    id: str
    explanation_now: Explanation
    explanation_at_check: Explanation | None
    checked: CheckedMessage | None
    entry: LedgerEntry | None


class ExplanationSource(Protocol):
    """Where checked messages are remembered with their explanations."""

    async def recall_with_explanation(self, message_key: str) -> tuple[CheckedMessage, Explanation | None] | None:
        """The message, if it is remembered, and its explanation, if that is. Raises ``StoreUnavailable``."""


async def find_message_record(
    message_key: str, memory: ExplanationSource, model: LessonStore, scorer: Scorer
) -> MessageRecord | None:
    """What ``memory`` and the ledger of ``model`` hold of a message, and what ``scorer`` thinks of it now.

    None for a message that is neither remembered nor learned. Raises ``StoreUnavailable``.
    """
    remembered, then = await memory.recall_with_explanation(message_key) or (None, None)
    entry = await model.entry(message_key)
    if remembered:
        tokens = remembered.tokens
    elif entry:
        tokens = Tokens.from_all(entry.tokens)
    else:
        return None
    check = scorer.check(message_key, tokens, await scorer.read_counts(tokens))
    return MessageRecord(message_key, check.explain(time.time()), then, remembered, entry)
