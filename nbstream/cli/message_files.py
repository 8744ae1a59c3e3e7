"""Messages from the paths on a command line: files, mboxes, folders, Maildirs, standard input."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import cast

from nbstream import interrupts
from nbstream.errors import InputError, NbstreamError
from nbstream.mail import mbox
from nbstream.mail.header_fields import MAX_HEADER_BYTES
from nbstream.terminal import print_error

STANDARD_INPUT = "-"

_MAILDIR_FOLDERS = ("new", "cur")
_MAX_MESSAGE_BYTES = 256 << 20
_SNIFFED_BYTES = 512
_BLOCK_BYTES = 1 << 18  # of an mbox
_HEADER_END = re.compile(rb"\n\r?\n")
_COMPRESSED_STARTS = (
    b"\x1f\x8b",
    b"BZh91AY&SY",
    b"\xfd7zXZ\0",
    b"(\xb5/\xfd",
    b"PK\3\4",
)  # gzip, bzip2, xz, zstd, zip


@dataclass(frozen=True, slots=True)
class NamedMessage:
    """A message and the path that it came from; a message of an mbox is named ``file#number``, counted from 1."""

    name: str
    raw: bytes


def read_messages(
    paths: Iterable[str], errors: list[NbstreamError], say: Callable[[str], object] = print_error
) -> Iterator[NamedMessage]:
    """Yield the messages of all paths, in order; what cannot be read is added to ``errors`` and left out.

    A folder without messages is said, on standard error, but is no error: a Junk folder may well be empty.
    """
    return interruptible(_read_paths(paths, errors, say))


def interruptible(sources: Iterator[NamedMessage]) -> Iterator[NamedMessage]:
    """Yield the same messages; Ctrl-C raises ``KeyboardInterrupt`` while the next one is read."""
    while True:
        with interrupts.interrupt_at_once():
            source = next(sources, None)
        if source is None:
            return
        yield source


def _read_paths(
    paths: Iterable[str], errors: list[NbstreamError], say: Callable[[str], object]
) -> Iterator[NamedMessage]:
    for path in paths:
        file = None
        for file in _list_files(path, errors):
            try:
                if file == STANDARD_INPUT:
                    yield from _split_messages(file, cast(BufferedIOBase, sys.stdin.buffer))
                else:
                    with Path(file).open("rb") as stream:
                        yield from _split_messages(file, stream)
            except OSError as error:
                errors.append(InputError(f"{file}: {error.strerror}"))
            except InputError as error:
                errors.append(error)
        if file is None:
            kind = "Maildir's own cur and new" if _is_maildir(path) else "folder"
            say(f"{path}: no message in this {kind}")


def unknown_id_error(message_id: str) -> InputError:
    """Return the error for an id that is unknown; messages of the command ``check`` are not remembered."""
    return InputError(f"{message_id}: unknown id, no daemon remembers it; give the message itself")


def _list_files(path: str, errors: list[NbstreamError]) -> Iterator[str]:
    """Yield the path itself, or the files of a Maildir, or all files in a folder, sorted.

    Hidden files, pipes and devices in a folder are left out, and what is deleted in a Maildir.
    """
    if path == STANDARD_INPUT or not _is_folder(path):
        yield path
        return

    def note(error: OSError) -> None:
        errors.append(InputError(f"{error.filename}: {error.strerror}"))

    for root in [Path(path) / name for name in _MAILDIR_FOLDERS] if _is_maildir(path) else [Path(path)]:
        for folder, folders, names in os.walk(root, onerror=note):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if name.startswith(".") or (Path(folder).name == "cur" and _is_trashed(name)):
                    continue
                if not _is_special(Path(folder) / name):
                    yield str(Path(folder) / name)


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:
        return False  # opening it gives the reason


def _is_maildir(folder: str) -> bool:
    return all((Path(folder) / name).is_dir() for name in _MAILDIR_FOLDERS)


def _is_trashed(name: str) -> bool:
    """Return whether a file of a Maildir has the flag of deleted mail, which its program has not removed yet."""
    return "T" in name.rpartition(":2,")[2] and ":2," in name


def _is_special(file: Path) -> bool:
    """Return whether it is a pipe, a socket or a device: opening a pipe waits until somebody writes to it."""
    try:
        return not stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return False  # opening it gives the reason


def _split_messages(name: str, stream: BufferedIOBase) -> Iterator[NamedMessage]:
    first = stream.readline(_MAX_MESSAGE_BYTES)
    if not first.startswith(mbox.MBOX_START):
        raw = first + stream.read(_MAX_MESSAGE_BYTES)
        if len(raw) > _MAX_MESSAGE_BYTES:
            raise InputError(f"{name}: larger than {_MAX_MESSAGE_BYTES >> 20} MiB, that is no message")
        if raw.startswith(_COMPRESSED_STARTS):
            raise InputError(f"{name}: compressed, unpack it first")
        if not raw.strip() or b"\0" in raw[:_SNIFFED_BYTES]:
            raise InputError(f"{name}: {'empty' if not raw.strip() else 'a binary file'}, that is no message")
        yield NamedMessage(name, raw)
        return
    deleted = 0
    for number, raw in enumerate(mbox.split(_line_blocks(stream)), start=1):
        header = _header(raw)
        if mbox.is_folder_data(header):
            continue
        if "D" in mbox.status_letters(header):
            deleted += 1
            continue
        yield NamedMessage(f"{name}#{number}", raw)
    if deleted:
        print_error(f"{name}: {deleted} deleted message{'s' if deleted > 1 else ''} left out")


def _header(raw: bytes) -> bytes:
    end = _HEADER_END.search(raw, 0, MAX_HEADER_BYTES)
    return raw[: end.start() if end else MAX_HEADER_BYTES]


def _line_blocks(stream: BufferedIOBase) -> Iterator[bytes]:
    """Yield the rest of a stream in blocks of whole lines, each as soon as it is there."""
    while block := stream.read1(_BLOCK_BYTES):
        yield block if block.endswith(b"\n") else block + stream.readline()
