"""Which messages users have labelled in their own models, for whoever looks for mail that nobody has labelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys


class UserLabels:
    """The messages that users have labelled in own models below the model of ``keys``, each for ``seconds``."""

    def __init__(self, client: Redis, keys: ModelKeys, seconds: int) -> None:
        self._client = client
        self._keys = keys
        self._seconds = seconds

    async def add(self, message_key: str) -> None:
        """Note that a user labels the message. Raises ``StoreUnavailable``."""
        with store_errors():
            await self._client.set(self._keys.user_labelled(message_key), b"", ex=self._seconds)

    async def has(self, message_key: str) -> bool:
        """Return whether a user has labelled the message, taken back or not. Raises ``StoreUnavailable``."""
        with store_errors():
            return bool(await self._client.exists(self._keys.user_labelled(message_key)))
