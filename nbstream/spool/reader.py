"""Takes the messages out of the spool, in their order, and sets aside what cannot be learned."""

from __future__ import annotations

import fcntl
import itertools
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbstream.delivery.maildir import sync_folder
from nbstream.spool.backlog import keep_failed
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
