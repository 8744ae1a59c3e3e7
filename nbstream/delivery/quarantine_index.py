"""What a process knows of the files of the quarantine: for whom each one waits, and how much room it takes.

Rules: the files are the truth. A look reads the names in the folders, and opens only the files that are new: what
a view of one user costs does not depend on what waits for others. A file that this process is about to write
counts before it is written. What other processes have written counts with the next look, and twenty times as long
as a look takes passes between two of them: so several processes together may go over a limit by what they take in
that time.
"""

from __future__ import annotations

import os
import pathlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

_PAUSES = 20  # between two looks, each as long as the last look took
_SETTLED_NANOSECONDS = 1_000_000_000  # after a change, the time of a folder tells of the next one
_RESERVED_SECONDS = 600.0  # for a file that is being written

_Key: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file: the users that it waits for, the bytes of the file, and its shared body."""

    users: frozenset[str]
    file_bytes: int
    digest: str = ""
    body_bytes: int = 0


@dataclass(frozen=True, slots=True)
class QuarantineUsage:
    """The bytes of all files, where a shared body counts once, and of the messages of the user who has most."""

    total: int = 0
    largest_user: int = 0


class QuarantineIndex:
    """The index of the Maildir at ``path``, for use in threads.

    ``read_file`` opens a file; None where it cannot now, and the next look asks again.
    """

    def __init__(self, path: pathlib.Path, read_file: Callable[[pathlib.Path], IndexedFile | None]) -> None:
        self._path = path
        self._read_file = read_file
        self._lock = threading.Lock()
        self._times: tuple[int, ...] = ()
        self._next_look = 0.0
        self._files: dict[_Key, IndexedFile] = {}
        self._keys: dict[str, set[_Key]] = {}  # by the user
        self._reserved: dict[str, tuple[IndexedFile, float]] = {}
        self._total = 0
        self._bytes: Counter[str] = Counter()  # by the user
        self._bodies: Counter[str] = Counter()

    def paths_for(self, user: str) -> Iterator[pathlib.Path]:
        """Return the files that wait for the user, those first whose names begin with the latest second.

        Raises ``OSError``.
        """
        with self._lock:
            self._look_if_changed()
            names = [(int(name.partition(".")[0]), name, folder) for folder, name, _ in self._keys.get(user, ())]
        return (self._path / folder / name for _, name, folder in sorted(names, reverse=True))

    def usage(self) -> QuarantineUsage:
        """Return how much room is taken. Raises ``OSError``."""
        with self._lock:
            self._look_if_changed()
            return QuarantineUsage(self._total, max(self._bytes.values(), default=0))

    def reserve(self, files: dict[str, IndexedFile], max_bytes: int | None, max_user_bytes: int | None) -> bool:
        """Count files, by name, that are about to be written; False, and nothing is, where they have no room.

        Raises ``OSError``.
        """
        with self._lock:
            if time.monotonic() >= self._next_look:
                self._look()
            for file in files.values():
                self._count(file, 1)
            users = frozenset[str]().union(*(file.users for file in files.values()))
            fits = (max_bytes is None or self._total <= max_bytes) and (
                max_user_bytes is None or all(self._bytes[user] <= max_user_bytes for user in users)
            )
            if not fits:
                for file in files.values():
                    self._count(file, -1)
                return False
            until = time.monotonic() + _RESERVED_SECONDS
            self._reserved.update({name: (file, until) for name, file in files.items()})
            return True

    def forget(self, names: Iterable[str]) -> None:
        """Count files no more that were to be written, and were not."""
        with self._lock:
            for name in names:
                self._end_reservation(name)

    def _look_if_changed(self) -> None:
        times = tuple(folder.stat().st_mtime_ns if folder.exists() else 0 for folder in self._folders())
        if times != self._times:
            self._look()
            is_settled = time.time_ns() - max(times) > _SETTLED_NANOSECONDS
            self._times = times if is_settled else ()

    def _folders(self) -> Sequence[pathlib.Path]:
        return self._path / "new", self._path / "cur"

    def _look(self) -> None:
        """Take over what is in the folders."""
        started = time.monotonic()
        keys = {(folder.name, name, inode) for folder in self._folders() for name, inode in _names(folder)}
        for key in self._files.keys() - keys:
            self._remove(key)
        for key in keys - self._files.keys():
            folder, name, _ = key
            if file := self._read_file(self._path / folder / name):
                self._end_reservation(name)
                self._add(key, file)
        for name, (_, until) in list(self._reserved.items()):
            if until < started:
                self._end_reservation(name)
        ended = time.monotonic()
        self._next_look = ended + _PAUSES * (ended - started)

    def _add(self, key: _Key, file: IndexedFile) -> None:
        self._files[key] = file
        self._count(file, 1)
        for user in file.users:
            self._keys.setdefault(user, set()).add(key)

    def _remove(self, key: _Key) -> None:
        file = self._files.pop(key)
        self._count(file, -1)
        for user in file.users:
            self._keys[user].remove(key)
            if not self._keys[user]:
                del self._keys[user]

    def _end_reservation(self, name: str) -> None:
        reserved = self._reserved.pop(name, None)
        if reserved:
            self._count(reserved[0], -1)

    def _count(self, file: IndexedFile, sign: int) -> None:
        """Add what a file takes, or with a ``sign`` of -1 subtract it."""
        for user in file.users:
            self._bytes[user] += sign * (file.file_bytes + file.body_bytes)
            if not self._bytes[user]:
                del self._bytes[user]
        self._total += sign * file.file_bytes
        if file.digest:
            had = self._bodies[file.digest] > 0
            self._bodies[file.digest] += sign
            has = self._bodies[file.digest] > 0
            self._total += (has - had) * file.body_bytes
            if not has:
                del self._bodies[file.digest]


def _names(folder: pathlib.Path) -> list[tuple[str, int]]:
    try:
        with os.scandir(folder) as entries:
            return [(entry.name, entry.inode()) for entry in entries]
    except FileNotFoundError:
        return []
