"""The journal of one process: the lessons that Redis acknowledged to it, before it acknowledges them to others.

Rules: a journal that cannot be written refuses no lesson: it says so once, counts, and goes on. The file is
written by a thread of its own, since a disk may be slow. A lesson waits for that at most ``_WRITE_SECONDS``; while
a write takes longer than that, the lessons after it do not wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from nbstream.store.acknowledged.lesson_files import LessonFileWriter, pack_frame

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.store.model.commit import AcknowledgedLesson

_log = logging.getLogger(__name__)

_WRITE_SECONDS = 1.0
_MAX_WAITING_BYTES = 4 << 20  # about 3,000 lessons that wait for the disk


class LessonJournal:
    """The journal of this process in ``folder``; a ``LessonRecorder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identity = ""
        self._writer = LessonFileWriter(folder)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._waiting_bytes = 0
        self._is_slow = False
        self._is_failing = False
        self._report_unrecorded: Callable[[int], object] = lambda _: None

    def report_unrecorded_to(self, report: Callable[[int], object]) -> None:
        """From now on call ``report`` with the number of lessons that could not be recorded."""
        self._report_unrecorded = report

    async def record(self, lessons: Sequence[AcknowledgedLesson]) -> None:
        """Record the lessons; returns when they are in the file, or when that takes too long. Never raises."""
        data = b"".join(map(pack_frame, lessons))
        if self._waiting_bytes + len(data) > _MAX_WAITING_BYTES:
            self._note_failure(len(lessons), "the disk is too slow")
            return
        self._waiting_bytes += len(data)
        writing = asyncio.get_running_loop().run_in_executor(self._executor, self._writer.append, data)
        writing.add_done_callback(lambda _: self._note_end(len(data), len(lessons), writing))
        if not self._is_slow:
            done, _ = await asyncio.wait([writing], timeout=_WRITE_SECONDS)
            self._is_slow = self._is_slow or not done

    async def close(self) -> None:
        """Write what waits, and close the file."""
        closing = asyncio.get_running_loop().run_in_executor(self._executor, self._writer.close)
        await asyncio.wait([closing], timeout=_WRITE_SECONDS)
        self._executor.shutdown(wait=False)

    def _note_end(self, size: int, lessons: int, writing: asyncio.Future[None]) -> None:
        self._waiting_bytes -= size
        self._is_slow = False
        error = None if writing.cancelled() else writing.exception()
        if error:
            self._note_failure(lessons, str(error))
        elif self._is_failing:
            self._is_failing = False
            _log.info("acknowledged lessons are recorded again")

    def _note_failure(self, lessons: int, problem: str) -> None:
        """Count lessons that are not recorded, and log the first failure of several."""
        self._report_unrecorded(lessons)
        if not self._is_failing:
            _log.error(
                "acknowledged lessons are not recorded: what a failover of Redis loses cannot be taught again: %s",
                problem,
            )
        self._is_failing = True
