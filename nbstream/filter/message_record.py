"""What is known of a message by its id alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nbstream.tokens.tokenizer import Tokens

if TYPE_CHECKING:
    from nbstream.filter.protocols import Teachable
    from nbstream.filter.scorer import Scorer
    from nbstream.policy.explanation import Explanation
    from nbstream.store.model.ledger import Entry
    from nbstream.store.recent.checked_messages import Checked


@dataclass(frozen=True, slots=True)
class Known:
    """``then`` is what was thought of the message when it was checked, ``now`` what is thought now.

    ``remembered`` and ``entry`` are what is kept of it as checked and as learned: at least one of them.
    """

    id: str
    now: Explanation
    then: Explanation | None
    remembered: Checked | None
    entry: Entry | None


class Explaining(Protocol):
    """Where checked messages are remembered with their explanations."""

    async def explained(self, message_key: str) -> tuple[Checked, Explanation | None] | None:
        """The message, if it is remembered, and its explanation, if that is. Raises ``StoreUnavailable``."""


async def known(message_key: str, memory: Explaining, model: Teachable, scorer: Scorer) -> Known | None:
    """What ``memory`` and the ledger of ``model`` hold of a message, and what ``scorer`` thinks of it now.

    None for a message that is neither remembered nor learned. Raises ``StoreUnavailable``.
    """
    remembered, then = await memory.explained(message_key) or (None, None)
    entry = await model.entry(message_key)
    if remembered:
        tokens = remembered.tokens
    elif entry:
        tokens = Tokens.grouped(entry.tokens)
    else:
        return None
    check = scorer.check(message_key, tokens, await scorer.read(tokens))
    return Known(message_key, check.explain(time.time()), then, remembered, entry)
