"""How much waits in the spool, and the files of what was set aside because it cannot be learned.

Rules: ``failed/spam`` and ``failed/ham`` have one message a file, which ``nbstream learn`` takes;
``failed/damaged`` has what is no message any more. They stay until a person removes them. When there are
``MAX_FAILED`` of them, or as many bytes as the spool itself may have, no more are set aside, and the spool waits.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.delivery.maildir import sync_folder, unique_name
from nbstream.spool.segments import (
    SpoolPosition,
    create_folder,
    frame_size,
    open_segment,
    read_message,
    read_position,
    segment_numbers,
    segment_path,
)
from nbstream.store.frames import NoFrame

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class SpoolBacklog:
    """How many messages wait and have failed; ``oldest_since`` is when the first that waits came (Unix time)."""

    waiting: int = 0
    failed: int = 0
    oldest_since: int | None = None

    def oldest_seconds(self, now: float) -> float:
        """Return for how long the first message waits, 0 where none does; ``now`` is Unix time."""
        return 0.0 if self.oldest_since is None else max(0.0, now - self.oldest_since)


def measure_backlog(folder: Path) -> SpoolBacklog:
    """Return the backlog of the spool in ``folder``; nothing waits where there is no folder. Raises ``OSError``.

    Of each message only the length is read.
    """
    position = read_position(folder)
    waiting, oldest_since = 0, None
    for number in segment_numbers(folder):
        if number < position.segment:
            continue
        offset = position.offset if number == position.segment else SpoolPosition().offset
        with suppress(FileNotFoundError), open_segment(segment_path(folder, number)) as descriptor:  # just learned
            while not isinstance(size := frame_size(descriptor, offset), NoFrame):
                if oldest_since is None and not isinstance(found := read_message(descriptor, offset), NoFrame):
                    oldest_since = found[0].received_at
                waiting += 1
                offset += size
    return SpoolBacklog(waiting, failed_count(folder), oldest_since)


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
