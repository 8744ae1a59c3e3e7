"""``nbstream export``: the whole model as one file, while the daemon goes on learning.

Rules: the file holds the model as it was at one moment, and only its owner can read it. It gets its name once it
is whole and on disk: an export that fails leaves what was there before.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tqdm import tqdm

from nbstream import config
from nbstream.assembly.filter import open_one_shot_filter
from nbstream.cli import interrupts
from nbstream.cli.message_files import STANDARD_INPUT
from nbstream.cli.terminal import print_note, translate_output_errors
from nbstream.durable_files import sync_folder
from nbstream.errors import OutputFailed
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_snapshot import ModelSnapshot

STANDARD_OUTPUT = STANDARD_INPUT  # both are "-"


def run(options: argparse.Namespace) -> int:
    """Export the model and print its size; 74 for a file that cannot be written, 75 when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    with _open_output(options.file) as stream:
        async with open_one_shot_filter(settings) as (_, model):
            snapshot = ModelSnapshot(model)
            header = await snapshot.header()
            writer = archive.ArchiveWriter(stream, header)
            with tqdm(total=header.records, unit=" records", disable=not sys.stderr.isatty()) as bar:
                async for record in snapshot.records():
                    writer.write(record)
                    bar.update(len(record.counts) if isinstance(record, archive.CountsRecord) else 1)
            writer.finish()
            totals = await model.totals()
    meanwhile = f", {snapshot.learned_meanwhile} changes while it was read" if snapshot.learned_meanwhile else ""
    contents = f"{sum(totals.messages)} messages, {totals.vocabulary_size} tokens"
    summary = f"model {settings.model.name!r}: {contents}{meanwhile}"
    (print_note if options.file == STANDARD_OUTPUT else print)(f"exported {summary}")
    return 0


@contextmanager
def _open_output(file: str) -> Iterator[IO[bytes]]:
    """Give standard output, or a new file that gets its name when all went well."""
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
