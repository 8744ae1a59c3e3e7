"""The messages that were taken out of the spool because they cannot be learned: files that a person can look at.

Rules: ``failed/spam`` and ``failed/ham`` have one message a file, which ``nbstream learn`` takes;
``failed/damaged`` has what is no message any more. They stay until a person removes them. When there are
``MAX_FAILED`` of them, or as many bytes as the spool itself may have, no more are set aside, and the spool waits.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from nbstream.relay.maildir_files import sync_folder, unique_name
from nbstream.spool.segments import create_folder

if TYPE_CHECKING:
    from pathlib import Path

FAILED = "failed"
MAX_FAILED = 1000


def failed_count(folder: Path) -> int:
    """Return how many files the spool in ``folder`` has set aside. Raises ``OSError``."""
    return len(_failed_files(folder))


def keep_failed(folder: Path, kind: str, content: bytes, max_bytes: int) -> None:
    """Keep ``content``, durably, in the folder of that kind; one file may always be there.

    Raises ``OSError``, with ``ENOSPC`` also where there are too many files, or they would have more bytes than
    ``max_bytes`` together.
    """
    files = _failed_files(folder)
    used = sum(path.stat().st_size for path in files)
    if len(files) >= MAX_FAILED or (files and used + len(content) > max_bytes):
        text = f"{folder / FAILED} is full, with {len(files)} messages: look at them, and remove them"
        raise OSError(errno.ENOSPC, text)
    target = folder / FAILED / kind
    create_folder(folder / FAILED)
    create_folder(target)
    name = unique_name()
    written = target / f".{name}"
    with open(written, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    written.rename(target / name)
    sync_folder(target)


def _failed_files(folder: Path) -> list[Path]:
    return [path for path in (folder / FAILED).glob("*/*") if not path.name.startswith(".")]
