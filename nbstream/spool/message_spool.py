"""The spool as the listeners of one process use it: a message is on the disk before it is acknowledged.

Rules: what comes while the disk is busy is written together, with one sync (group commit), in a thread of its own.
Who waits may stop waiting; a message that is just being written may be in the spool then.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from nbstream.delivery.maildir import sync_folder
from nbstream.spool.segments import (
    FIRST_LINE,
    create_folder,
    open_append_lock,
    pack_message,
    read_message,
    read_position,
    segment_numbers,
    segment_path,
    segment_size,
)
from nbstream.store.frames import NoFrame

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nbstream.spool.segments import SpooledMessage


class MessageSpool:
    """Adds messages to the spool in ``folder``, whose segments together have at most ``max_bytes``."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self._writer = SpoolWriter(folder, max_bytes)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="spool")
        self._pending: list[tuple[SpooledMessage, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, message: SpooledMessage) -> None:
        """Return when the message is on the disk. Raises ``OSError`` where it is not, or the spool is full."""
        written = asyncio.get_running_loop().create_future()
        self._pending.append((message, written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_pending(), name="spool")
        try:
            await written
        finally:
            # Who stops waiting takes the message along: a disk that hangs must not gather them in memory.
            self._pending = [item for item in self._pending if item[1] is not written]

    async def close(self) -> None:
        """End when nobody waits any more; a write that the disk does not finish is left to its thread."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        self._executor.submit(self._writer.close)
        self._executor.shutdown(wait=False)

    async def _write_pending(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending:
            batch = self._take_batch()
            messages = [message for message, _ in batch]
            error: Exception | None = None
            try:
                await loop.run_in_executor(self._executor, self._writer.append, messages)
            except Exception as problem:  # noqa: BLE001 - those who wait get it
                error = problem
            for _, written in batch:
                if written.done():  # nobody waits any more
                    continue
                if error is None:
                    written.set_result(None)
                else:
                    written.set_exception(error)

    def _take_batch(self) -> list[tuple[SpooledMessage, asyncio.Future[None]]]:
        """Take the first messages that wait: to write all at once needs memory for three copies of them."""
        count = size = 0
        while count < len(self._pending) and size < SEGMENT_BYTES:
            size += len(self._pending[count][0].content)
            count += 1
        batch, self._pending = self._pending[:count], self._pending[count:]
        return batch


SEGMENT_BYTES = 8 << 20
"""A new segment is begun after so many bytes; a consumed one is removed as a whole."""


class SpoolWriter:
    """Appends to the spool in ``folder``; not to be called by several threads at once.

    All segments together have at most ``max_bytes``; one has ``segment_bytes`` and what is appended at a time.
    """

    def __init__(self, folder: Path, max_bytes: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._max_bytes = max_bytes
        self._descriptor: int | None = None
        self._number = -1
        self._end = 0  # of the last whole frame in the segment, as far as this writer has looked
        self._was_not_synced = False

    def append(self, messages: Sequence[SpooledMessage]) -> None:
        """Append the messages in their order; they are on the disk when this returns.

        Raises ``OSError`` where they are not, ``ENOSPC`` also where the spool has its largest size.
        """
        data = b"".join(map(pack_message, messages))
        create_folder(self._folder)
        # The lock is held while the bytes are written, and not while they are synced: a sync of one process takes
        # what the others have written before it along.
        with open_append_lock(self._folder) as lock:
            lock.wait_for_lock(fcntl.LOCK_EX)
            numbers = segment_numbers(self._folder)
            used = sum(segment_size(self._folder, number) for number in numbers)
            if used + len(data) > self._max_bytes:
                raise OSError(errno.ENOSPC, f"the spool is full, it has {used} bytes")
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

    def _open_last_segment(self, numbers: Sequence[int]) -> int:
        """Return the descriptor of the segment to append to, whose end is ``_end`` then."""
        first = read_position(self._folder).segment  # what is before it is learned, and may be removed any time
        last = max(numbers, default=-1)
        if last < first:
            return self._create_segment(max(first, last + 1))
        if self._descriptor is None or last != self._number:
            self.close()
            self._descriptor = os.open(segment_path(self._folder, last), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            self._number, self._end = last, 0
            if os.pread(self._descriptor, len(FIRST_LINE), 0) == FIRST_LINE:
                self._end = len(FIRST_LINE)
        # After a sync that failed nobody knows what is on the disk, and what follows must not depend on it.
        if self._was_not_synced or not self._ends_whole(self._descriptor) or self._end > self._segment_bytes:
            return self._create_segment(last + 1)
        return self._descriptor

    def _ends_whole(self, descriptor: int) -> bool:
        """Whether the segment ends with a whole frame; looks at what others have appended."""
        size = os.fstat(descriptor).st_size
        while 0 < self._end < size and not isinstance(frame := read_message(descriptor, self._end), NoFrame):
            self._end = frame[1]
        return 0 < self._end == size

    def _create_segment(self, number: int) -> int:
        """Return the descriptor of a new segment; where that fails there is none."""
        self.close()
        path = segment_path(self._folder, number)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._descriptor, self._number, self._end = descriptor, number, 0
        try:
            self._write(descriptor, FIRST_LINE)
            sync_folder(self._folder)
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
