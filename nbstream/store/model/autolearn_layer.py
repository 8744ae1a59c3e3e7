"""Two layers of counts: what people taught, and beside it what was learned without them, which can be dropped.

Rules: the second layer is a model of its own, with counts, totals, ledger, change stream and history under names
of its own, so all that holds of a model holds of it. Its keys carry an epoch. Dropping it is one step, to the next
epoch; the keys of the last one are removed afterwards, and whoever still writes there writes to nothing that is
read. The numbers of changes go on over epochs, with a gap, so mirrors load anew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from nbstream.bayes.counts import Totals
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.store.model import time_base
from nbstream.store.model.keys import AutolearnKeys, ModelKeys
from nbstream.store.model.model import Model, lua_script, store_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from redis.asyncio import Redis

    from nbstream.bayes.half_life import HalfLife
    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.model.ledger import LedgerEntry

_SCAN_COUNT = 500
_OLD_STREAM_SECONDS = 60  # mirrors that follow the old epoch read of its end within a second


class AutolearnModel(Model):
    """The layer of a model that is learned without people."""

    def __init__(self, client: Redis, name: str, ledger_seconds: int) -> None:
        super().__init__(client, name, ledger_seconds)
        self.keys: AutolearnKeys = AutolearnKeys(name, 0)

    async def open(self, *, sign: bool = True, like: HalfLife | None = None) -> None:
        """As a model does, in the epoch that holds now; by default with the time base of what people taught."""
        await self._read_epoch()
        await super().open(sign=sign, like=like or await self._time_base_of_people())

    async def _time_base_of_people(self) -> HalfLife:
        with store_errors():
            stored: Any = await self.client.hget(ModelKeys(self.keys.model).schema, time_base.HALF_LIFE_FIELD)
        return time_base.unpack_half_life((stored or b"").decode())

    async def entry(self, message_key: str) -> LedgerEntry | None:
        """What the message was learned as in the epoch that holds now, or None."""
        await self._read_epoch()
        return await super().entry(message_key)

    async def entries(self, message_keys: Sequence[str]) -> list[LedgerEntry | StoreIncompatible | None]:
        """As a model's, of the epoch that holds now."""
        await self._read_epoch()
        return await super().entries(message_keys)

    async def ledger_keys(self, former_keys: Mapping[str, str]) -> dict[str, str]:
        """As a model's, of the epoch that holds now. The layer was migrated together with its model."""
        await self._read_epoch()
        return await super().ledger_keys(former_keys)

    async def totals(self) -> Totals:
        """The totals of the epoch that holds now."""
        await self._read_epoch()
        return await super().totals()

    async def ledger_tokens(self) -> AsyncIterator[list[bytes]]:
        """As a model's, of the epoch that holds now."""
        await self._read_epoch()
        async for packed in super().ledger_tokens():
            yield packed

    async def disputed_messages(self, people: Model) -> AsyncIterator[str]:
        """The keys of the messages in this layer's ledger that are in the one of ``people`` too."""
        await self._read_epoch()
        start, cursor = len(self.keys.ledger("")), None
        while cursor != 0:
            with store_errors():
                reply: Any = await self.client.scan(cursor or 0, self.keys.ledger_pattern, _SCAN_COUNT)
                cursor, found = reply
                message_keys = [name[start:].decode() for name in found]
                async with self.client.pipeline(transaction=False) as pipe:
                    for message_key in message_keys:
                        pipe.exists(people.keys.ledger(message_key))
                    taught = await pipe.execute()
            for message_key, is_taught in zip(message_keys, taught, strict=True):
                if is_taught:
                    yield message_key

    async def _read_epoch(self) -> None:
        with store_errors():
            epoch: Any = await self.client.get(self.keys.epoch_key)
        self.keys = AutolearnKeys(self.keys.model, int(epoch or 0))

    async def drop_epoch(self) -> Totals:
        """Drop all that the layer holds; what that was. May be repeated, also after an interruption.

        Raises ``StoreUnavailable``; what is still there then is dropped, or not, but never half.
        """
        totals = await self.totals()
        old, new = self.keys, AutolearnKeys(self.keys.model, self.keys.epoch + 1)
        with store_errors():
            if await self.client.exists(old.totals, *old.counts, old.history):
                await self.client.register_script(lua_script("drop.lua"))(
                    keys=[old.epoch_key, old.sequence, old.changes, new.sequence],
                    args=[old.epoch, new.epoch, _OLD_STREAM_SECONDS],
                )
        await self._read_epoch()
        await self._remove_old_epochs()
        return totals

    async def _remove_old_epochs(self) -> None:
        """Remove what former epochs have left, by bounded steps."""
        kept, told = self.keys.prefix.encode(), ("sequence", "changes")
        cursor = None
        while cursor != 0:
            with store_errors():
                reply: Any = await self.client.scan(cursor or 0, match=self.keys.all_epochs, count=_SCAN_COUNT)
                cursor, found = reply
                former = [
                    key
                    for key in found
                    if not key.startswith(kept) and key.rpartition(b":")[2].decode() not in told
                ]
                if former:
                    await self.client.unlink(*former)


class CountsLayer(Protocol):
    """One layer's counts."""

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` or sums, shape (n, classes), and the totals."""

    async def vocabulary_counts(self) -> NDArray[np.int64]:
        """The counts of all tokens, without sums."""

    async def wait_until_applied(self, change: bytes) -> None:
        """Return when ``look_up`` shows the change."""

    @property
    def half_life(self) -> HalfLife:
        """The time base of the counts."""

    async def first_scores(self) -> FirstScores:
        """The recent messages' P(spam) before their first label."""


class LayeredCounts:
    """The counts of both layers added up; while the second cannot be read, those of the first.

    The number of messages is the first's: what people taught makes a model ready, and the prior. The vocabulary is
    the sum, so tokens that both hold count twice: between one and two times what it is, and its part in each
    class's smoothing the same.
    """

    def __init__(self, people: CountsLayer, auto: CountsLayer) -> None:
        self._people = people
        self._auto = auto

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` or sums, shape (n, classes), and the totals."""
        rows, totals = await self._people.look_up(tokens)
        try:
            more, others = await self._auto.look_up(tokens)
        except StoreUnavailable:
            return rows, totals
        weights = tuple(a + b for a, b in zip(totals.tokens, others.tokens, strict=True))
        return rows + more, Totals(totals.messages, weights, totals.vocabulary_size + others.vocabulary_size)

    async def first_scores(self) -> FirstScores:
        """The first layer's: those of the labels that people gave."""
        return await self._people.first_scores()

    @property
    def half_life(self) -> HalfLife:
        """That of both layers."""
        return self._people.half_life

    async def vocabulary_counts(self) -> NDArray[np.int64]:
        """The first layer's: what needs all tokens does not go with a second layer."""
        return await self._people.vocabulary_counts()

    async def wait_until_applied(self, change: bytes) -> None:
        """Return when ``look_up`` shows the change of the first layer."""
        await self._people.wait_until_applied(change)
