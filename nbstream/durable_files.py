"""Folders whose names survive a power cut, as their synced files do, and files that are replaced as a whole."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
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
    draft = _write_draft(path, content)
    try:
        draft.replace(path)
    except OSError:
        draft.unlink()
        raise
    sync_folder(path.parent)


def make_file(path: Path, content: bytes) -> None:
    """Make a file with this content, whole and durably, unless another process does so. Raises ``OSError``."""
    make_folder(path.parent)
    draft = _write_draft(path, content)
    try:
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    sync_folder(path.parent)


def _write_draft(path: Path, content: bytes) -> Path:
    """Return a synced file beside ``path``; what root writes belongs to whom the folder belongs, as a daemon."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
            if os.geteuid() == 0:
                owner = path.parent.stat()
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
    except OSError:
        Path(draft).unlink()
        raise
    return Path(draft)
