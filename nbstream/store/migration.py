"""Migration of a model from an older tokenizer to this one, and back: only its signature changes.

Rules: counts and ledger are not touched. The model and its autolearn layer are signed in one atomic step, or
neither is. No daemon may use the model meanwhile: a daemon reads the signature only once, and would continue to
learn as before. Daemons are recognized by the commands and names of Redis's clients: each daemon follows a stream,
and each names its model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError, WatchError

from nbstream.errors import DaemonRunning, StoreIncompatible, StoreUnavailable
from nbstream.store.connection import is_named_after
from nbstream.store.model.keys import AutolearnKeys, ModelKeys
from nbstream.store.model.signature import current_signature, is_former, read_schema
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from redis.asyncio import Redis

FIELD = "migrated"
"""The field of a model's schema that says from which tokenizers the model was migrated, and when (Unix time).

It has a record of each migration, such as ``5 1700000000.0``, with a comma between two records.
"""

# The last command of a connection of a daemon that follows, loads or learns, or of an older ``learn``.
_DAEMON_COMMANDS = frozenset({"xread", "xreadgroup", "hscan", "zscan", "evalsha"})


async def migrate(
    client: Redis, model: str, now: float, *, force: bool = False, key_fingerprint: str = ""
) -> bool:
    """Sign ``model`` as written by this version; return False where it is already. ``now`` is the Unix time.

    With ``force`` it does not look for daemons. ``key_fingerprint`` is that of the key of the model's private
    tokens, empty for a model in words. Raises ``DaemonRunning``, ``StoreIncompatible`` for a model that
    does not exist or cannot be migrated, ``StoreUnavailable``; nothing is changed then.
    """
    return await _sign(client, model, now, force=force, ours=current_signature(key_fingerprint))


async def migrate_back(client: Redis, model: str, *, force: bool = False, key_fingerprint: str = "") -> bool:
    """Sign ``model`` one step back, with the tokenizer before its last migration."""
    return await _sign(client, model, None, force=force, ours=current_signature(key_fingerprint))


async def _sign(client: Redis, model: str, now: float | None, *, force: bool, ours: Mapping[str, str]) -> bool:
    """Sign ``model`` as migrated at ``now`` with the tokenizer of ``ours``, or one step back where it is None."""
    keys = ModelKeys(model)
    with store_errors():
        async with client.pipeline(transaction=True) as pipe:
            await pipe.watch(keys.schema, keys.importing, AutolearnKeys(model, 0).epoch_key)
            fields: Any = await pipe.hgetall(keys.schema)
            stored = read_schema(fields)
            if not _needs_signing(model, stored, ours, back=now is None):
                return False
            if await pipe.exists(keys.importing):
                raise StoreUnavailable(
                    "an import into this model is under way, or was interrupted: finish it first"
                )
            epoch: Any = await pipe.get(AutolearnKeys(model, 0).epoch_key)
            layer_schema = AutolearnKeys(model, int(epoch or 0)).schema
            has_layer = await pipe.exists(layer_schema)
            if not force:
                await _refuse_daemons(client, model)
            signed = _before_migration(stored) if now is None else _after_migration(stored, ours, now)
            pipe.multi()  # type: ignore[no-untyped-call]  # redis-py has no type here
            for schema in (keys.schema, layer_schema) if has_layer else (keys.schema,):
                for name, value in signed.items():
                    pipe.hset(schema, name, value)
                if FIELD not in signed:
                    pipe.hdel(schema, FIELD)
            try:
                await pipe.execute()
            except WatchError as error:
                raise StoreUnavailable("the model was changed at this moment: try again") from error
    return True


def _needs_signing(model: str, stored: Mapping[str, str], ours: Mapping[str, str], *, back: bool) -> bool:
    """Whether the signature has to change; raises ``StoreIncompatible`` where it must not."""
    if not stored:
        raise StoreIncompatible(f"there is no model {model!r} here: see model.name and redis.url")
    if is_former(stored, ours):
        return not back
    if any(stored.get(name) != value for name, value in ours.items()):
        versions = ", ".join(f"{name} {stored.get(name)} (this is {value})" for name, value in ours.items())
        raise StoreIncompatible(f"model {model!r} was learned with {versions}: it cannot be migrated")
    if back and FIELD not in stored:
        raise StoreIncompatible(f"model {model!r} was never migrated: there is no way back to go")
    return back


def _after_migration(stored: Mapping[str, str], ours: Mapping[str, str], at: float) -> dict[str, str]:
    """Return the tokenizer and ``FIELD`` after a migration of a model with the signature ``stored``."""
    earlier = [stored[FIELD]] if FIELD in stored else []
    records = [*earlier, f"{stored['tokenizer']} {at!r}"]
    return {"tokenizer": ours["tokenizer"], FIELD: ",".join(records)}


def _before_migration(stored: Mapping[str, str]) -> dict[str, str]:
    """Return the tokenizer before the last migration, and ``FIELD`` without its record, if it had others."""
    *earlier, last = stored[FIELD].split(",")
    return {"tokenizer": last.partition(" ")[0], **({FIELD: ",".join(earlier)} if earlier else {})}


async def _refuse_daemons(client: Redis, model: str) -> None:
    """Raise ``DaemonRunning`` where a daemon may follow ``model``, or where that cannot be known."""
    try:
        clients: Any = await client.client_list()
    except ResponseError as error:
        raise DaemonRunning(
            "Redis does not allow CLIENT LIST, so it cannot be seen whether a daemon still uses the model: "
            "stop all daemons, on all machines, and run the same command with --force"
        ) from error
    for connection in clients:
        if connection.get("cmd", "") not in _DAEMON_COMMANDS:
            continue
        if (uses_model := is_named_after(connection.get("name", ""), model)) is not False:
            program = "a daemon" if uses_model else "a program that may be an older daemon"
            machine = connection.get("addr") or "this machine"
            raise DaemonRunning(
                f"{program} at {machine} follows this Redis: stop all daemons that use "
                "the model, on all machines, and try again (--force does not look for them)"
            )
