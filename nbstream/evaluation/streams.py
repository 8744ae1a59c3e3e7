"""Labelled streams: an index of messages, a table of texts, or two heaps of messages merged into one.

Rules: the order is that of the file, or for two heaps one that depends on nothing but how many each holds; what
cannot be read is an ``InputError`` that names the line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES
from nbstream.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_TABLE_HEADER = ["label", "text"]
_INSPECTED_LINES = 10  # lines; of an index some files may be missing


@dataclass(frozen=True, slots=True)
class LabelledContent:
    """One message of a stream and its true label; bytes are mail, a str is a bare text."""

    label: str
    content: bytes | str


@dataclass(frozen=True, slots=True)
class LabelledStream:
    """``count`` messages, or fewer, in order; ``description`` says as what they were read."""

    description: str
    count: int
    messages: Iterable[LabelledContent]

    def limited_to(self, limit: int | None) -> LabelledStream:
        """The first ``limit`` messages; all for None."""
        count = self.count if limit is None else min(limit, self.count)
        return LabelledStream(self.description, count, islice(self.messages, limit))


def read_stream(path: Path) -> LabelledStream:
    """The stream of a file: a table of texts where it is named so and its first lines name no file, else an index.

    A table has the columns label and text, separated by commas (``.csv``) or tabs (``.tsv``), quoted as in CSV
    (RFC 4180), perhaps with the line ``label,text`` on top.
    """
    delimiter = _DELIMITERS.get(path.suffix.lower())
    if delimiter and not _names_files(path):
        texts = _read_table(path, delimiter)
        return LabelledStream("a table of texts", len(texts), texts)
    pairs = read_index(path, None)
    return LabelledStream("an index of messages", len(pairs), _read_files(pairs))


def read_index(index: Path, limit: int | None) -> list[tuple[str, Path]]:
    """The (label, path) pairs of an index; paths are relative to its folder.

    Raises ``InputError``, also for a message that is missing: better now than after a long run.
    """
    pairs = []
    for number, line in enumerate(_read_text(index).splitlines()[:limit], start=1):
        label, tab, path = line.partition("\t")
        if not tab or label not in CLASSES:
            raise InputError(f"{index}:{number}: must be spam or ham, a tab, and a path")
        if not (index.parent / path).exists():
            raise InputError(f"{index}:{number}: there is no {path}")
        pairs.append((label, index.parent / path))
    return pairs


def merge_streams(heaps: Sequence[tuple[str, int, Iterable[bytes]]]) -> LabelledStream:
    """One stream of several heaps (label, count, messages), each in its own order, so that all run out together.

    Message i of a heap of n comes at (i + 1/2) / n of the way; where two come at once, the earlier heap's first.
    """
    ways = [_positioned_messages(*heap) for heap in heaps]
    messages = (each for _, each in merge(*ways, key=_position))
    return LabelledStream("messages", sum(count for _, count, _ in heaps), messages)


def _positioned_messages(
    label: str, count: int, messages: Iterable[bytes]
) -> Iterator[tuple[float, LabelledContent]]:
    for i, raw in enumerate(messages):
        yield (i + 0.5) / max(count, 1), LabelledContent(label, raw)


def _position(pair: tuple[float, LabelledContent]) -> float:
    return pair[0]


def _names_files(path: Path) -> bool:
    lines = _read_text(path).split("\n", _INSPECTED_LINES)[:_INSPECTED_LINES]
    return any(_is_file(path.parent, line.partition("\t")[2].strip()) for line in lines)


def _is_file(folder: Path, name: str) -> bool:
    try:
        return bool(name) and (folder / name).is_file()
    except (OSError, ValueError):  # a text too long for a name, or with a null character
        return False


def _read_table(path: Path, delimiter: str) -> list[LabelledContent]:
    text = _read_text(path)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    texts: list[LabelledContent] = []
    longest = csv.field_size_limit(len(text))  # of all that is read as CSV here; 128 KiB by default
    try:
        for row in rows:
            if not row or (rows.line_num == 1 and [cell.strip().lower() for cell in row] == _TABLE_HEADER):
                continue
            if len(row) != 2 or row[0] not in CLASSES:
                name = "comma" if delimiter == "," else "tab"
                raise InputError(
                    f"{path}:{rows.line_num}: must be spam or ham, a {name}, and a text (quoted, if it holds a "
                    f"{name}, a line end or a quote)"
                )
            texts.append(LabelledContent(row[0], row[1]))
    except csv.Error as error:
        raise InputError(f"{path}:{rows.line_num}: {error}") from error
    finally:
        csv.field_size_limit(longest)
    return texts


def _read_files(pairs: Iterable[tuple[str, Path]]) -> Iterator[LabelledContent]:
    for label, path in pairs:
        try:
            yield LabelledContent(label, path.read_bytes())
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error


def _read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8 text'}") from error
