"""The spool: reported messages that were acknowledged, and wait on the disk to be learned in their order.

Rules: the messages are in the state file. One is there before it is acknowledged. What cannot be learned is set
aside: ``spool/failed/spam`` and ``spool/failed/ham`` have one message a file, which ``nbstream learn`` takes. They
stay until a person removes them. When there are ``MAX_FAILED`` of them, or as many bytes as the spool itself may
have, no more are set aside, and the spool waits.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from nbstream.delivery.maildir import unique_name
from nbstream.durable_files import make_folder, sync_folder
from nbstream.file_locks import FileLock
from nbstream.store.state_file import StateFile, used_bytes

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

FAILED = "spool/failed"
"""The folder in ``state_dir`` of what was set aside."""

MAX_FAILED = 1000


@dataclass(frozen=True, slots=True)
class SpooledFeedback:
    """A message that waits to be learned as ``label``, "spam" or "ham".

    ``actor`` is who gave the label, as in ``FeedbackSource``; ``received_at`` is in whole seconds since the epoch;
    ``content`` is the message as it came, with line ends of any kind.
    """

    label: str
    actor: str
    received_at: int
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """The next message.

    ``tries`` counts the earlier attempts at it that have not come to an end: by a fault, or with the end of their
    process. ``was_tried``: there was an attempt before, of any end, so it may have been learned.
    """

    id: int
    message: SpooledFeedback
    tries: int
    was_tried: bool


class Spool:
    """The spool in ``state``, which has at most ``max_bytes``; what was set aside has as many again.

    All methods raise ``OSError``. One process at a time takes messages: the one that has the lock.
    """

    def __init__(self, state: StateFile, max_bytes: int) -> None:
        self._state, self._max_bytes = state, max_bytes
        self.state_dir = state.path.parent

    def open_lock(self) -> FileLock:
        """Return the lock of the process that learns, not taken yet."""
        make_folder(self.state_dir)
        return FileLock(self.state_dir / "spool.lock")

    async def add(self, message: SpooledFeedback) -> None:
        """Return when the message is on the disk."""
        await self._state.write_soon(partial(_insert, message, self._max_bytes))

    async def take(self, learned: SpoolEntry | None = None) -> SpoolEntry | None:
        """Remove ``learned``; return the next message, and count an attempt at it; None while there is none."""
        return await self._state.write_soon(partial(_take, learned))

    async def finish(self, entry: SpoolEntry) -> None:
        """Remove an entry that was learned."""
        await self._state.write_soon(partial(_remove, entry))

    async def put_back(self, entry: SpoolEntry) -> None:
        """Leave an entry for another attempt, and do not count this one."""
        query = "UPDATE spooled SET tries = ? WHERE id = ?"
        await self._state.write_soon(lambda database: database.execute(query, (entry.tries, entry.id)))

    async def set_aside(self, entry: SpoolEntry) -> None:
        """Keep an entry among those that failed, and remove it from those that wait."""

        def keep_and_remove(database: sqlite3.Connection) -> None:
            keep_failed(self.state_dir, entry.message.label, entry.message.content, self._max_bytes)
            _remove(entry, database)

        await self._state.write_soon(keep_and_remove)


def _insert(message: SpooledFeedback, max_bytes: int, database: sqlite3.Connection) -> None:
    query = "INSERT INTO spooled (label, actor, received_at) VALUES (?, ?, ?)"
    number = database.execute(query, (message.label, message.actor, message.received_at)).lastrowid
    database.execute("INSERT INTO spooled_content VALUES (?, ?)", (number, message.content))
    if (used := used_bytes(database)) > max_bytes:
        raise OSError(errno.ENOSPC, f"the spool is full: with this message it would have {used} bytes")


def _take(learned: SpoolEntry | None, database: sqlite3.Connection) -> SpoolEntry | None:
    if learned:
        _remove(learned, database)
    query = """SELECT id, label, actor, received_at, content, tries, was_tried
        FROM spooled JOIN spooled_content USING (id) ORDER BY id LIMIT 1"""
    if (row := database.execute(query).fetchone()) is None:
        return None
    number, *message, tries, was_tried = row
    database.execute("UPDATE spooled SET tries = tries + 1, was_tried = 1 WHERE id = ?", (number,))
    return SpoolEntry(number, SpooledFeedback(*message), tries, bool(was_tried))


def _remove(entry: SpoolEntry, database: sqlite3.Connection) -> None:
    for table in ("spooled", "spooled_content"):
        database.execute(f"DELETE FROM {table} WHERE id = ?", (entry.id,))  # noqa: S608 - the names above


@dataclass(frozen=True, slots=True)
class SpoolBacklog:
    """How many messages wait and have failed; ``oldest_since`` is when the first that waits came (Unix time)."""

    waiting: int = 0
    failed: int = 0
    oldest_since: int | None = None

    def oldest_seconds(self, now: float) -> float:
        """Return for how long the first message waits, 0 where none does; ``now`` is Unix time."""
        return 0.0 if self.oldest_since is None else max(0.0, now - self.oldest_since)


def measure_backlog(state_dir: Path) -> SpoolBacklog:
    """Return the backlog of the spool; nothing waits where there is no file. Raises ``OSError``."""
    query = "SELECT (SELECT count(*) FROM spooled), received_at FROM spooled ORDER BY id LIMIT 1"
    waiting, oldest_since = next(iter(StateFile(state_dir).read(query)), (0, None))
    return SpoolBacklog(waiting, len(_failed_files(state_dir)), oldest_since)


def keep_failed(state_dir: Path, label: str, content: bytes, max_bytes: int) -> None:
    """Keep ``content``, durably, in the folder of that label; one file may always be there.

    Raises ``OSError``, with ``ENOSPC`` also where there are too many files, or they would have more bytes than
    ``max_bytes`` together.
    """
    files = _failed_files(state_dir)
    used = sum(path.stat().st_size for path in files)
    if len(files) >= MAX_FAILED or (files and used + len(content) > max_bytes):
        text = f"{state_dir / FAILED} is full, with {len(files)} messages: look at them, and remove them"
        raise OSError(errno.ENOSPC, text)
    target = state_dir / FAILED / label
    make_folder(target)
    name = unique_name()
    written = target / f".{name}"
    with open(written, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    written.rename(target / name)
    sync_folder(target)


def _failed_files(state_dir: Path) -> list[Path]:
    return [path for path in (state_dir / FAILED).glob("*/*") if not path.name.startswith(".")]
