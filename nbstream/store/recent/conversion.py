"""The conversion of checked messages to the form of the former schema, before a model goes back to it.

Rules: it may be repeated, also after an interruption, and a program of either release can use the model meanwhile.
A message keeps its explanation and the time for which it is still remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbstream.store.recent import compression

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys

_MESSAGES_PER_STEP = 100


async def deflate_messages(client: Redis, keys: ModelKeys) -> None:
    """Deflate all messages of the model that are compressed otherwise; raises what redis-py raises.

    A message that cannot be read stays as it is.
    """
    message_keys: Any = await client.zrange(keys.recent, 0, -1)
    for first in range(0, len(message_keys), _MESSAGES_PER_STEP):
        stored_keys = [keys.checked(key.decode()) for key in message_keys[first : first + _MESSAGES_PER_STEP]]
        values: Any = await client.mget(stored_keys)
        async with client.pipeline(transaction=False) as pipe:
            for stored_key, packed in zip(stored_keys, values, strict=True):
                if packed and (deflated := _deflated(packed)):
                    pipe.set(stored_key, deflated, xx=True, keepttl=True)
            await pipe.execute()


def _deflated(packed: bytes) -> bytes | None:
    """Return the message and its explanation in the form of the former schema; None where nothing is to do."""
    if not compression.is_compressed(packed):
        return None
    try:
        content, explanation = compression.decompress_first(packed)
    except ValueError:
        return None
    return compression.deflate(content) + explanation
