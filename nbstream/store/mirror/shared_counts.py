"""Counts that the workers of a daemon share: one of them writes a table in shared memory, the others read it.

Rules: the folder belongs to the user of the daemon alone (0700), its files too (0600). ``current`` is the file of
the table in use. A file has no name while it is filled, so that nothing of it is left if its writer
is killed; then it takes the place of ``current`` in one step. Who has the old one mapped sees by its number of
links that there is another one. Whoever has the lock of ``writer.lock`` writes, and the kernel gives the lock back
when that process ends, however it ends. The memory is reserved before it is written to: where there is none, an
error says so, and no process is killed for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from nbstream.bayes.table_counts import TableCounts, TableView
from nbstream.engine.table import Memory, Table, TableFailure

if TYPE_CHECKING:
    from pathlib import Path

    from nbstream.engine.table import TableFunctions

_CURRENT = "current"
_NEXT = "next"
_WRITER_LOCK = "writer.lock"
_PRIVATE_MODE = 0o600


class NoSharedMemory(Exception):
    """There is no room in shared memory, or the folder cannot be used any more.

    It never reaches a listener or a command: the process keeps its own copy of the counts instead.
    """


@contextmanager
def _shared_memory_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NoSharedMemory(f"no shared memory: {error}") from error


class SharedFile(Memory):
    """The memory of a table in a file of the folder. It is closed when nobody has it any more."""

    def __init__(self, folder: Path, descriptor: int, *, writable: bool) -> None:
        """Map the file of ``descriptor``, which this object closes. Raises ``OSError`` or ``ValueError``."""
        self._folder = folder
        self._descriptor = descriptor
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self.buffer = mmap.mmap(descriptor, os.fstat(descriptor).st_size, mmap.MAP_SHARED, access)

    def __del__(self) -> None:
        os.close(self._descriptor)

    @classmethod
    def create(cls, folder: Path, size: int) -> SharedFile:
        """Return memory of ``size`` bytes, none of which is reserved. Raises ``NoSharedMemory``."""
        with _shared_memory_errors():
            descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, _PRIVATE_MODE)
            try:
                os.ftruncate(descriptor, size)
            except OSError:
                os.close(descriptor)
                raise
            return cls(folder, descriptor, writable=True)

    @classmethod
    def open_current(cls, folder: Path, *, writable: bool) -> SharedFile | None:
        """Return the memory of the table in use, or None where there is none."""
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return cls(folder, os.open(folder / _CURRENT, flags), writable=writable)
        except (OSError, ValueError):  # ValueError: the file is empty
            return None

    @property
    def is_superseded(self) -> bool:
        """Whether the table is not, or not any more, the one in use."""
        return os.fstat(self._descriptor).st_nlink == 0

    def reserve(self, start: int, end: int) -> None:
        """Make sure that the bytes from ``start`` to ``end`` can be written, or raise ``NoSharedMemory``."""
        if end > start:
            with _shared_memory_errors():
                os.posix_fallocate(self._descriptor, start, end - start)
            self.buffer[start : end : mmap.PAGESIZE]  # maps the pages now, many at once: one by one is slower

    def publish(self) -> None:
        """Put the file in the place of the one in use. Raises ``NoSharedMemory``."""
        with _shared_memory_errors():
            named = self._folder / _NEXT
            named.unlink(missing_ok=True)  # left by a writer that was killed at this very place
            links = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:  # only with the descriptor of a folder does Python follow the link
                os.link(str(self._descriptor), named, src_dir_fd=links, follow_symlinks=True)
            finally:
                os.close(links)
            named.rename(self._folder / _CURRENT)


class SharedView(TableView):
    """The counts that another process writes; it goes over to the next file by itself."""

    def __init__(self, functions: TableFunctions, folder: Path, memory: SharedFile) -> None:
        """Begin with the table in ``memory``. Raises ``TableFailure``."""
        self._functions = functions
        self._folder = folder
        self._memory = memory
        self._table = Table(functions, memory)
        self._identity = self._table.describe().identity

    @property
    def table(self) -> Table:
        """The table in use, or the one before where that holds the counts of another model."""
        if self._memory.is_superseded:
            self._reopen()
        return self._table

    @property
    def is_superseded(self) -> bool:
        """Whether the table in use cannot be read here."""
        return self.table.memory is self._memory and self._memory.is_superseded

    def _reopen(self) -> None:
        memory = SharedFile.open_current(self._folder, writable=False)
        if memory is None:
            return
        with suppress(TableFailure):
            table = Table(self._functions, memory)
            if table.describe().identity == self._identity:
                self._memory, self._table = memory, table


class SharedCounts:
    """The shared counts of one model in ``folder``, which is made where it is missing.

    Raises ``NoSharedMemory`` where the folder cannot be used.
    """

    def __init__(self, functions: TableFunctions, folder: Path) -> None:
        self._functions = functions
        self._folder = folder
        self.is_writer = False
        with _shared_memory_errors():
            folder.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(folder / _WRITER_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_MODE)

    def __del__(self) -> None:
        with suppress(AttributeError):
            os.close(self._lock)

    def try_to_write(self) -> bool:
        """Become the writer if there is none; return whether this process is."""
        if not self.is_writer:
            with suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.is_writer = True
        return self.is_writer

    def stop_writing(self) -> None:
        """Let another process write."""
        if self.is_writer:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self.is_writer = False

    def new_counts(self, tokens: int, identity: tuple[int, int]) -> TableCounts:
        """Return empty counts with room for so many tokens, to be filled and published by the writer.

        Raises ``NoSharedMemory``, as all that sets these counts does.
        """
        return TableCounts.empty(self._functions, self._make_memory, tokens, identity)

    def take_over(self, identity: tuple[int, int]) -> TableCounts | None:
        """Return the counts that a former writer left; None where there are none of this ``identity``."""
        memory = SharedFile.open_current(self._folder, writable=True)
        if memory is None:
            return None
        try:
            counts = TableCounts.take_over(self._functions, self._make_memory, memory)
            return counts if counts.table.describe().identity == identity else None
        except TableFailure:
            return None

    def view(self, identity: tuple[int, int]) -> SharedView | None:
        """Return the counts that another process writes; None where there are none of this ``identity``."""
        memory = SharedFile.open_current(self._folder, writable=False)
        if memory is None:
            return None
        try:
            view = SharedView(self._functions, self._folder, memory)
            return view if view.table.describe().identity == identity else None
        except TableFailure:
            return None

    def uses(self, counts: TableCounts) -> bool:
        """Return whether others find these counts, which were published."""
        memory = counts.table.memory
        return isinstance(memory, SharedFile) and not memory.is_superseded

    def remove_current(self) -> None:
        """Remove the table in use, so that its memory is given back as soon as nobody reads it."""
        with suppress(OSError):
            (self._folder / _CURRENT).unlink()

    def _make_memory(self, size: int) -> SharedFile:
        return SharedFile.create(self._folder, size)


def counts_identity(*parts: object) -> tuple[int, int]:
    """Return 128 bits that say whose counts a table holds."""
    digest = hashlib.blake2b("\n".join(map(str, parts)).encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
