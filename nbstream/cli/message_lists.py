"""Files that list messages and are none themselves: learned as a message, they would teach their file names.

Rules: a list has at least two lines that are not blank, and every inspected line names a file or folder that
exists. Any other text may be a message: ``ham sandwich.`` is a short message, even where a folder ``ham`` exists.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from nbstream.cli.message_files import STANDARD_INPUT
from nbstream.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.cli.message_files import NamedMessage

_INSPECTED_LINES = 20
_INSPECTED_BYTES = 64 << 10
_MIN_LINES = 2
_INDEX_ENTRY = re.compile(
    rb"(?:spam|ham)(?:\t+(\S.*)| +(\S*[/.]\S*))"
)  # the second form is that of the TREC corpora


def refuse_list(source: NamedMessage, label: str) -> None:
    """Raise ``InputError``, which names the right command, for a file that lists messages instead of being one.

    ``label`` is the class that the file was to be learned as.
    """
    lines = _first_lines(source.raw)
    if len(lines) < _MIN_LINES:
        return
    path = None if source.name == STANDARD_INPUT else Path(source.name)
    if all(_is_index_entry(line, path.parent if path else Path()) for line in lines):
        raise InputError(
            f"{source.name}: an index of labelled messages, not a message; {_index_advice(path, label)}"
        )
    if all(map(_exists, lines)):
        raise InputError(f"{source.name}: a list of paths, not a message; {_list_advice(path, label)}")


def _first_lines(raw: bytes) -> Sequence[bytes]:
    """Return the first lines that are not blank, without white space around them."""
    whole = raw[:_INSPECTED_BYTES] if len(raw) <= _INSPECTED_BYTES else raw[:_INSPECTED_BYTES].rpartition(b"\n")[0]
    return [line for line in map(bytes.strip, whole.splitlines()) if line][:_INSPECTED_LINES]


def _is_index_entry(line: bytes, folder: Path) -> bool:
    """Return whether the line is a label and a path that exists; a relative path begins at ``folder``."""
    entry = _INDEX_ENTRY.fullmatch(line)
    return entry is not None and _exists(os.path.join(os.fsencode(folder), entry[1] or entry[2]))  # noqa: PTH118 - bytes


def _exists(path: bytes) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - false for what is no path at all


def _index_advice(path: Path | None, label: str) -> str:
    folder = "" if path is None or path.parent == Path() else f"cd {shlex.quote(str(path.parent))} && "
    name = "INDEX" if path is None else shlex.quote(path.name)
    learn = f"sed -n 's/^{label}[[:blank:]]*//p' {name} | xargs -d '\\n' nbstream learn {label}"
    return f"to learn its {label}: {folder}{learn}; to measure with it: nbstream evaluate {path or 'INDEX'}"


def _list_advice(path: Path | None, label: str) -> str:
    command = f"xargs -d '\\n' nbstream learn {label}"
    command = f"... | {command}" if path is None else f"{command} < {shlex.quote(str(path))}"
    return f"to learn what it lists: {command}"
