"""What waits in the spool: how much, the messages in their order, and what is set aside as not learnable.

Rules: ``failed/spam`` and ``failed/ham`` have one message a file, which ``nbstream learn`` takes;
``failed/damaged`` has what is no message any more. They stay until a person removes them. When there are
``MAX_FAILED`` of them, or as many bytes as the spool itself may have, no more are set aside, and the spool waits.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbstream.delivery.maildir import sync_folder, unique_name
from nbstream.spool.segments import (
    SpooledMessage,
    SpoolPosition,
    create_folder,
    frame_size,
    open_append_lock,
    open_segment,
    read_message,
    read_position,
    segment_numbers,
    segment_path,
    write_position,
)
from nbstream.store.frames import NoFrame

if TYPE_CHECKING:
    from pathlib import Path


# How much waits in the spool, and the files of what was set aside because it cannot be learned.
#
# Rules: ``failed/spam`` and ``failed/ham`` have one message a file, which ``nbstream learn`` takes;
# ``failed/damaged`` has what is no message any more. They stay until a person removes them. When there are
# ``MAX_FAILED`` of them, or as many bytes as the spool itself may have, no more are set aside, and the spool
# waits.


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


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """The next message, and where it lies.

    ``tries`` counts the attempts before this one that did not come to an end. ``may_be_repeated``: it may have
    been learned before, by a process that ended before it could write that down, or in an attempt of this one.
    """

    message: SpooledMessage
    position: SpoolPosition
    following: SpoolPosition
    tries: int
    may_be_repeated: bool


class SpoolReader:
    """Reads the spool in ``folder`` for the one process that learns from it.

    The caller holds the learner's lock, and does not call from several threads at once. What is set aside has at
    most ``max_failed_bytes``. All methods raise ``OSError``.
    """

    def __init__(self, folder: Path, max_failed_bytes: int = 1 << 30) -> None:
        self._folder = folder
        self._max_failed_bytes = max_failed_bytes
        create_folder(folder)
        self._position = read_position(folder)
        # What is there now may have been tried by the process that had the lock before.
        self._repeated_until = self._position
        if numbers := self._segments_to_read():
            self._repeated_until = SpoolPosition(numbers[-1], segment_path(folder, numbers[-1]).stat().st_size)

    def take(self) -> SpoolEntry | None:
        """Return the next message, and count an attempt at it; None while there is none."""
        while True:
            # In this order: what is read after a later segment was seen is all that this segment will ever have.
            numbers = self._segments_to_read()
            if not numbers:
                return None
            if numbers[0] != self._position.segment:
                self._position = SpoolPosition(numbers[0])
            entry = self._read_entry()
            if isinstance(entry, SpoolEntry):
                write_position(self._folder, replace(self._position, tries=self._position.tries + 1))
                return entry
            if entry is NoFrame.DAMAGED:
                continue
            if len(numbers) == 1:
                return None
            self._leave_segment(SpoolPosition(numbers[1]))

    def finish(self, entry: SpoolEntry) -> None:
        """Go on behind an entry that was learned."""
        self._move_to(entry.following)

    def put_back(self, entry: SpoolEntry) -> None:
        """Leave an entry for another attempt, and do not count this one."""
        self._repeated_until = max(self._repeated_until, entry.following)
        self._move_to(replace(entry.position, tries=entry.tries))

    def count_fault(self, entry: SpoolEntry) -> None:
        """Leave an entry for another attempt, and count this one."""
        self.put_back(replace(entry, tries=entry.tries + 1))

    def set_aside(self, entry: SpoolEntry) -> None:
        """Keep an entry among those that failed, and go on behind it."""
        self._keep_failed(entry.message.label, entry.message.content)
        self._move_to(entry.following)

    def remove_learned(self) -> None:
        """Remove the last segment if nothing in it waits: mail must not stay on the disk for no reason."""
        with open_append_lock(self._folder) as lock:
            lock.wait_for_lock(fcntl.LOCK_EX)
            number, offset = self._position.segment, self._position.offset
            if self._segments_to_read() != [number]:
                return
            with open_segment(segment_path(self._folder, number)) as descriptor:
                is_learned = frame_size(descriptor, offset) is NoFrame.CUT  # nobody writes the rest of a frame now
            if is_learned:
                self._leave_segment(SpoolPosition(number + 1))

    def _segments_to_read(self) -> list[int]:
        return [number for number in segment_numbers(self._folder) if number >= self._position.segment]

    def _read_entry(self) -> SpoolEntry | NoFrame:
        """Return the entry at the position; after a damaged one was kept and left behind, ``DAMAGED``."""
        position = self._position
        with open_segment(segment_path(self._folder, position.segment)) as descriptor:
            found = read_message(descriptor, position.offset)
            if found is NoFrame.DAMAGED:
                with open_append_lock(self._folder) as lock:  # a writer may just remove what it wrote in part
                    lock.wait_for_lock(fcntl.LOCK_EX)
                    found = read_message(descriptor, position.offset)
            if found is NoFrame.DAMAGED:
                size = frame_size(descriptor, position.offset)
                if isinstance(size, NoFrame):  # nobody knows where the next one begins
                    size = os.fstat(descriptor).st_size - position.offset
                self._keep_failed("damaged", os.pread(descriptor, size, position.offset))
                self._move_to(SpoolPosition(position.segment, position.offset + size))
                return NoFrame.DAMAGED
        if isinstance(found, NoFrame):
            return found
        message, end = found
        following = SpoolPosition(position.segment, end)
        may_be_repeated = position.tries > 0 or following <= self._repeated_until
        return SpoolEntry(message, position, following, position.tries, may_be_repeated)

    def _keep_failed(self, kind: str, content: bytes) -> None:
        keep_failed(self._folder, kind, content, self._max_failed_bytes)

    def _move_to(self, position: SpoolPosition) -> None:
        write_position(self._folder, position)
        self._position = position

    def _leave_segment(self, position: SpoolPosition) -> None:
        """Go on in a later segment, and remove what is before it."""
        write_position(self._folder, position, sync=True)
        self._position = position
        for number in itertools.takewhile(lambda number: number < position.segment, segment_numbers(self._folder)):
            segment_path(self._folder, number).unlink(missing_ok=True)
        sync_folder(self._folder)
