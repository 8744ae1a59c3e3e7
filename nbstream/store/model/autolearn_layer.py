"""The autolearn layer: what was learned without people, stored beside what they taught, and dropped as a whole.

Rules: the layer is a model of its own, with counts, totals, ledger, change stream and history under key
names of its own; therefore it has all the properties of a model. Its keys carry an epoch. To drop the layer is one
step to the next epoch. The keys of the former epoch are removed afterwards, and nobody reads what a late writer
adds to them. The sequence numbers of the changes continue in the next epoch, with a gap: mirrors load anew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import Totals
from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.store.lua import lua_script
from nbstream.store.model import signature as time_base
from nbstream.store.model.keys import AutolearnKeys, ModelKeys
from nbstream.store.model.model import Model
from nbstream.store.model.scan import scan_keys
from nbstream.store.model.signature import read_schema
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from redis.asyncio import Redis

    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
    from nbstream.store.model.model import Eviction
    from nbstream.store.model.scripts import LessonBatch

_OLD_STREAM_SECONDS = 60  # a mirror that follows the old epoch reads the end of its stream within a second
_KEYS_THAT_EXPIRE = ("sequence", "changes")


class AutolearnModel:
    """The layer of a model that is learned without people.

    It holds the model of the epoch that was current when it last looked, and makes another one when the epoch has
    changed. Every read looks first. A lesson goes to the epoch of the last read, since it replaces what that read
    returned: after a drop it is lost with its epoch, or finds no entry there.
    """

    def __init__(self, client: Redis, name: str, ledger_seconds: int) -> None:
        self.client = client
        self.half_life: HalfLife = NO_HALF_LIFE
        self._ledger_seconds = ledger_seconds
        self._use_epoch(AutolearnKeys(name, 0))

    def _use_epoch(self, keys: AutolearnKeys) -> None:
        self.keys = keys
        self._model = Model(self.client, keys, self._ledger_seconds)

    async def current_model(self) -> Model:
        """The model of the current epoch. Raises ``StoreUnavailable``."""
        with store_errors():
            epoch: Any = await self.client.get(self.keys.epoch_key)
        if int(epoch or 0) != self.keys.epoch:
            self._use_epoch(AutolearnKeys(self.keys.model, int(epoch or 0)))
        return self._model

    async def open(self, *, sign: bool = True) -> Model:
        """Check that this program can use the current epoch, and return its model; see ``Model.open``.

        The layer has the time base of what people taught.
        """
        model = await self.current_model()
        with store_errors():
            fields: Any = await self.client.hgetall(ModelKeys(self.keys.model).schema)
        half_life = time_base.unpack_half_life(read_schema(fields).get(time_base.HALF_LIFE_FIELD, ""))
        await model.open(sign=sign, time_base=half_life)
        self.half_life = model.half_life
        return model

    @property
    def native_table(self) -> None:
        """None: Redis has the counts."""

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` or sums, shape (n, classes), and the totals of the current epoch."""
        return await (await self.current_model()).look_up(tokens)

    async def totals(self) -> Totals:
        """The totals of the current epoch."""
        return await (await self.current_model()).totals()

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """The counts of these sums of the current epoch, shape (n, classes)."""
        return await (await self.current_model()).sums(names)

    async def first_scores(self) -> FirstScores:
        """The first scores of the current epoch: none, since nobody labelled these messages."""
        return await (await self.current_model()).first_scores()

    async def last_change(self) -> bytes:
        """The stream id of the last change in the current epoch; empty before the first one."""
        return await (await self.current_model()).last_change()

    async def wait_until_applied(self, change: bytes) -> None:
        """Return at once: every look-up sees every change."""

    async def entry(self, message_key: str) -> LedgerEntry | None:
        """What the message was learned as in the current epoch, or None."""
        return await (await self.current_model()).entry(message_key)

    async def entries(self, message_keys: Sequence[str]) -> list[LedgerEntry | StoreIncompatible | None]:
        """What each of these messages was learned as in the current epoch; see ``Model.entries``."""
        return await (await self.current_model()).entries(message_keys)

    async def disputed_messages(self, people: Model) -> AsyncIterator[str]:
        """The keys of the messages that are in the ledger of this layer and in the ledger of ``people`` too."""
        keys = (await self.current_model()).keys
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

    async def ledger_tokens(self) -> AsyncIterator[list[bytes]]:
        """The tokens of all live ledger entries of the current epoch; see ``Model.ledger_tokens``."""
        async for packed_tokens in (await self.current_model()).ledger_tokens():
            yield packed_tokens

    async def evict(
        self, tokens: Sequence[bytes], counts: NDArray[np.int64], vocabulary: int | None
    ) -> Eviction | None:
        """Remove those ``tokens`` that still have these ``counts`` in the current epoch; see ``Model.evict``."""
        return await (await self.current_model()).evict(tokens, counts, vocabulary)

    async def commit_lesson(
        self, message_key: str, old: LedgerEntry | None, new: LedgerEntry | None, note: LessonNote
    ) -> bytes | LedgerConflict:
        """Commit a lesson in the epoch of the last read; see ``Model.commit_lesson``."""
        return await self._model.commit_lesson(message_key, old, new, note)

    async def commit_lessons(
        self, batch: LessonBatch
    ) -> list[bytes | LedgerConflict | StoreUnavailable | StoreIncompatible]:
        """Commit the lessons of a batch in the epoch of the last read; see ``Model.commit_lessons``."""
        return await self._model.commit_lessons(batch)

    async def confirm(self) -> None:
        """Return at once: what is learned without people is acknowledged to nobody."""

    async def drop_epoch(self) -> Totals:
        """Drop all that the layer holds, and return the totals of that.

        May be repeated, also after an interruption. Raises ``StoreUnavailable``: the layer is dropped then, or
        not, but never half.
        """
        model = await self.current_model()
        old, new = self.keys, AutolearnKeys(self.keys.model, self.keys.epoch + 1)
        totals = await model.totals()
        with store_errors():
            if await self.client.exists(old.totals, *old.counts, old.history):
                await self.client.register_script(lua_script("drop_epoch.lua"))(
                    keys=[old.epoch_key, old.sequence, old.changes, new.sequence],
                    args=[old.epoch, new.epoch, _OLD_STREAM_SECONDS],
                )
        await self.current_model()
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
