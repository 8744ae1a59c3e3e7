"""A model in Redis for as long as somebody measures with it.

Rules: its name is drawn, so that no other model is met; its keys are removed however the use of it ends, short of
a signal that kills the process. They are found by bounded SCANs for its own hash tag, as nothing else keeps a list
of a ledger's keys.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from nbstream.errors import StoreUnavailable
from nbstream.store.model.model import Model
from nbstream.store.model.retention import MAX_FIRST_SCORES
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

_SCAN_COUNT = 1000  # keys a step: well under a millisecond of Redis


@asynccontextmanager
async def temporary_model(
    client: Redis, purpose: str, ledger_seconds: int, first_scores: int = MAX_FIRST_SCORES
) -> AsyncIterator[Model]:
    """A model called ``purpose`` and a drawn number, empty at first, removed at the end; the rest as in ``Model``.

    Raises ``StoreUnavailable``, also where the model could not be removed; the text names what was left then.
    """
    model = Model(client, f"{purpose}-{secrets.token_hex(8)}", ledger_seconds, first_scores=first_scores)
    try:
        await model.open()
        yield model
    finally:
        await _remove_keys(client, model.keys.pattern)


async def _remove_keys(client: Redis, pattern: str) -> None:
    try:
        with store_errors():
            cursor = None
            while cursor != 0:
                reply: Any = await client.scan(cursor or 0, match=pattern, count=_SCAN_COUNT)
                cursor, found = reply
                if found:
                    await client.unlink(*found)
    except StoreUnavailable as error:
        raise type(error)(f"{error}; the keys {pattern} may be left there") from error
