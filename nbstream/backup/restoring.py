"""The restore of a backup, into the site that the settings describe.

Rules: the whole file is read and checked before anything is changed. What is restored is noted in Redis as it
goes: after an interruption the same command goes on, and nothing is there twice. A model is added by an import,
which is there as a whole or not at all; it is noted as soon as it cannot fail any more. The caller keeps daemons
off the state folder.
"""

from __future__ import annotations

import io
import re
import shutil
from typing import IO, TYPE_CHECKING, Any

from nbstream.assembly.store import (
    key_fingerprint,
    make_autolearn_model,
    make_model,
    make_own_model,
    private_key_file,
)
from nbstream.backup import files
from nbstream.backup.container import ContainerReader
from nbstream.backup.keys import KeyRecord, write_record
from nbstream.backup.writing import (
    AUTOLEARNED,
    COMMON,
    CONFIGURATION,
    FORMAT,
    FORMAT_VERSION,
    KEYS,
    MODELS,
    Contents,
)
from nbstream.errors import ConfigError, OutputFailed, StoreIncompatible
from nbstream.own_models.index import OwnModelIndex
from nbstream.own_models.names import is_own_model_name
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.keys import IMPORT_READY
from nbstream.store.model.model import totals_from_hash
from nbstream.store.model.signature import current_signature
from nbstream.store.redis_errors import store_errors
from nbstream.store.transfer.archive import ArchiveReader, TotalsRecord
from nbstream.store.transfer.model_import import finish_import, import_archive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from redis.asyncio import Redis

    from nbstream.assembly.store import RedisClients
    from nbstream.backup.container import Member
    from nbstream.config import Settings
    from nbstream.store.model.model import Model

_BACKUP = "backup"  # the field of ``restoring`` that says which backup it is
_MAX_LINE_BYTES = 64 << 20
_MODEL_MEMBER = re.compile(rf"{MODELS}({COMMON}|{AUTOLEARNED}|own-[0-9]{{6}})\.gz")


def check_backup(settings: Settings, stream: IO[bytes], file: str) -> Contents:
    """Read the whole of a backup that is to be restored into the site, and return what is in it.

    Raises ``InputError`` for a file that is cut or damaged, or has what no backup has; ``StoreIncompatible`` for
    a backup of another format, or of models that these settings cannot use; ``ConfigError`` where the key of
    private tokens is missing.
    """
    reader = ContainerReader(stream, file)
    contents = _read_header(reader, file)
    signature, parts = current_signature(_fingerprint(settings)), set[str]()
    for member in reader:
        if model := _MODEL_MEMBER.fullmatch(member.name):
            archive = ArchiveReader(io.BufferedReader(member), f"{file}: {member.name}", signature)
            totals = [record.fields for record in archive if isinstance(record, TotalsRecord)]
            contents.models[model[1]] = totals_from_hash(totals[-1] if totals else {})
            continue
        contents.count_file(member.name, member.size)
        if member.name == KEYS:
            parts |= {record.part for record in _key_records(member, reader)}
        elif member.name != CONFIGURATION and not files.is_file_member(member.name):
            raise reader.error("has a member that no backup has")
    own_models, left_out = reader.manifest.get("own_models"), reader.manifest.get("left_out")
    if isinstance(own_models, dict) and isinstance(left_out, list):
        contents.own_models, contents.left_out = own_models, tuple(map(str, left_out))
    expected = {COMMON, AUTOLEARNED, *contents.own_models}
    names = set(map(str, contents.own_models.values()))
    has_names = all(map(is_own_model_name, names)) and len(names) == len(contents.models) - 2
    if contents.models.keys() != expected or not parts <= expected or not has_names:
        raise reader.error("damaged, or written by another program")
    contents.digest = reader.digest
    return contents


def _read_header(reader: ContainerReader, file: str) -> Contents:
    version = reader.header.get("version")
    if reader.header.get("format") != FORMAT:
        raise reader.error("no backup of nbstream")
    if version != FORMAT_VERSION:
        raise StoreIncompatible(
            f"{file} is a backup of format {version!r}, and this program reads format {FORMAT_VERSION}"
        )
    return Contents(str(reader.header.get("written")), str(reader.header.get("model")))


