"""Folders whose names survive a power cut, as their synced files do, and files that are replaced as a whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make the folder and those above it that are missing, for their owner alone. Raises ``OSError``."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Return once the names in the folder are on the disk. Raises ``OSError``."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Put a file with this content, for its owner alone, in the place of ``path``, durably. Raises ``OSError``."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink()
        raise
    sync_folder(path.parent)
