"""What each user has chosen, in Redis beside the common model; who has chosen nothing has no entry there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys

_BATCH = 1000  # addresses a command


class UserPreferences:
    """The choices of the users; addresses are normalized. All methods raise ``StoreUnavailable``."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._digest_off = keys.digest_off

    async def wants_digest(self, address: str) -> bool:
        """Return whether the user has not switched the digest off."""
        return bool(await self.want_digest([address]))

    async def set_digest(self, address: str, *, wanted: bool) -> None:
        """Switch the digest of the user on or off; to do it twice changes nothing."""
        with store_errors():
            if wanted:
                await self._client.hdel(self._digest_off, _encode(address))
            else:
                await self._client.hset(self._digest_off, _encode(address), "1")

    async def want_digest(self, addresses: Sequence[str]) -> Collection[str]:
        """Return those of the users who have not switched the digest off."""
        wanting = []
        for start in range(0, len(addresses), _BATCH):
            batch = addresses[start : start + _BATCH]
            with store_errors(), readable_replies():
                are_off = await self._client.hmget(self._digest_off, list(map(_encode, batch)))
                wanting += [address for address, is_off in zip(batch, are_off, strict=True) if is_off is None]
        return wanting

    async def forget(self, address: str) -> None:
        """Forget what the user has chosen."""
        await self.set_digest(address, wanted=True)


def _encode(address: str) -> bytes:
    return address.encode("utf-8", "surrogateescape")
