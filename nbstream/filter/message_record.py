"""What is known of a message by its id alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.tokens.tokenizer import Tokens

if TYPE_CHECKING:
    from nbstream.filter.scorer import Scorer
    from nbstream.filter.sources import LessonStore
    from nbstream.policy.explanation import Explanation
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.recent.checked_messages import CheckedMessage, RecentMessages


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """The two explanations of a message, and what is stored of it.

    ``checked`` is the message as it was checked, ``entry`` its ledger entry. At least one of them is there. An
    entry that ``has_most_weight`` cannot be insisted on.
    """

    id: str
    explanation_now: Explanation
    explanation_at_check: Explanation | None
    checked: CheckedMessage | None
    entry: LedgerEntry | None
    has_most_weight: bool = False


async def find_message_record(
    message_key: str, checked_messages: RecentMessages, model: LessonStore, scorer: Scorer
) -> MessageRecord | None:
    """Return what is remembered and learned of a message, with its explanation by ``scorer`` now.

    Returns None for a message that is neither remembered nor learned. Raises ``StoreUnavailable``.
    """
    checked, explanation = await checked_messages.recall_with_explanation(message_key) or (None, None)
    entry = await model.entry(message_key)
    if checked:
        tokens = checked.tokens
    elif entry:
        tokens = Tokens.from_all(entry.tokens)
    else:
        return None
    check = await scorer.check_now(message_key, tokens)
    has_most_weight = entry is not None and scorer.has_most_weight(entry)
    return MessageRecord(message_key, check.explain(time.time()), explanation, checked, entry, has_most_weight)
