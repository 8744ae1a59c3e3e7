"""The spool: reported messages that were acknowledged, and wait on the disk to be learned in their order.

Rules: the spool is a journal (``store.journal``). A message is on the disk before it is acknowledged. What cannot
be learned is set aside: ``failed/spam`` and ``failed/ham`` have one message a file, which ``nbstream learn``
takes; ``failed/damaged`` has what is no message any more. They stay until a person removes them. When there are
``MAX_FAILED`` of them, or as many bytes as the spool itself may have, no more are set aside, and the spool
waits.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nbstream.delivery.maildir import unique_name
from nbstream.durable_files import make_folder, sync_folder
from nbstream.store.embedded.locks import FileLock
from nbstream.store.journal.journal import Journal, Place, Position
from nbstream.store.journal.writer import GroupCommit, JournalWriter, Record

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "spool"
"""The name of the folder in ``state_dir``."""

FAILED = "failed"
MAX_FAILED = 1000


@dataclass(frozen=True, slots=True)
class SpooledMessage:
    """A message that waits to be learned as ``label``, "spam" or "ham".

    ``actor`` is who gave the label, as in ``LessonSource``; ``received_at`` is in whole seconds since the epoch;
    ``content`` is the message as it came, with line ends of any kind.
    """

    label: str
    actor: str
    received_at: int
    content: bytes = field(repr=False)

    def pack(self) -> Record:
        """Return the record of the message in the journal."""
        return self.label.encode(), self.actor.encode(), b"%d" % self.received_at, self.content

    @classmethod
    def unpack(cls, record: Record | None) -> SpooledMessage | None:
        """Return the message of a record; None for what is none."""
        try:
            label, actor, received_at, content = record or ()
            return cls(label.decode(), actor.decode(), int(received_at), content)
        except ValueError:
            return None


def open_learner_lock(folder: Path) -> FileLock:
    """Return the lock of the process that learns from the spool, not taken yet. Raises ``OSError``."""
    make_folder(folder)
    return FileLock(folder / "learner.lock")


class MessageSpool:
    """Adds messages to the spool in ``folder``, whose segments together have at most ``max_bytes``."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self._group_commit = GroupCommit(JournalWriter(Journal(folder), max_bytes))

    async def add(self, message: SpooledMessage) -> None:
        """Return when the message is on the disk. Raises ``OSError`` where it is not, or the spool is full."""
        await self._group_commit.append([message.pack()])

    async def close(self) -> None:
        """End when nobody waits any more; a write that the disk does not finish is left to its thread."""
        await self._group_commit.close()


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
    journal = Journal(folder)
    waiting, oldest_since = 0, None
    for start in journal.starts(journal.read_position()):
        with suppress(FileNotFoundError):  # just learned
            for place in journal.places(start):
                waiting += 1
                if oldest_since is None and (message := SpooledMessage.unpack(journal.read(place))):
                    oldest_since = message.received_at
    return SpoolBacklog(waiting, failed_count(folder), oldest_since)


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
    make_folder(target)
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


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """The next message, where it lies, and where the one after it begins.

    ``may_be_repeated``: it may have been learned before, by a process that ended before it could write that down,
    or in an attempt of this one.
    """

    message: SpooledMessage
    position: Position
    following: Position
    may_be_repeated: bool

    @property
    def tries(self) -> int:
        """How many attempts before this one did not come to an end."""
        return self.position.tries


class SpoolReader:
    """Reads the spool in ``folder`` for the one process that learns from it.

    The caller holds the learner's lock, and does not call from several threads at once. What is set aside has at
    most ``max_failed_bytes``. All methods raise ``OSError``.
    """

    def __init__(self, folder: Path, max_failed_bytes: int = 1 << 30) -> None:
        self._folder = folder
        self._max_failed_bytes = max_failed_bytes
        self._journal = Journal(folder)
        make_folder(folder)
        self._position = self._repeated_until = self._journal.read_position()
        # What is there now may have been tried by the process that had the lock before.
        if starts := self._journal.starts(self._position):
            last = starts[-1].segment
            self._repeated_until = Position(last, self._journal.path(last).stat().st_size)

    def take(self) -> SpoolEntry | None:
        """Return the next message, and count an attempt at it; None while there is none."""
        for start in self._journal.starts(self._position):
            if start.segment != self._position.segment:
                self._leave_segment(start)
            for place in self._journal.places(start):
                message = self._read_message(place)
                if message:
                    position = self._position
                    may_be_repeated = position.tries > 0 or place.end <= self._repeated_until
                    self._journal.write_position(replace(position, tries=position.tries + 1))
                    return SpoolEntry(message, position, place.end, may_be_repeated)
        return None

    def finish(self, entry: SpoolEntry) -> None:
        """Go on behind an entry that was learned."""
        self._move_to(entry.following)

    def put_back(self, entry: SpoolEntry) -> None:
        """Leave an entry for another attempt, and do not count this one."""
        self._repeated_until = max(self._repeated_until, entry.following)
        self._move_to(entry.position)

    def count_fault(self, entry: SpoolEntry) -> None:
        """Leave an entry for another attempt, and count this one."""
        self.put_back(replace(entry, position=replace(entry.position, tries=entry.tries + 1)))

    def set_aside(self, entry: SpoolEntry) -> None:
        """Keep an entry among those that failed, and go on behind it."""
        self._keep_failed(entry.message.label, entry.message.content)
        self._move_to(entry.following)

    def remove_learned(self) -> None:
        """Remove all segments if nothing in them waits: mail must not stay on the disk for no reason."""
        with self._journal.locked():  # nobody writes the rest of a frame now
            starts = self._journal.starts(self._position)
            if starts and not any(place for start in starts for place in self._journal.places(start)):
                self._leave_segment(self._journal.first_position(starts[-1].segment + 1))

    def _read_message(self, place: Place) -> SpooledMessage | None:
        """Return the message at the position; None after what is none was kept and left behind."""
        message = SpooledMessage.unpack(self._journal.read(place))
        if message is None:
            content = self._journal.read_bytes(place)
            if len(content) == place.size:  # else a writer that had failed has removed it
                self._keep_failed("damaged", content)
                self._move_to(place.end)
        return message

    def _keep_failed(self, kind: str, content: bytes) -> None:
        keep_failed(self._folder, kind, content, self._max_failed_bytes)

    def _move_to(self, position: Position) -> None:
        self._journal.write_position(position)
        self._position = position

    def _leave_segment(self, position: Position) -> None:
        """Go on in a later segment, and remove what is before it."""
        self._journal.remove_before(position)
        self._position = position
