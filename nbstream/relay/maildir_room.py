"""Whether a Maildir has room for mail.

Rules: the answer is what the file system says now, not what it said once: a Maildir that is no longer full must
not stay "full" until mail comes, because no mail comes to a server that is not ready. Quotas, which the file
system does not tell, show when a file is not written: from then on room for such a file is asked for, until there
is some. The work is some system calls in a thread, one at a time, however often somebody asks.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pathlib

DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
NO_ROOM = "no space is left for mail"

_MIN_FREE_BYTES = 16 << 20
_MIN_FREE_INODES = 100
_PROBE_BYTES = 1 << 20  # at most, in place of a larger file that was not written
_ANSWER_SECONDS = 2.0  # a file system of another machine may not answer
_NO_ANSWER = "the file system does not answer"


class MaildirRoom:
    """The room of the Maildir at ``path``, as its writers and the file system see it."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._refused_bytes = 0  # of the last file, where it was not written for lack of room
        self._check: asyncio.Task[str | None] | None = None

    def note_written(self) -> None:
        """Note that a file was written."""
        self._refused_bytes = 0

    def note_refused(self, size: int) -> None:
        """Note that a file of ``size`` bytes was not written; this Maildir may be the one that is full."""
        self._refused_bytes = max(size, 1)

    async def problem(self) -> str | None:
        """Return ``NO_ROOM``, why nobody knows, or None where there is room or no Maildir yet."""
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(asyncio.to_thread(self._find_problem), name="maildir: room")
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.shield(self._check)
        except TimeoutError:
            return _NO_ANSWER

    def _find_problem(self) -> str | None:
        try:
            free = os.statvfs(self._path)
            has_inodes = free.f_files == 0 or free.f_favail >= _MIN_FREE_INODES  # some file systems count none
            if free.f_bavail * free.f_frsize < _MIN_FREE_BYTES or not has_inodes:
                return NO_ROOM
            if self._refused_bytes:
                self._try_to_write(min(self._refused_bytes, _PROBE_BYTES))
                self._refused_bytes = 0
        except FileNotFoundError:
            return None
        except OSError as error:
            return NO_ROOM if error.errno in DISK_FULL_ERRORS else "the file system fails"
        return None

    def _try_to_write(self, size: int) -> None:
        """Write and sync so many bytes to a file that has no name any more. Raises ``OSError``."""
        path = self._path / "tmp" / f"room.{secrets.token_hex(8)}"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            path.unlink()
            os.write(descriptor, bytes(size))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
