"""The signature of a model: the schema, tokenizer and classes with which it was written.

Rules: the signature is checked before anything else is read. The first writer signs the model in one step; a
program that needs another signature refuses the model and leaves it as it is.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from nbstream.bayes.counts import CLASSES, WEIGHT_ONE
from nbstream.errors import StoreIncompatible
from nbstream.tokens import FORMER_TOKENIZERS, TOKENIZER_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys


SCHEMA_VERSION = 3
"""Raised whenever keys, stored forms or their meaning change."""

_ESCAPED = "backslashreplace"

_IDENTITY_FIELD = "identity"
"""A field of the schema, drawn at random once for each model."""


_PRIVATE = "-private-"  # a part of the tokenizer: releases that know no private tokens refuse the model


def current_signature(key_fingerprint: str = "") -> dict[str, str]:
    """The signature that a model needs for this program to use it.

    ``key_fingerprint`` is that of the key of its private tokens, empty for a model in words.
    """
    private = f"{_PRIVATE}{key_fingerprint}" if key_fingerprint else ""
    return {
        "schema": str(SCHEMA_VERSION),
        "tokenizer": f"{TOKENIZER_VERSION}{private}",
        "classes": ",".join(CLASSES),
        "weight_one": str(WEIGHT_ONE),
    }


def is_former(stored: Mapping[str, str], ours: Mapping[str, str]) -> bool:
    """Whether the signature ``stored`` differs from ``ours`` in nothing but a tokenizer that can be migrated."""
    former, private, key = stored.get("tokenizer", "").partition(_PRIVATE)
    if former not in FORMER_TOKENIZERS or f"{private}{key}" != "".join(ours["tokenizer"].partition(_PRIVATE)[1:]):
        return False
    others = ours.keys() - {"tokenizer"}
    return all(stored.get(name, "") == ours[name] for name in others)


def other_words(stored: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """How the tokens of two signatures of one tokenizer are hidden in different ways; empty where they are not.

    It says what the tokens of the model ``stored`` are, and what to do.
    """
    (theirs, is_private, their_key), (version, wants_private, key) = (
        signature.get("tokenizer", "").partition(_PRIVATE) for signature in (stored, ours)
    )
    if theirs != version or (is_private, their_key) == (wants_private, key):
        return ""
    if not is_private:
        return "words, and model.private_tokens asks for keyed hashes. Set it to false"
    if not wants_private:
        return f"keyed hashes. Set model.private_tokens to true, with the key file {their_key} of the model"
    return (
        f"keyed hashes under the key {their_key}, and the key file has {key}. Put back the file of that key "
        "(model.private_tokens_key_file)"
    )


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
    wrong = [
        f"{name} {stored.get(name)} (this is {value})"
        for name, value in ours.items()
        if stored.get(name, value) != value
    ]
    if is_former(stored, ours):
        raise StoreIncompatible(
            f"model {keys.model!r} was learned with {', '.join(wrong)}. Nothing is lost: stop all daemons that "
            "use it, then run `nbstream migrate`, which keeps all that was learned"
        )
    if "tokenizer" in stored and (words := other_words(stored, ours)):
        raise StoreIncompatible(
            f"model {keys.model!r} stores {words}, or set model.name to a new name and teach it"
        )
    if wrong:
        raise StoreIncompatible(
            f"model {keys.model!r} was learned with {', '.join(wrong)}. Its counts are kept as they are; "
            "set model.name to a new name and teach that one, or run the nbstream that wrote it"
        )


async def read_identity(client: Redis, keys: ModelKeys, *, sign: bool) -> str:
    """Return the identity of the model, which tells it from every other one that ever has the same name.

    Keys that were deleted, and a model that is taught anew under their names, have another identity; a replica and
    a backup have the same. With ``sign`` a model without an identity gets one, else the result is empty; it is
    also empty where Redis refuses to write. Raises what redis-py raises else.
    """
    identity: Any = await client.hget(keys.schema, _IDENTITY_FIELD)
    if identity is None and sign:
        with suppress(ResponseError):
            await client.hsetnx(keys.schema, _IDENTITY_FIELD, secrets.token_hex(8))
            identity = await client.hget(keys.schema, _IDENTITY_FIELD)
    return (identity or b"").decode()


async def _read_signature(client: Redis, keys: ModelKeys) -> dict[str, str]:
    fields: Any = await client.hgetall(keys.schema)
    return read_schema(fields)


def read_schema(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    """The fields of a schema as text; bytes that are no UTF-8 are escaped, and differ from every value."""
    return {name.decode("utf-8", _ESCAPED): value.decode("utf-8", _ESCAPED) for name, value in fields.items()}
