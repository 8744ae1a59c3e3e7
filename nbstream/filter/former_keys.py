"""Messages that an older version learned under another key, in a model that has been migrated since.

Rules: the ledger entry under the present key comes first, then the entry under the former key. A message without
an entry that was checked under its former key a short time ago is learned under that key, since its feedback may
also come by that id. Therefore a message is not learned under both keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.filter.lesson_plan import TokenizedMessage
    from nbstream.filter.protocols import LessonStore, WithdrawableLayer


async def resolve_ledger_keys(
    model: LessonStore, autolearn_layer: WithdrawableLayer | None, messages: Sequence[TokenizedMessage]
) -> list[TokenizedMessage]:
    """Return each message with the key under which a ledger has it: that of ``model``, else of the layer.

    Only messages with a former key cost a round trip, one to each ledger for all of them. Raises
    ``StoreUnavailable``.
    """
    former_keys = {message.key: message.former_key for message in messages if message.former_key}
    if not former_keys:
        return list(messages)
    layer_keys = await autolearn_layer.ledger_keys(former_keys) if autolearn_layer else {}
    keys = {**layer_keys, **await model.ledger_keys(former_keys)}
    return [replace(message, key=keys.get(message.key, message.key)) for message in messages]
