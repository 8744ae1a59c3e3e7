"""Writers of a journal: one for a thread, and one for the event loop that writes together what comes together."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from nbstream.durable_files import make_folder, sync_folder
from nbstream.store.journal.frames import pack_frame, unpack_frame
from nbstream.store.journal.journal import FIRST_LINE, Position

if TYPE_CHECKING:
    from nbstream.store.journal.journal import Journal

SEGMENT_BYTES = 8 << 20
"""A new segment is begun after so many bytes: only whole ones are removed."""

SEGMENT_SECONDS = 180
"""A new segment is begun after so many seconds."""

_CLOSE_SECONDS = 1.0  # for what is still to be written

Record: TypeAlias = Sequence[bytes]
"""The byte strings of one frame."""


_Pending: TypeAlias = "tuple[Sequence[Record], asyncio.Future[None]]"


class JournalWriter:
    """Appends to a journal; not to be called by several threads at once.

    All segments together have at most ``max_bytes``; one has ``segment_bytes`` and what is appended at a time.
    """

    def __init__(self, journal: Journal, max_bytes: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._journal = journal
        self._max_bytes = max_bytes
        self._segment_bytes = segment_bytes
        self._descriptor: int | None = None
        self._number = -1
        self._end = 0  # of the last whole frame in the segment, as far as this writer has looked
        self._was_not_synced = False

    def append(self, records: Sequence[Record]) -> None:
        """Append the records in their order; they survive a power cut when this returns.

        Raises ``OSError`` where they are not, ``ENOSPC`` also where the journal has no room.
        """
        data = b"".join(map(pack_frame, records))
        make_folder(self._journal.folder)
        # The lock is held while the bytes are written, and not while they are synced: a sync of one process takes
        # what the others have written before it along.
        with self._journal.locked():
            numbers = self._journal.segments()
            self._check_room(numbers, len(data))
            descriptor = self._open_last_segment(numbers)
            self._write(descriptor, data)
        try:
            os.fdatasync(descriptor)
        except OSError:
            self._was_not_synced = True
            raise

    def close(self) -> None:
        """Close the present segment."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._number = None, -1

    def _check_room(self, numbers: Sequence[int], added: int) -> None:
        """Raise ``OSError`` where so many more bytes have no room."""
        used = 0
        for number in numbers:
            with suppress(FileNotFoundError):  # it was read, and just removed
                used += self._journal.path(number).stat().st_size
        if used + added > self._max_bytes:
            raise OSError(errno.ENOSPC, f"the {self._journal.folder.name} is full, it has {used} bytes")

    def _open_last_segment(self, numbers: Sequence[int]) -> int:
        """Return the descriptor of the segment to append to, whose end is ``_end`` then."""
        # What is before the position is done with, and may be removed any time.
        last = max([*numbers, self._journal.read_position().segment - 1])
        if self._descriptor is None or last != self._number:
            self.close()
            with suppress(OSError):  # it was removed, or is not for this user
                path = self._journal.path(last)
                self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
                self._number, self._end = last, 0
                if os.pread(self._descriptor, len(FIRST_LINE), 0) == FIRST_LINE:
                    self._end = len(FIRST_LINE)
        if self._descriptor is None or self._was_not_synced or not self._can_grow(self._descriptor):
            return self._create_segment(last + 1)
        return self._descriptor

    def _can_grow(self, descriptor: int) -> bool:
        """Whether the segment is there, is whole, small and young; looks at what others have appended."""
        status = os.fstat(descriptor)
        is_young = time.time() - self._number <= SEGMENT_SECONDS
        if not self._end or not status.st_nlink or status.st_size > self._segment_bytes or not is_young:
            return False
        if self._end < status.st_size:
            for place in self._journal.places(Position(self._number, self._end)):
                if unpack_frame(self._journal.read_bytes(place)) is None:
                    break
                self._end = place.end.offset
        return self._end == status.st_size

    def _create_segment(self, number: int) -> int:
        """Return the descriptor of a new segment, with that number or a later one."""
        self.close()
        number = max(number, int(time.time()))
        path = self._journal.path(number)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._descriptor, self._number, self._end = descriptor, number, 0
        try:
            self._write(descriptor, FIRST_LINE)
            sync_folder(self._journal.folder)
        except OSError:
            self.close()
            path.unlink(missing_ok=True)
            raise
        self._was_not_synced = False
        return descriptor

    def _write(self, descriptor: int, data: bytes) -> None:
        """Write at the end of the segment; what is written in part is removed again.

        One byte of it stays, so that nobody writes in its place: a reader may have read the whole frames in it,
        and would go on behind them.
        """
        rest, offset = memoryview(data), self._end
        try:
            while rest:
                written = os.pwrite(descriptor, rest, offset)
                rest, offset = rest[written:], offset + written
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, min(offset, self._end + 1))
            raise
        self._end = offset


class GroupCommit:
    """Appends to a journal from the event loop, in a thread of its own.

    What comes while the disk is busy is written together, with one sync.
    """

    def __init__(self, writer: JournalWriter) -> None:
        self._writer = writer
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._pending: list[_Pending] = []
        self._writing: asyncio.Future[None] | None = None

    async def append(self, records: Sequence[Record]) -> None:
        """Return when the records are in the journal. Raises ``OSError`` where they are not.

        Who stops waiting takes them along, since a disk that hangs must not gather them in memory. What is just
        being written may be in the journal then.
        """
        written = asyncio.get_running_loop().create_future()
        self._pending.append((records, written))
        if self._writing is None:
            self._write_batch()
        try:
            await written
        finally:
            self._pending = [item for item in self._pending if item[1] is not written]

    async def close(self) -> None:
        """Write what waits, and close the file; a write that the disk does not finish is left to its thread."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._writing:
                    await asyncio.wait([self._writing])
        for _, written in self._pending:
            written.cancel()
        self._pending = []
        self._executor.submit(self._writer.close)
        self._executor.shutdown(wait=False)

    def _write_batch(self) -> None:
        """Write the first records that wait: to write all at once needs memory for three copies of them."""
        count = size = 0
        while count < len(self._pending) and size < SEGMENT_BYTES:
            size += sum(len(string) for record in self._pending[count][0] for string in record)
            count += 1
        batch, self._pending = self._pending[:count], self._pending[count:]
        records = [record for records, _ in batch for record in records]
        loop = asyncio.get_running_loop()
        self._writing = loop.run_in_executor(self._executor, self._writer.append, records)
        self._writing.add_done_callback(partial(self._end_batch, batch))

    def _end_batch(self, batch: Sequence[_Pending], writing: asyncio.Future[None]) -> None:
        self._writing = None
        if self._pending:
            self._write_batch()
        error = writing.exception()
        for _, written in batch:
            if written.done():  # nobody waits any more
                continue
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)
