"""The filter of an address: that of its own model above the common one, or the common one alone.

Rules: mail waits a bounded time for an own model. After that, or whatever is wrong with the model, its former
counts serve if they are in memory; else the common filter checks the mail, and the check says that the own model
is missing. A message for very many users is checked by the own models of the first of them. A lesson waits for
its own model for some seconds, and fails where Redis fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from nbstream.filter import OWN_MODEL_UNAVAILABLE, Filter
from nbstream.policy.envelope import MAX_ADDRESS_LENGTH

if TYPE_CHECKING:
    from nbstream.filter.own_models.store import OwnCounts, OwnModels
    from nbstream.policy.own_models.names import OwnModelNames

MAX_MODELS_OF_A_MESSAGE = 50
"""The recipients of one message whose own models check it, at most: each costs about as much as a check."""

WAIT_SECONDS = 0.2
"""How long mail waits for an own model: it is loaded in some milliseconds, unless Redis is slow or away."""

_MAX_KNOWN_LEVELS = 10_000  # addresses: some 2 MB
_ADDRESSES_PER_STEP = 50  # that are looked up: with 200 rules some 3 ms


@dataclass(frozen=True)
class OwnFilters:
    """Finds filters: ``names`` says who has which own model, ``models`` has their counts.

    ``common`` is the filter of the common model. Mail waits at most ``wait_seconds`` for the models of its
    recipients.
    """

    common: Filter
    names: OwnModelNames
    models: OwnModels
    wait_seconds: float = WAIT_SECONDS

    async def for_recipients(self, addresses: Sequence[str]) -> list[Filter]:
        """Return the filter of each of these addresses: the very same one for addresses of the same model."""
        levels = await self._levels_of_all(addresses)
        filters: dict[tuple[str, ...], Filter] = {(): self.common}
        own = [path for path in dict.fromkeys(levels) if path][:MAX_MODELS_OF_A_MESSAGE]
        names = dict.fromkeys(name for path in own for name in path)
        untaught = {name: self.models.untaught(name) for name in names if not self.models.find(name)}
        if missing := [name for name, counts in untaught.items() if not counts]:
            await asyncio.gather(*(self._try_to_load(name) for name in missing))
        for path in own:
            counts = [untaught.get(name) or self.models.find_former(name) for name in path]
            found = [level for level in counts if level is not None]
            if len(found) == len(path):
                filters[path] = self._filter(path[-1], found)
        return [filters.get(path) or self._without_own_model for path in levels]

    @cached_property
    def _without_own_model(self) -> Filter:
        """The common filter for those whose own model is missing."""
        return Filter(replace(self.common.parts, own_model=OWN_MODEL_UNAVAILABLE), self.common.policy)

    async def _levels_of_all(self, addresses: Sequence[str]) -> list[tuple[str, ...]]:
        all_levels = []
        for number, address in enumerate(addresses, 1):
            all_levels.append(self._levels_of(address))
            if number % _ADDRESSES_PER_STEP == 0:
                await asyncio.sleep(0)
        return all_levels

    def _levels_of(self, address: str) -> tuple[str, ...]:
        """Return the names of the own models of ``address``, none where it is too long for an address."""
        return self._known_levels(address) if len(address) <= MAX_ADDRESS_LENGTH else ()

    @cached_property
    def _known_levels(self) -> Callable[[str], tuple[str, ...]]:
        return lru_cache(_MAX_KNOWN_LEVELS)(self.names.levels_of)

    async def for_user(self, address: str, *, sign: bool = True) -> Filter:
        """Return the filter of the user of ``address``: the common one without a rule. It may take some seconds.

        ``sign``: they are about to teach it, and it is listed. Raises ``StoreUnavailable`` and
        ``StoreIncompatible``.
        """
        path = self._levels_of(address)
        if not path:
            return self.common
        parents = [await self.models.load(name) for name in path[:-1]]
        load = self.models.load_for_lesson if sign else self.models.load
        return self._filter(path[-1], [*parents, await load(path[-1])])

    async def _try_to_load(self, name: str) -> None:
        try:
            await self.models.load(name, self.wait_seconds)
        except Exception:  # noqa: BLE001 - the common model can check the mail, whatever is wrong with this one
            return  # the load itself says why, and those who ask for the filter see that it is missing

    def _filter(self, name: str, levels: Sequence[OwnCounts]) -> Filter:
        """Return the filter over these levels: the one of the last message, unless anything is another."""
        own, basis = levels[-1], (self.common, *levels[:-1])
        if own.filter is None or own.filter[0] != basis:
            parts = self.common.parts
            parents = (parts.counts, *levels[:-1])
            own_parts = replace(parts, model=own.model, counts=own, parents=parents, own_model=name)
            own.filter = basis, Filter(own_parts, self.common.policy)
        return own.filter[1]
