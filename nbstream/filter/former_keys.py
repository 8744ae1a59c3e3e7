"""Messages that an older version learned under another key, in a model that has been migrated since.

Rules: what the ledger holds under the present key comes first; else, for as long as entries of the older version
live, what it holds under the former key. So one message is never learned under both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.filter.lesson_plan import TokenizedMessage
    from nbstream.filter.protocols import LessonStore, WithdrawableLayer


async def under_ledger_keys(
    model: LessonStore, auto: WithdrawableLayer | None, messages: Sequence[TokenizedMessage]
) -> list[TokenizedMessage]:
    """Each message under the key that the ledger has it under: that of ``model``, else that of ``auto``.

    Only messages with a former key cost a round trip, one to each ledger for all of them. Raises
    ``StoreUnavailable``.
    """
    former_keys = {message.key: message.former_key for message in messages if message.former_key}
    if not former_keys:
        return list(messages)
    keys = {**(await auto.ledger_keys(former_keys) if auto else {}), **await model.ledger_keys(former_keys)}
    return [replace(message, key=keys.get(message.key, message.key)) for message in messages]
