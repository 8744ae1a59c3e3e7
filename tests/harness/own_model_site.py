"""A common model with own models below it, as a daemon has them, for tests."""

from __future__ import annotations

import ctypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import Redis

from nbstream.filter import Filter, FilterObserver
from nbstream.filter.own_models.filters import OwnFilters
from nbstream.filter.own_models.index import OwnModelKeys
from nbstream.filter.own_models.store import OwnModels
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.own_models.names import NameTemplate, OwnModelNames
from nbstream.server.background import BackgroundTasks
from nbstream.store.connection import client_of
from nbstream.store.follower.follower import Followed, Follower
from nbstream.store.model.model import Model
from tests.harness.filters import make_filter

ANN, BOB = "ann@example.org", "bob@example.org"


@dataclass(frozen=True)
class Site:
    """The parts of one process."""

    common: Filter
    models: OwnModels
    filters: OwnFilters

    async def filter_of(self, address: str) -> Filter:
        """The filter that checks mail for the address."""
        (own,) = await self.filters.for_recipients([address])
        return own


def own_model(client: Redis, name: str) -> Model:
    """The own model of this name."""
    keys = OwnModelKeys("test", name)
    return Model(client_of(client, keys.totals), keys, 3600, max_changes=20)


@asynccontextmanager
async def open_site(
    client: Redis,
    template: str = "{domain}/{local}",
    observer: FilterObserver | None = None,
    max_bytes: int = 64 << 20,
    *,
    follows: bool = True,
    library: ctypes.CDLL | None = None,
) -> AsyncIterator[Site]:
    """A process over the model ``test``; with ``follows`` it follows the own models in memory.

    Counts are in tables of the native ``library``, if there is one.
    """
    common = make_filter(client, observer)
    models = OwnModels(
        lambda name: own_model(client, name),
        client,
        "test",
        max_bytes=max_bytes,
        library=library,
    )
    names = OwnModelNames((AddressPattern("*@example.org"),), (NameTemplate(template),), "+")
    background = BackgroundTasks(lambda _name, _failures: None)
    if follows:
        background.every("own models", 60.0, models.look)
        of_clients: dict[Redis, list[Followed]] = {}
        for part in (models.listed, *models.buckets):
            of_clients.setdefault(client_of(client, part.stream), []).append(part)
        for of_client, parts in of_clients.items():
            background.start("follower", Follower(of_client, parts).run)
    try:
        yield Site(common, models, OwnFilters(common, names, models, wait_seconds=5.0))
    finally:
        await background.stop()
        await models.close()
