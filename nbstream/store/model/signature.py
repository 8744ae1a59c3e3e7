"""The signature of a model: the schema, tokenizer, classes and time base with which it was written.

Rules: the signature is checked before anything else is read. The first writer signs the model in one step; a later
program uses the signed time base, or refuses the model and leaves it as it is.

The time base (half-life and t0) is one field, so that two writers cannot mix theirs; a model without it has no
half-life.
"""

from __future__ import annotations

import math
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError, WatchError

from nbstream.bayes.counts import CLASSES, WEIGHT_ONE
from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.store.model.keys import IMPORT_READY
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
    """The signature that a model needs for this program to use it, without the time base.

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


async def verify_signature(
    client: Redis, keys: ModelKeys, wanted: HalfLife, *, sign: bool, exactly: bool, key_fingerprint: str = ""
) -> HalfLife:
    """Check that this program can use the model, and return the model's time base; see ``Model.open``.

    ``sign`` says whether a new model is signed; ``exactly`` says whether t0 must be the wanted one too. Raises
    ``StoreIncompatible``, ``StoreUnavailable``, and what redis-py raises.
    """
    ours = current_signature(key_fingerprint)
    stored = await _read_signature(client, keys)
    if sign and not ours.keys() <= stored.keys():  # a server that refuses writes can still be read
        async with client.pipeline(transaction=True) as pipe:
            for field, value in {**ours, HALF_LIFE_FIELD: pack_half_life(wanted)}.items():
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
    # A model that is not signed has learned nothing.
    current = unpack_half_life(stored.get(HALF_LIFE_FIELD, "")) if ours.keys() <= stored.keys() else wanted
    if not is_compatible(current, wanted, exactly=exactly):
        current = await _replace_time_base(client, keys, current, wanted, sign=sign)
    return current


async def _replace_time_base(
    client: Redis, keys: ModelKeys, current: HalfLife, wanted: HalfLife, *, sign: bool
) -> HalfLife:
    """Replace the time base ``current`` by ``wanted`` and return it; refuse that for a model that has learned."""
    async with client.pipeline(transaction=True) as pipe:
        await pipe.watch(keys.schema, keys.totals, *keys.counts, keys.history, keys.importing)
        stored: Any = await pipe.hget(keys.schema, HALF_LIFE_FIELD)
        importing: Any = await pipe.get(keys.importing)
        has_learned = await pipe.exists(keys.totals, *keys.counts, keys.history)
        if has_learned or (importing or b"").startswith(IMPORT_READY):
            raise half_life_mismatch(keys.model, current, wanted)
        pipe.multi()  # type: ignore[no-untyped-call]  # redis-py has no type here
        if sign:
            pipe.hset(keys.schema, HALF_LIFE_FIELD, pack_half_life(wanted))
            pipe.incr(keys.sequence)  # mirrors see a gap, and read the new time base
        is_unchanged = unpack_half_life((stored or b"").decode("utf-8", _ESCAPED)) == current
        with suppress(WatchError):
            if is_unchanged and await pipe.execute() is not None:
                return wanted
    raise StoreUnavailable("the model was changed at this moment: try again")


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


HALF_LIFE_FIELD = "half_life"
"""The field's name. Its value is ``"DAYS SECONDS"`` (t0 in seconds since the epoch), or empty for no half-life."""


def pack_half_life(half_life: HalfLife) -> str:
    """The time base as it is stored; floats keep their last bit."""
    return "" if half_life.days is None else f"{float(half_life.days)!r} {float(half_life.since)!r}"


def unpack_half_life(stored: str) -> HalfLife:
    """What ``pack_half_life`` packed. Raises ``StoreIncompatible`` for what this program did not write."""
    if not stored:
        return NO_HALF_LIFE
    try:
        days, since = map(float, stored.split())
    except ValueError as error:
        raise StoreIncompatible("the half-life of the model cannot be read: another program wrote it") from error
    if not (0 < days < math.inf and math.isfinite(since)):
        raise StoreIncompatible("the half-life of the model cannot be read: another program wrote it")
    return HalfLife(days, since)


def is_compatible(stored: HalfLife, wanted: HalfLife, *, exactly: bool) -> bool:
    """Whether a model with the time base ``stored`` may be used; t0 matters only if ``exactly``."""
    return stored == wanted or (stored.days == wanted.days and (stored.days is None or not exactly))


def half_life_mismatch(model: str, stored: HalfLife, wanted: HalfLife) -> StoreIncompatible:
    """The error for a model that was learned with another half-life."""
    days = "null" if stored.days is None else f"{stored.days:g}"
    remedy = (
        "nbstream export the model as it is, set model.half_life_days and a new model.name, and nbstream import it"
    )
    return StoreIncompatible(
        f"model {model!r} was learned with {describe_half_life(stored)}, "
        f"wanted is {describe_half_life(wanted)}; its counts are kept as they "
        f"are. Set model.half_life_days to {days} again; to change it, {remedy}"
    )


def describe_half_life(half_life: HalfLife) -> str:
    """The half-life and its t0 in words."""
    if half_life.days is None:
        return "no half-life"
    return f"a half-life of {half_life.days:g} days since {utc_time(half_life.since)}"


def utc_time(since: float) -> str:
    """A t0 (seconds since the epoch) as a time in UTC, to the second."""
    try:
        return datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, OSError, ValueError):
        return f"{since:.0f} seconds after 1970"
