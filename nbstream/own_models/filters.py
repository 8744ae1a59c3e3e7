"""The filter of an address: that of its own model above the common one, or the common one alone.

Rules: mail waits a bounded time for an own model; after that the common filter checks it, and the check says that
the own model is missing. A message for very many users is checked by the own models of the first of them. A lesson
waits for its own model as it waits for Redis, and fails where that fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.filter import OWN_MODEL_UNAVAILABLE, Filter

if TYPE_CHECKING:
    from nbstream.own_models.names import OwnModelNames
    from nbstream.own_models.store import OwnCounts, OwnModels

MAX_MODELS_OF_A_MESSAGE = 50
"""The recipients of one message whose own models check it, at most: each costs about as much as a check."""


@dataclass(frozen=True, slots=True)
class OwnFilters:
    """Finds filters: ``names`` says who has which own model, ``models`` has their counts.

    ``common`` is the filter of the common model. Mail waits at most ``wait_seconds`` for the models of its
    recipients.
    """

    common: Filter
    names: OwnModelNames
    models: OwnModels
    wait_seconds: float

    async def for_recipients(self, addresses: Sequence[str]) -> list[Filter]:
        """Return the filter of each of these addresses: the very same one for addresses of the same model."""
        levels = [self.names.levels_of(address) for address in addresses]
        own = [path for path in dict.fromkeys(levels) if path][:MAX_MODELS_OF_A_MESSAGE]
        wanted = list(dict.fromkeys(name for path in own for name in path))
        missing = [name for name in wanted if self.models.find(name) is None]
        if missing:
            await asyncio.gather(*(self._try_to_load(name) for name in missing))
        filters: dict[tuple[str, ...], Filter] = {(): self.common}
        unavailable: Filter | None = None
        for path in own:
            counts = [self.models.find(name) for name in path]
            found = [level for level in counts if level is not None]
            if len(found) == len(path):
                filters[path] = self._filter(path[-1], found)
        result = []
        for path in levels:
            if path not in filters:
                unavailable = unavailable or _without_own_model(self.common)
                filters[path] = unavailable
            result.append(filters[path])
        return result

    async def for_teacher(self, address: str) -> Filter:
        """Return the filter that learns what the user of ``address`` teaches: the common one without a rule.

        Raises ``StoreUnavailable`` and ``StoreIncompatible``.
        """
        path = self.names.levels_of(address)
        if not path:
            return self.common
        parents = [await self.models.load(name) for name in path[:-1]]
        return self._filter(path[-1], [*parents, await self.models.load_to_teach(path[-1])])

    async def _try_to_load(self, name: str) -> None:
        try:
            await self.models.load(name, self.wait_seconds)
        except (StoreUnavailable, StoreIncompatible):
            return  # those who ask for the filter see that it is missing

    def _filter(self, name: str, levels: Sequence[OwnCounts]) -> Filter:
        parts = self.common.parts
        own = levels[-1]
        own_parts = replace(
            parts,
            model=own.model,
            counts=own,
            parents=(parts.counts, *levels[:-1]),
            own_model=name,
        )
        return Filter(own_parts, self.common.policy)


def _without_own_model(common: Filter) -> Filter:
    return Filter(replace(common.parts, own_model=OWN_MODEL_UNAVAILABLE), common.policy)
