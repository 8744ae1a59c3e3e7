"""``nbstream export``: all models of the site as one file, while the daemon goes on learning.

Rules: the file holds each model as it was at one moment, and only its owner can read it. It gets its name once it
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
from typing import IO, TYPE_CHECKING

from tqdm import tqdm

from nbstream.cli import interrupts
from nbstream.cli.message_files import STANDARD_INPUT
from nbstream.cli.terminal import print_note, translate_output_errors
from nbstream.daemon import config
from nbstream.daemon.assembly.store import make_archived_model, open_running_redis
from nbstream.durable_files import sync_folder
from nbstream.errors import OutputFailed
from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_snapshot import ModelSnapshot

if TYPE_CHECKING:
    from nbstream.store.model.model import Model

STANDARD_OUTPUT = STANDARD_INPUT  # both are "-"


def run(options: argparse.Namespace) -> int:
    """Export the models and print their sizes; 74 for a file that cannot be written, 75 when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    with open_output(options.file) as stream:
        async with open_running_redis(settings) as clients:
            own_names = await OwnModelIndex(clients.client, settings.model.name).names()
            names = [*(archive.OWN_PREFIX + name for name in own_names), archive.COMMON]
            summaries = []
            for following, name in reversed(list(enumerate(reversed(names)))):
                model = await make_archived_model(settings, clients.client, name).open(sign=False)
                summaries.append(await write_model(model, name, stream, following))
    for summary in summaries:
        print_summary(summary, options.file)
    return 0


async def write_model(model: Model, name: str, stream: IO[bytes], following: int = 0) -> str:
    """Write the model under this name in the file, and return in words what is in it.

    ``following`` is the number of models that are written after it.
    """
    snapshot = ModelSnapshot(model)
    header = await snapshot.header(name, following)
    writer = archive.ArchiveWriter(stream, header)
    with tqdm(total=header.records, unit=" records", disable=not sys.stderr.isatty()) as bar:
        async for record in snapshot.records():
            writer.write(record)
            bar.update(len(record.counts) if isinstance(record, archive.CountsRecord) else 1)
    writer.finish()
    totals = await model.totals()
    meanwhile = f", {snapshot.learned_meanwhile} changes while it was read" if snapshot.learned_meanwhile else ""
    contents = f"{sum(totals.messages)} messages, {totals.vocabulary_size} tokens"
    return f"{model.keys.log_name}: {contents}{meanwhile}"


def print_summary(summary: str, file: str) -> None:
    """Print what was exported to a file; where that is standard output, elsewhere."""
    (print_note if file == STANDARD_OUTPUT else print)(f"exported {summary}")


@contextmanager
def open_output(file: str) -> Iterator[IO[bytes]]:
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
