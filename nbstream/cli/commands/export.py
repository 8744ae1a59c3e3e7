"""``nbstream export``: the whole model as one file, or for another filter, while the daemon goes on learning.

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
from typing import IO, TYPE_CHECKING

from tqdm import tqdm

from nbstream import config
from nbstream.assembly.filter import open_one_shot_filter
from nbstream.bayes.counts import CLASSES
from nbstream.cli import interrupts
from nbstream.cli.commands.explain import WHY_NO_WORDS
from nbstream.cli.message_files import STANDARD_INPUT
from nbstream.cli.terminal import print_note, translate_output_errors
from nbstream.durable_files import sync_folder
from nbstream.errors import OutputFailed, StoreIncompatible
from nbstream.other_filters.dump_writing import DUMPS
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.transfer import archive
from nbstream.store.transfer.model_snapshot import ModelSnapshot

if TYPE_CHECKING:
    from nbstream.store.model.model import Model

STANDARD_OUTPUT = STANDARD_INPUT  # both are "-"


def run(options: argparse.Namespace) -> int:
    """Export the model and print its size; 74 for a file that cannot be written, 75 when Redis is away."""
    return interrupts.run_interruptible(_run(options))


async def _run(options: argparse.Namespace) -> int:
    settings = config.load_settings(config.find_config_file(options.config))
    with open_output(options.file) as stream:
        async with open_one_shot_filter(settings) as (_, model):
            if options.for_filter:
                summary = await _write_dump(model, settings.model.name, options.for_filter, stream)
            else:
                summary = await write_model(model, settings.model.name, stream)
    print_summary(summary, options.file)
    return 0


async def write_model(model: Model, name: str, stream: IO[bytes]) -> str:
    """Write the model of this name as an archive, and return in words what is in it."""
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
    return f"model {name!r}: {contents}{meanwhile}"


async def _write_dump(model: Model, name: str, other: str, stream: IO[bytes]) -> str:
    """Write for the filter ``other`` what the ledger of the model of this name has; return in words what it is.

    Raises ``StoreIncompatible`` for a model without words.
    """
    if model.key_fingerprint:
        raise StoreIncompatible(f"nothing can be exported for {other}: {WHY_NO_WORDS}")
    snapshot, dump, seen = ModelSnapshot(model), DUMPS[other](), set[str]()
    await snapshot.header()
    with tqdm(
        total=sum((await model.totals()).messages), unit=" messages", disable=not sys.stderr.isatty()
    ) as bar:
        async for record in snapshot.records():
            # What is learned again meanwhile comes twice: it stays as it was.
            if isinstance(record, archive.LedgerRecord) and record.message_key not in seen:
                entry = LedgerEntry.unpack(record.fields)
                if entry:
                    seen.add(record.message_key)
                    dump.add(entry.label, entry.learned_at, entry.tokens)
                    bar.update()
    stream.writelines(dump.lines())
    forgotten = sum((await model.totals()).messages) - len(seen)
    lost = f"; the ledger has forgotten {forgotten} messages" if forgotten > 0 else ""
    counted = ", ".join(f"{count} {label}" for count, label in zip(dump.messages, CLASSES, strict=True))
    return f"model {name!r} for {other}: {counted}{lost}"


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
