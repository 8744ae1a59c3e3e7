"""``nbstream import``: a model that was exported, into an empty one, or added to what is there.

Rules: all or nothing, and once: see ``nbstream.store.transfer.model_import``. An import that was killed when it
had begun to be part of the model is finished by the next call, which reads no file then.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from nbstream import config
from nbstream.assembly.filter import open_one_shot_filter
from nbstream.bayes.counts import CLASSES
from nbstream.cli import interrupts
from nbstream.cli.message_files import STANDARD_INPUT
from nbstream.cli.terminal import print_note
from nbstream.errors import InputError
from nbstream.store.model.model import Model
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_import import finish_import, import_archive


def run(options: argparse.Namespace) -> int:
    """Import, and print what the model knows; 66 for a damaged file, 75 without Redis, 78 for another kind."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    async with open_one_shot_filter(settings) as (_, model):
        await import_model(model, settings.model.name, options.file, merge=options.merge)
    return 0


async def import_model(model: Model, name: str, file: str, *, merge: bool) -> None:
    """Read a file into the model of this name, and print what it knows then. Raises ``InputError``."""
    if await finish_import(model) is not None:
        print_note(f"finished the import that was interrupted; {file} was not read")
    elif already_learned := await _import_file(model, file, merge=merge):
        print(f"{already_learned} messages were known already and stay as they are")
    totals = await model.totals()
    learned_messages = ", ".join(f"{count} {label}" for count, label in zip(totals.messages, CLASSES, strict=True))
    print(f"imported; model {name!r} knows {learned_messages}, {totals.vocabulary_size} tokens")


async def _import_file(model: Model, file: str, *, merge: bool) -> int | None:
    with _open_input(file) as stream:
        reader = archive.ArchiveReader(stream, file, current_signature(model.key_fingerprint))
        with _progress_bar(reader.header.records, "reading") as bar:

            def advance(record: archive.ArchiveRecord) -> None:
                bar.update(len(record.counts) if isinstance(record, archive.CountsRecord) else 1)

            await import_archive(model, reader, merge=merge, on_staged=advance)
    with _progress_bar(reader.header.records, "adding") as bar:
        return await finish_import(model, bar.update)


def _open_input(file: str) -> io.BufferedReader:
    if file == STANDARD_INPUT:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from error


def _progress_bar(total: int, what: str) -> tqdm[Any]:
    return tqdm(total=total, desc=what, unit=" records", disable=not sys.stderr.isatty())
