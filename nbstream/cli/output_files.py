"""Files that commands write: a path that cannot be written to is an error before the work, not after it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nbstream.errors import OutputFailed


def check_writable(paths: Sequence[Path]) -> None:
    """Raise ``OutputFailed`` for the first of ``paths`` that no file can be written to."""
    for path in paths:
        target = path if path.exists() else path.parent
        if path.is_dir() or not target.exists() or not os.access(target, os.W_OK):
            raise OutputFailed(f"{path}: cannot be written there")


@contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Turn an ``OSError`` inside into an ``OutputFailed`` that names ``path``."""
    try:
        yield
    except OSError as error:
        raise OutputFailed(f"{path}: {error.strerror}") from error
