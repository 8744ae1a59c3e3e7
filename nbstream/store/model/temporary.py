"""A model in Redis that exists only for one measurement.

Rules: its name is drawn at random, so that it is no other model's; its keys are removed however the measurement
ends, unless a signal kills the process. The keys are searched by bounded SCANs for the hash tag of the model:
nothing else lists the keys of a ledger.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nbstream.errors import StoreUnavailable
from nbstream.policy.config_bounds import MAX_FIRST_SCORES
from nbstream.store.model.model import Model
from nbstream.store.model.reads import scan_keys
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

_SCAN_COUNT = 1000  # keys a step: well under a millisecond of Redis


def temporary_name(purpose: str) -> str:
    """A name for a temporary model that no other model has."""
    return f"{purpose}-{secrets.token_hex(8)}"


@asynccontextmanager
async def temporary_model(
    client: Redis, name: str, ledger_seconds: int, first_scores: int = MAX_FIRST_SCORES
) -> AsyncIterator[Model]:
    """A model with the ``name``, empty at first and removed at the end; the rest is as in ``Model``.

    Raises ``StoreUnavailable``, also where the model could not be removed; the text then names the keys that
    may be left.
    """
    model = Model(client, name, ledger_seconds, first_scores=first_scores)
    try:
        await model.open()
        yield model
    finally:
        await _remove_keys(client, model.keys.pattern)


async def _remove_keys(client: Redis, pattern: str) -> None:
    try:
        with store_errors():
            async for keys in scan_keys(client, pattern, _SCAN_COUNT):
                await client.unlink(*keys)
    except StoreUnavailable as error:
        raise type(error)(f"{error}; the keys {pattern} may be left there") from error
