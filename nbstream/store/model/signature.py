"""The signature of a model: the number of its format, and the key of its private tokens.

Rules: the signature is checked before anything else is read. The first writer signs the model in one step; a
program that needs another signature refuses the model and leaves it as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbstream.errors import StoreIncompatible
from nbstream.tokens import MODEL_FORMAT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys


_ESCAPED = "backslashreplace"

_FORMAT_FIELD, _KEY_FIELD = "format", "private_tokens"


def current_signature(key_fingerprint: str = "") -> dict[str, str]:
    """The signature that a model, or a file with one, needs for this program to use it.

    ``key_fingerprint`` is that of the key of its private tokens, empty for a model in words.
    """
    return {_FORMAT_FIELD: str(MODEL_FORMAT), _KEY_FIELD: key_fingerprint}


def difference(stored: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """What is ``stored`` and what this program needs (``ours``), in words; empty where it can use the model."""
    theirs = {**ours, **stored}
    if theirs[_FORMAT_FIELD] != ours[_FORMAT_FIELD]:
        return f"format {theirs[_FORMAT_FIELD]}, and this nbstream has format {ours[_FORMAT_FIELD]}"
    if theirs[_KEY_FIELD] != ours[_KEY_FIELD]:
        return f"{_describe_tokens(theirs)}, and the configuration asks for {_describe_tokens(ours)}"
    return ""


def _describe_tokens(signature: Mapping[str, str]) -> str:
    key = signature[_KEY_FIELD]
    return f"private tokens under the key {key}" if key else "tokens in words"


async def verify_signature(client: Redis, keys: ModelKeys, *, sign: bool, key_fingerprint: str = "") -> None:
    """Check that this program can use the model; ``sign`` says whether a new model is signed.

    Raises ``StoreIncompatible``, and what redis-py raises.
    """
    ours = current_signature(key_fingerprint)
    stored = await _read_signature(client, keys)
    if sign and not ours.keys() <= stored.keys():  # a server that refuses writes can still be read
        async with client.pipeline(transaction=True) as pipe:
            for field, value in ours.items():
                pipe.hsetnx(keys.schema, field, value)
            await pipe.execute()
        stored = await _read_signature(client, keys)
    if found := difference(stored, ours):
        raise StoreIncompatible(
            f"model {keys.model!r} has {found}: put back the nbstream, model.private_tokens and the key file that "
            "wrote it, or set model.name to a new name and teach that one"
        )


async def _read_signature(client: Redis, keys: ModelKeys) -> dict[str, str]:
    """Return the schema as text; bytes that are no UTF-8 are escaped, and differ from every value."""
    fields: Any = await client.hgetall(keys.schema)
    return {name.decode("utf-8", _ESCAPED): value.decode("utf-8", _ESCAPED) for name, value in fields.items()}
