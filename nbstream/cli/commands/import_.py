"""``nbstream import``: the models that were exported, into empty ones.

Rules: a file that cannot be used changes nothing: see ``nbstream.store.transfer.model_import``.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from nbstream.bayes.counts import CLASSES
from nbstream.cli import interrupts
from nbstream.cli.message_files import STANDARD_INPUT
from nbstream.daemon import config
from nbstream.daemon.assembly.filter import key_fingerprint
from nbstream.daemon.assembly.store import make_archived_model, open_running_redis
from nbstream.errors import InputError
from nbstream.filter.own_models.index import OwnModelIndex, OwnModelKeys
from nbstream.policy.own_models.names import is_own_model_name
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_import import import_archive

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.daemon.config import Settings
    from nbstream.store.model.model import Model


def run(options: argparse.Namespace) -> int:
    """Import, and print what each model knows; 66 for a damaged file, 75 without Redis, 78 for another kind."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    async with open_running_redis(settings) as clients:
        await import_file(settings, options.file, partial(_open_model, settings, clients.client))
    return 0


async def _open_model(settings: Settings, client: Redis, name: str) -> Model:
    own_name = name.removeprefix(archive.OWN_PREFIX)
    is_own = name != own_name and is_own_model_name(own_name)
    if not is_own and name != archive.COMMON:
        raise InputError("the file has a model that no export has")
    return await make_archived_model(settings, client, name).open(sign=False)


async def _list_own_model(model: Model) -> None:
    """List an own model, which nobody finds or removes otherwise."""
    if isinstance(model.keys, OwnModelKeys):
        await OwnModelIndex(model.client, model.keys.model).add(model.keys.name)


async def import_file(settings: Settings, file: str, open_model: Callable[[str], Awaitable[Model]]) -> None:
    """Import the models of a file, and print what each knows then. Raises ``InputError``."""
    imported: list[Model] = []

    async def open_and_note(name: str) -> Model:
        imported.append(await open_model(name))
        return imported[-1]

    with _open_input(file) as stream:
        reader = archive.ArchiveReader(stream, file, current_signature(key_fingerprint(settings)))
        with tqdm(desc="reading", unit=" records", disable=not sys.stderr.isatty()) as bar:

            def advance(record: archive.ArchiveRecord) -> None:
                bar.update(len(record.counts) if isinstance(record, archive.CountsRecord) else 1)

            await import_archive(reader, open_and_note, advance, _list_own_model)
    for model in imported:
        totals = await model.totals()
        learned = ", ".join(f"{count} {label}" for count, label in zip(totals.messages, CLASSES, strict=True))
        print(f"imported {model.keys.log_name}: {learned}, {totals.vocabulary_size} tokens")


def _open_input(file: str) -> io.BufferedReader:
    if file == STANDARD_INPUT:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error
