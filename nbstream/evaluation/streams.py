"""Labelled streams: an index of messages, a table of texts, or several sources of messages merged into one.

Rules: the order is that of the file; for several sources it depends on nothing but their numbers of messages. A
line that cannot be read is an ``InputError`` that names it.
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

from nbstream.bayes.columns import CLASSES
from nbstream.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_TABLE_HEADER = ["label", "text"]
_INSPECTED_LINES = 10  # more than one, because some files of an index may be missing


@dataclass(frozen=True, slots=True)
class LabelledContent:
    """One message of a stream and its true label; bytes are mail, a str is a text without header fields.

    ``name`` says where it is: its path, or the line of a table where it ends.
    """

    label: str
    content: bytes | str
    name: str = ""


@dataclass(frozen=True, slots=True)
class MessageSource:
    """Messages with one label: at most ``count`` of them, in order, each with its name."""

    label: str
    count: int
    messages: Iterable[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class LabelledStream:
    """At most ``count`` messages in order; ``description`` says how the input was interpreted."""

    description: str
    count: int
    messages: Iterable[LabelledContent]

    def limited_to(self, limit: int | None) -> LabelledStream:
        """Return a stream of the first ``limit`` messages; with None of all."""
        count = self.count if limit is None else min(limit, self.count)
        return LabelledStream(self.description, count, islice(self.messages, limit))


def read_stream(path: Path) -> LabelledStream:
    """Return the stream of a file: a table of texts, or an index of messages.

    The file is a table if its name ends in ``.csv`` or ``.tsv`` and its first lines name no existing file. A table
    has the columns label and text, separated by commas (``.csv``) or tabs (``.tsv``) and quoted as in CSV (RFC
    4180). Its first line may be ``label,text``. Raises ``InputError``.
    """
    delimiter = _DELIMITERS.get(path.suffix.lower())
    if delimiter and not _names_files(path):
        texts = _read_table(path, delimiter)
        return LabelledStream("a table of texts", len(texts), texts)
    lines = read_index(path, None)
    return LabelledStream("an index of messages", len(lines), _read_files(lines))


def read_index(index: Path, limit: int | None) -> list[tuple[str, Path]]:
    """Return the lines of an index: label and path; what follows another tab is ignored.

    Paths are relative to the folder of the index. Raises ``InputError``, also for a missing message, so that a
    long run does not fail in the middle.
    """
    lines = []
    for number, line in enumerate(_read_text(index).splitlines()[:limit], start=1):
        label, tab, rest = line.partition("\t")
        path = rest.partition("\t")[0]
        if not tab or label not in CLASSES:
            raise InputError(f"{index}:{number}: must be spam or ham, a tab, and a path")
        if not (index.parent / path).exists():
            raise InputError(f"{index}:{number}: there is no {path}")
        lines.append((label, index.parent / path))
    return lines


def merge_sources(sources: Sequence[MessageSource]) -> LabelledStream:
    """Return one stream of several sources, each in its own order, so that all of them end together.

    Message i of a source of n has the position (i + 1/2) / n; of equal positions the earlier source comes first.
    """
    positioned = [_positioned_messages(source) for source in sources]
    messages = (message for _, message in merge(*positioned, key=_position))
    return LabelledStream("messages", sum(source.count for source in sources), messages)


def _positioned_messages(source: MessageSource) -> Iterator[tuple[float, LabelledContent]]:
    for i, (name, raw) in enumerate(source.messages):
        yield (i + 0.5) / max(source.count, 1), LabelledContent(source.label, raw, name)


def _position(pair: tuple[float, LabelledContent]) -> float:
    return pair[0]


def _names_files(path: Path) -> bool:
    lines = _read_text(path).split("\n", _INSPECTED_LINES)[:_INSPECTED_LINES]
    return any(_is_file(path.parent, line.split("\t", 2)[1:2]) for line in lines)


def _is_file(folder: Path, names: Sequence[str]) -> bool:
    try:
        return any(name.strip() and (folder / name.strip()).is_file() for name in names)
    except (OSError, ValueError):  # a text that is too long for a name, or contains a null character
        return False


def _read_table(path: Path, delimiter: str) -> list[LabelledContent]:
    text = _read_text(path)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    texts: list[LabelledContent] = []
    former_limit = csv.field_size_limit(len(text))  # it is global and 128 KiB by default
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
            texts.append(LabelledContent(row[0], row[1], f"{path}:{rows.line_num}"))
    except csv.Error as error:
        raise InputError(f"{path}:{rows.line_num}: {error}") from error
    finally:
        csv.field_size_limit(former_limit)
    return texts


def _read_files(lines: Iterable[tuple[str, Path]]) -> Iterator[LabelledContent]:
    for label, path in lines:
        try:
            yield LabelledContent(label, path.read_bytes(), str(path))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error


def _read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8 text'}") from error
