"""The spool as the listeners of one process use it: a message is on the disk before it is acknowledged.

Rules: what comes while the disk is busy is written together, with one sync (group commit), in a thread of its own.
Who waits may stop waiting; a message that is just being written may be in the spool then.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from nbstream.spool.writer import SEGMENT_BYTES, SpoolWriter

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.spool.spooled_message import SpooledMessage


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
