"""A backup of a site, written while its daemons run.

Rules: each model is as it was at one moment, with the history of that moment; the layer that is learned without
people and the own models come before the common model, since what people taught decides where a message is in two
of them. Files and the other keys are copied as they are found, each of them whole. Secrets are left out, and
listed: password and key files, and the key that signs the links of users.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from nbstream import __version__
from nbstream.assembly.store import (
    correspondents_key_file,
    make_autolearn_model,
    make_model,
    make_own_model,
    private_key_file,
)
from nbstream.backup import files
from nbstream.backup.container import ContainerWriter
from nbstream.backup.keys import CORRESPONDENTS, HISTORY, read_keys, read_stream
from nbstream.bayes.counts import Totals
from nbstream.errors import InputError
from nbstream.own_models.index import OwnModelIndex
from nbstream.settings.values import SecretFile, Section
from nbstream.store.model.model import totals_from_hash
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_snapshot import ModelSnapshot
from nbstream.wire.api_json import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nbstream.assembly.store import RedisClients
    from nbstream.config import Settings
    from nbstream.store.model.model import Model

FORMAT, FORMAT_VERSION = "nbstream backup", 1
CONFIGURATION = "configuration/nbstream.yaml"
KEYS = "history-and-lists.jsonl"
MODELS = "models/"
COMMON, AUTOLEARNED = "common", "autolearned"

_MEMORY_BYTES = 16 << 20  # of one model, before it goes to a temporary file


@dataclass(slots=True)
class Contents:
    """What is in a backup.

    ``written`` says when and by which program, and ``model`` is the name of its common model. ``models`` has the
    totals of each model by its part of the backup, and ``own_models`` the names of own models by their parts.
    ``files`` counts the files of each area, ``bytes`` their bytes. ``left_out`` has a line for each thing that is
    not in it. ``digest`` tells the backup from any other; it is known of a backup
    that was read.
    """

    written: str
    model: str
    models: dict[str, Totals] = field(default_factory=dict)
    own_models: dict[str, str] = field(default_factory=dict)
    files: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    left_out: tuple[str, ...] = ()
    digest: str = ""

    def count_file(self, name: str, size: int) -> None:
        """Count a member of that name."""
        area = name.partition("/")[0]
        self.files[area] += 1
        self.bytes[area] += size

    def describe(self) -> Iterator[str]:
        """Yield what is in it, and what is not, line by line."""
        yield f"written {self.written}"
        for part, totals in self.models.items():
            name = {COMMON: f"model {self.model}", AUTOLEARNED: "learned without people"}.get(part)
            learned = ", ".join(f"{n} {label}" for label, n in totals.messages_by_label().items())
            own = self.own_models.get(part)
            yield f"{name or f'own model {own}'}: {learned}, {totals.vocabulary_size} tokens"
        for area, count in self.files.items():
            yield f"{area}: {count} file{'s'[: count != 1]}, {self.bytes[area]} bytes"
        for line in self.left_out:
            yield f"not in it: {line}"


async def write_backup(
    settings: Settings, clients: RedisClients, stream: IO[bytes], folder: str | None
) -> Contents:
    """Write a backup to ``stream``, and return what is in it; ``folder`` is for temporary files.

    Raises ``InputError`` for a file that cannot be read, ``StoreIncompatible`` for a model of another version,
    ``StoreUnavailable``, and ``OSError`` for what cannot be written.
    """
    written, name = f"{iso_time(time.time())} by nbstream {__version__}", settings.model.name
    contents = Contents(written, name, left_out=tuple(_left_out(settings)))
    header = {"format": FORMAT, "version": FORMAT_VERSION, "written": written, "model": name}
    container = ContainerWriter(stream, header)
    if settings.source:
        contents.count_file(CONFIGURATION, container.add(CONFIGURATION, _read_configuration(settings.source)))
    for member, content, modified in files.read_files(settings):
        contents.count_file(member, container.add(member, io.BytesIO(content), modified))
    with tempfile.SpooledTemporaryFile(_MEMORY_BYTES, dir=folder) as keys:
        common = make_model(settings, clients.client)
        models: list[tuple[str, Model]] = [(AUTOLEARNED, make_autolearn_model(settings, clients.client))]
        for own_name in await OwnModelIndex(clients.client, name).names():
            part = f"own-{len(models):06d}"
            models.append((part, make_own_model(settings, clients.client, own_name)))
            contents.own_models[part] = own_name
        for part, model in (*models, (COMMON, common)):
            contents.models[part] = await _add_model(container, part, model, keys, folder)
        async for record in read_keys(clients.client, common.keys, COMMON):
            keys.write(record.pack())
        async for record in read_stream(clients.client, common.keys, COMMON, CORRESPONDENTS):
            keys.write(record.pack())
        contents.count_file(KEYS, container.add(KEYS, keys))
    container.finish({"own_models": contents.own_models, "left_out": contents.left_out})
    return contents


async def _add_model(
    container: ContainerWriter, part: str, model: Model, keys: IO[bytes], folder: str | None
) -> Totals:
    """Add the archive of the model, and its history to the other ``keys``; return the totals of that moment."""
    with tempfile.SpooledTemporaryFile(_MEMORY_BYTES, dir=folder) as content:
        snapshot = ModelSnapshot(await model.open(sign=False))
        writer, totals = archive.ArchiveWriter(content, await snapshot.header()), Totals()
        async for record in snapshot.records():
            writer.write(record)
            if isinstance(record, archive.TotalsRecord):
                totals = totals_from_hash(record.fields)
        writer.finish()
        container.add(f"{MODELS}{part}.gz", content)
    async for history in read_stream(model.client, model.keys, part, HISTORY, snapshot.last_record):
        keys.write(history.pack())
    return totals


def _read_configuration(source: Path) -> IO[bytes]:
    try:
        return io.BytesIO(source.read_bytes())
    except OSError as error:
        raise InputError(f"{source}: {error.strerror}") from error


def _left_out(settings: Settings) -> Iterator[str]:
    """Yield a line for each secret, and each other file that the configuration names."""
    for setting, path in _named_files(settings):
        yield f"{setting}: {path}"
    if settings.model.private_tokens and settings.model.private_tokens_key_file is None:
        yield f"the key of model.private_tokens: {private_key_file(settings)}"
    if settings.correspondents and settings.correspondents.key_file is None:
        yield f"the key of correspondents: {correspondents_key_file(settings, settings.correspondents)}"
    yield "the key of the links in digests: links that were mailed before a restore end with it"


def _named_files(value: Any, setting: str = "") -> Iterator[tuple[str, Path]]:
    if isinstance(value, Section):
        for name in type(value).model_fields:
            field: Any = getattr(value, name)
            path = field.path if isinstance(field, SecretFile) else field
            if name.endswith("file") and path is not None:
                yield f"{setting}{name}", path
            yield from _named_files(field, f"{setting}{name}.")
    elif isinstance(value, tuple):
        for item in value:
            yield from _named_files(item, setting)
