"""``nbstream export`` and ``nbstream import``: all models of the site, or one own model, as one file.

Rules: the file holds each model as it was at one moment, and only its owner can read it. It gets its name once it
is whole and on disk: an export that fails leaves what was there before. Models are imported into empty ones, and a
file that cannot be used changes nothing: see ``nbstream.store.transfer.model_import``.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tqdm import tqdm

from nbstream.cli.commands.model import describe_totals, find_own_model
from nbstream.cli.message_files import STANDARD_INPUT
from nbstream.daemon import config
from nbstream.daemon.assembly.filter import key_fingerprint
from nbstream.daemon.assembly.store import make_archived_model, make_own_model, open_running_redis
from nbstream.durable_files import sync_folder
from nbstream.errors import InputError, OutputFailed
from nbstream.filter.own_models.index import OwnModelIndex, OwnModelKeys
from nbstream.policy.own_models.names import is_own_model_name
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_import import import_archive
from nbstream.store.transfer.model_snapshot import ModelSnapshot
from nbstream.terminal import print_note, translate_output_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.daemon.config import Settings
    from nbstream.store.model.model import Model
    from nbstream.terminal import Output

STANDARD_OUTPUT = STANDARD_INPUT  # both are "-"


async def run(options: argparse.Namespace, output: Output) -> None:
    """Export or import, and print what is in each model.

    66 for an unknown model and a damaged file, 74 for a file that cannot be written, 75 when Redis is away, 78 for
    a file of another kind.
    """
    settings = config.load_settings(config.find_config_file(options.config))
    if options.command == "import":
        async with open_running_redis(settings) as clients:
            await _import(settings, clients.client, options, output)
        return
    with _open_output(options.file) as stream:
        async with open_running_redis(settings) as clients:
            summaries = await _export(settings, clients.client, options, stream)
    for summary in summaries:
        (print_note if options.file == STANDARD_OUTPUT else output.show)(f"exported {summary}")


async def _export(settings: Settings, client: Redis, options: argparse.Namespace, stream: IO[bytes]) -> list[str]:
    index = OwnModelIndex(client, settings.model.name)
    if options.model:
        names = [archive.OWN_PREFIX + (await find_own_model(index, options.model)).name]
    else:
        names = [*(archive.OWN_PREFIX + name for name in await index.names()), archive.COMMON]
    summaries = []
    for position, name in enumerate(names, start=1):
        model = await make_archived_model(settings, client, name).open(sign=False)
        summaries.append(await _write_model(model, name, stream, following=len(names) - position))
    return summaries


async def _write_model(model: Model, name: str, stream: IO[bytes], following: int) -> str:
    """Write the model under this name in the file, and return in words what is in it.

    ``following`` is the number of models that are written after it.
    """
    snapshot = ModelSnapshot(model)
    header = await snapshot.header(name, following)
    writer = archive.ArchiveWriter(stream, header)
    with tqdm(unit=" records", disable=not sys.stderr.isatty()) as bar:
        async for record in snapshot.records():
            writer.write(record)
            bar.update(len(record.counts) if isinstance(record, archive.CountsRecord) else 1)
    writer.finish()
    totals = await model.totals()
    meanwhile = f", changes while it was read: {snapshot.learned_meanwhile}" if snapshot.learned_meanwhile else ""
    return f"{model.keys.log_name}: {describe_totals(totals)}{meanwhile}"


async def _import(settings: Settings, client: Redis, options: argparse.Namespace, output: Output) -> None:
    imported: list[Model] = []

    async def open_model(name: str) -> Model:
        own_name = name.removeprefix(archive.OWN_PREFIX)
        is_own = name != own_name and is_own_model_name(own_name)
        if options.model and (not is_own or imported):
            raise InputError(f"{options.file} has the models of a site: import it without --model")
        if not is_own and name != archive.COMMON:
            raise InputError("the file has a model that no export has")
        model = (
            make_own_model(settings, client, options.model)
            if options.model
            else make_archived_model(settings, client, name)
        )
        imported.append(await model.open(sign=False))
        return imported[-1]

    with _open_input(options.file) as stream:
        reader = archive.ArchiveReader(stream, options.file, current_signature(key_fingerprint(settings)))
        with tqdm(desc="reading", unit=" records", disable=not sys.stderr.isatty()) as bar:

            def advance(record: archive.ArchiveRecord) -> None:
                bar.update(len(record.counts) if isinstance(record, archive.CountsRecord) else 1)

            await import_archive(reader, open_model, advance, _list_own_model)
    for model in imported:
        output.show(f"imported {model.keys.log_name}: {describe_totals(await model.totals())}")


async def _list_own_model(model: Model) -> None:
    """List an own model, which nobody finds or removes otherwise."""
    if isinstance(model.keys, OwnModelKeys):
        await OwnModelIndex(model.client, model.keys.model).add(model.keys.name)


def _open_input(file: str) -> io.BufferedReader:
    if file == STANDARD_INPUT:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error


@contextmanager
def _open_output(file: str) -> Iterator[IO[bytes]]:
    """Give standard output, or a new file that gets its name when all went well. Raises ``OutputFailed``."""
    if file == STANDARD_OUTPUT:
        if sys.stdout.isatty():
            raise OutputFailed("an export is no text for a terminal: name a file, or redirect")
        with translate_output_errors():
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    try:
        with _replace_file(Path(file)) as stream:
            yield stream
    except OSError as error:
        raise OutputFailed(f"{file} cannot be written: {error.strerror}") from error


@contextmanager
def _replace_file(path: Path) -> Iterator[IO[bytes]]:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
