"""The fair sample of a model: a field of its schema, beside the signature.

Rules: a daemon that begins to follow a model writes the share of its configuration, once for all processes and
machines that share the model. A model that never had a share above 0 has no such field. Older versions do not read
it.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError, WatchError

from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.policy.fair_sample import FairSample
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys

_FIELD = "sample"
_KEY_BYTES = 16
_TRIES = 10


async def read_sample(client: Redis, keys: ModelKeys) -> FairSample:
    """Return the sample of the model. Raises ``StoreIncompatible`` for what this program did not write."""
    with store_errors():
        packed: Any = await client.hget(keys.schema, _FIELD)
    return _unpack(packed)


async def write_sample(client: Redis, keys: ModelKeys, sample: FairSample) -> None:
    """Write the sample of a model that nobody has taught yet."""
    with store_errors():
        await client.hset(keys.schema, _FIELD, sample.pack())


async def write_share(client: Redis, keys: ModelKeys, share: float, now: float) -> FairSample:
    """Draw this share of all messages from ``now`` on (seconds since the epoch), and return the sample.

    What was answered before stays in the sample. Nothing is written where the share holds already.
    """
    for _ in range(_TRIES):
        with store_errors():
            async with client.pipeline(transaction=True) as pipe:
                await pipe.watch(keys.schema)
                packed: Any = await pipe.hget(keys.schema, _FIELD)
                stored = _unpack(packed)
                named = stored if stored.key else FairSample(secrets.token_hex(_KEY_BYTES))
                sample = named.with_share(share, now)
                if sample.shares == stored.shares:
                    return stored
                pipe.multi()  # type: ignore[no-untyped-call]  # redis-py has no type here
                pipe.hset(keys.schema, _FIELD, sample.pack())
                try:
                    await pipe.execute()
                except WatchError:
                    continue
                except ResponseError as error:  # redis-py writes the whole command into it, and the key is secret
                    error.args = tuple(str(arg).replace(sample.key, "...") for arg in error.args)
                    raise
                return sample
    raise StoreUnavailable("the model was changed at this moment: try again")


def _unpack(packed: bytes | None) -> FairSample:
    try:
        return FairSample.unpack((packed or b"").decode())
    except ValueError as error:
        raise StoreIncompatible("the fair sample of the model cannot be read: another program wrote it") from error