def _fingerprint(settings: Settings) -> str:
    """Return that of the key of private tokens, which must be there: a new key would be of no use."""
    if settings.model.private_tokens and not private_key_file(settings).exists():
        raise ConfigError(
            f"the key of model.private_tokens is in no backup: put it back first, as {private_key_file(settings)}"
        )
    return key_fingerprint(settings)


def _key_records(member: Member, reader: ContainerReader) -> Iterator[KeyRecord]:
    lines = io.BufferedReader(member)
    while line := lines.readline(_MAX_LINE_BYTES):
        try:
            yield KeyRecord.unpack(line)
        except ValueError as error:
            raise reader.error(f"{member.name} is damaged") from error


async def restore_backup(
    settings: Settings, clients: RedisClients, contents: Contents, stream: IO[bytes], file: str
) -> None:
    """Restore a backup whose ``contents`` were checked; after a failure the same call goes on.

    Raises ``StoreIncompatible`` for a site that is not empty, ``ConfigError`` for a Redis that cannot have all
    models and ``OutputFailed`` where there is no room: nothing is changed then. Raises ``CountsFull``,
    ``InputError``, ``OutputFailed`` and ``StoreUnavailable``.
    """
    client = clients.client
    models: dict[str, Model] = {
        COMMON: make_model(settings, client),
        AUTOLEARNED: make_autolearn_model(settings, client),
        **{part: make_own_model(settings, client, name) for part, name in contents.own_models.items()},
    }
    restoring = models[COMMON].keys.restoring
    with store_errors():
        former: Any = await client.hget(restoring, _BACKUP)
    if former != contents.digest.encode():
        await _refuse_what_is_there(settings, client, models, contents)
        with store_errors():
            await client.hset(restoring, mapping={_BACKUP: contents.digest})
    await models[COMMON].open()
    for member in (reader := ContainerReader(stream, file)):
        stop_if_cancelled()
        if part := _MODEL_MEMBER.fullmatch(member.name):
            if name := contents.own_models.get(part[1]):
                await OwnModelIndex(client, settings.model.name).add(name)
            await _add_model(settings, models[part[1]], member, f"{file}: {member.name}", restoring)
        elif member.name == KEYS:
            for record in _key_records(member, reader):
                await write_record(client, models[record.part].keys, record)
        elif files.is_file_member(member.name):
            files.write_file(settings, member)
    if reader.digest != contents.digest:
        raise reader.error("was changed after it had been checked: set model.name and state_dir to new ones")
    with store_errors():
        await client.delete(restoring)


async def _refuse_what_is_there(
    settings: Settings, client: Redis, models: Mapping[str, Model], contents: Contents
) -> None:
    if settings.redis.cluster and contents.own_models:
        raise ConfigError("the backup has own models, and redis.cluster cannot have any: nothing was changed")
    there = []
    for model in models.values():
        keys = (await model.open(sign=False)).keys
        with store_errors():
            if await client.exists(keys.totals, *keys.counts, keys.history, keys.sender_list_owners):
                there.append(f"the {keys.log_name} of model {settings.model.name!r}")
    if await OwnModelIndex(client, settings.model.name).count():
        there.append("own models")
    for area, folder in files.folders(settings).items():
        if files.has_mail(folder):
            there.append(f"{area} {folder}")
        parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if shutil.disk_usage(parent).free < contents.bytes[area]:
            raise OutputFailed(f"{parent} has no room for {contents.bytes[area]} bytes: nothing was changed")
    if there:
        raise StoreIncompatible(
            f"not empty: {', '.join(there)}. Nothing was changed: set model.name and state_dir to new ones"
        )


async def _add_model(settings: Settings, model: Model, member: Member, name: str, restoring: str) -> None:
    with store_errors():
        is_noted: Any = await model.client.hexists(restoring, member.name)
        state: Any = await model.client.get(model.keys.importing)
    if not is_noted and not (state or b"").startswith(IMPORT_READY):
        archive = ArchiveReader(io.BufferedReader(member), name, current_signature(model.key_fingerprint))
        await model.open()
        await import_archive(model, archive, merge=True)
    with store_errors():
        await model.client.hset(restoring, member.name, "added")
    await finish_import(model)
