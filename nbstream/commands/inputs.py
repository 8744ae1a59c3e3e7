"""Messages from the paths on a command line: files, mboxes, folders, Maildirs, standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nbstream.errors import InputError

_MAILDIR_FOLDERS = ("new", "cur")


@dataclass(frozen=True, slots=True)
class Source:
    """A message and where it came from; a message of an mbox is ``file#number``, counted from 1."""

    name: str
    raw: bytes


def read(paths: Iterable[str], errors: list[InputError]) -> Iterator[Source]:
    """The messages of all paths, in order; what cannot be read is added to ``errors`` and left out."""
    for path in paths:
        try:
            if path == "-":
                yield from _messages("-", sys.stdin.buffer)
                continue
            for file in _files(Path(path)):
                with file.open("rb") as stream:
                    yield from _messages(str(file), stream)
        except OSError as error:
            errors.append(InputError(f"{path}: {error.strerror}"))


def count(paths: Iterable[str]) -> int | None:
    """How many files there are to read; None where that is not known (standard input, no such path)."""
    total = 0
    for path in paths:
        if path == "-" or not Path(path).exists():
            return None
        total += sum(1 for _ in _files(Path(path)))
    return total


def _files(path: Path) -> Iterator[Path]:
    """The message files of a path: itself, those of a Maildir, or all in a folder, sorted, without hidden ones."""
    if not path.is_dir():
        yield path
        return
    maildir = all((path / name).is_dir() for name in _MAILDIR_FOLDERS)
    roots = [path / name for name in _MAILDIR_FOLDERS] if maildir else [path]
    for root in roots:
        for file in sorted(root.rglob("*")):
            if file.is_file() and not any(piece.startswith(".") for piece in file.relative_to(root).parts):
                yield file


def _messages(name: str, stream: BinaryIO) -> Iterator[Source]:
    first = stream.readline()
    if not first.startswith(b"From "):
        yield Source(name, first + stream.read())
        return
    for number, raw in enumerate(_mbox(stream), start=1):
        yield Source(f"{name}#{number}", raw)


def _mbox(stream: BinaryIO) -> Iterator[bytes]:
    """The messages of an mbox whose first ``From `` line is read already (mboxrd: ``>From `` loses its ``>``)."""
    lines: list[bytes] = []
    blank = True
    for line in stream:
        if blank and line.startswith(b"From "):
            yield _joined(lines)
            lines = []
            blank = True
            continue
        blank = line in {b"\n", b"\r\n"}
        lines.append(line[1:] if line.lstrip(b">").startswith(b"From ") and line.startswith(b">") else line)
    yield _joined(lines)


def _joined(lines: list[bytes]) -> bytes:
    """A message without the empty line that an mbox puts behind it."""
    if len(lines) > 1 and lines[-1] in {b"\n", b"\r\n"}:
        lines = lines[:-1]
    return b"".join(lines)
