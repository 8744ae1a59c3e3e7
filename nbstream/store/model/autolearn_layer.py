"""The autolearn layer: what was learned without people, stored beside what they taught, and dropped as a whole.

Rules: the layer is a model of its own, with counts, totals, ledger, change stream and history under key
names of its own; therefore it has all the properties of a model. Its keys carry an epoch. To drop the layer is one
step to the next epoch. The keys of the former epoch are removed afterwards, and nobody reads what a late writer
adds to them. The sequence numbers of the changes continue in the next epoch, with a gap: mirrors load anew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Self

from nbstream.store.lua import lua_script
from nbstream.store.model.keys import AutolearnKeys
from nbstream.store.model.model import Model
from nbstream.store.model.scan import scan_keys
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.bayes.counts import Totals

_OLD_STREAM_SECONDS = 60  # a mirror that follows the old epoch reads the end of its stream within a second
_KEYS_THAT_EXPIRE = ("sequence", "changes")


class AutolearnModel(Model):
    """The layer of a model that is learned without people.

    It has the keys of the epoch that was current when it last looked; every read looks first. A lesson goes to the
    epoch of the last read, since it replaces what that read returned: after a drop it is lost with its epoch, or
    finds no entry there. What is learned without people is acknowledged to nobody, so it waits for no replicas.
    """

    keys: AutolearnKeys

    def __init__(self, client: Redis, name: str, ledger_seconds: int, key_fingerprint: str = "") -> None:
        super().__init__(client, AutolearnKeys(name, 0), ledger_seconds, key_fingerprint=key_fingerprint)

    async def _look_for_keys(self) -> None:
        with store_errors():
            epoch: Any = await self.client.get(self.keys.epoch_key)
        if int(epoch or 0) != self.keys.epoch:
            self._use_keys(AutolearnKeys(self.keys.model, int(epoch or 0)))

    async def open(self, *, sign: bool = True) -> Self:
        """Check that this program can use the current epoch, and return the layer; see ``Model.open``."""
        await self._look_for_keys()
        return await super().open(sign=sign)

    async def last_change(self) -> bytes:
        """The stream id of the last change in the current epoch; empty before the first one."""
        await self._look_for_keys()
        return await super().last_change()

    async def disputed_messages(self, people: Model) -> AsyncIterator[str]:
        """The keys of the messages that are in the ledger of this layer and in the ledger of ``people`` too."""
        await self._look_for_keys()
        keys = self.keys
        prefix_length = len(keys.ledger(""))
        with store_errors():
            async for entry_keys in scan_keys(self.client, keys.ledger_pattern):
                message_keys = [key[prefix_length:].decode() for key in entry_keys]
                async with self.client.pipeline(transaction=False) as pipe:
                    for message_key in message_keys:
                        pipe.exists(people.keys.ledger(message_key))
                    labelled = await pipe.execute()
                for message_key, is_labelled in zip(message_keys, labelled, strict=True):
                    if is_labelled:
                        yield message_key

    async def drop_epoch(self) -> Totals:
        """Drop all that the layer holds, and return the totals of that.

        May be repeated, also after an interruption. Raises ``StoreUnavailable``: the layer is dropped then, or
        not, but never half.
        """
        totals = await self.totals()
        old, new = self.keys, AutolearnKeys(self.keys.model, self.keys.epoch + 1)
        with store_errors():
            if await self.client.exists(old.totals, *old.counts, old.history):
                await self.client.register_script(lua_script("drop_epoch.lua"))(
                    keys=[old.epoch_key, old.sequence, old.changes, new.sequence],
                    args=[old.epoch, new.epoch, _OLD_STREAM_SECONDS],
                )
        await self._look_for_keys()
        await self._remove_former_epochs()
        return totals

    async def _remove_former_epochs(self) -> None:
        """Remove the keys that former epochs have left, in bounded steps."""
        current_prefix = self.keys.prefix.encode()
        with store_errors():
            async for keys in scan_keys(self.client, self.keys.all_epochs):
                former_keys = [
                    key
                    for key in keys
                    if not key.startswith(current_prefix)
                    and key.rpartition(b":")[2].decode() not in _KEYS_THAT_EXPIRE
                ]
                if former_keys:
                    await self.client.unlink(*former_keys)
