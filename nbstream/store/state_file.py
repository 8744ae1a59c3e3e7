"""What is kept on this host besides mail and keys: ``state.sqlite`` in ``state_dir``, with a table for each use.

Rules:

- What a ``StateFile`` has answered survives the end of the process and a power cut. One thread of the process
  writes, one change after the other. For each of them it opens the file, which may have been moved away or removed
  meanwhile: then a new one follows.
- Several processes may use the file: each transaction takes the lock of writers before it reads. Whoever reads or
  writes waits up to ten seconds for another's transaction.
- An object may be made before a fork: the thread begins with the first change.
- The file is readable by its owner alone, and root uses none in the folder of another user: by links there, made
  between a look at the file and its use, that user could have root write anywhere. What is removed leaves the
  disk.
- Errors are ``OSError``. That of a file that cannot be used says what to do. Until it is done, nothing is stored
  and nothing is removed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from nbstream.durable_files import make_folder, sync_folder
from nbstream.system_users import as_user, user_name

if TYPE_CHECKING:
    from pathlib import Path

NAME = "state.sqlite"

_APPLICATION_ID = int.from_bytes(b"nbss")
_FORMAT = 1
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS spooled (
    id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT NOT NULL, actor TEXT NOT NULL, received_at INTEGER NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, was_tried INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS spooled_content (id INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS digest_markers (
    user TEXT PRIMARY KEY, until REAL NOT NULL, due REAL NOT NULL, written_at REAL NOT NULL
) WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_FORMAT};
COMMIT;
"""
# A change of a row writes all of it again, so the content of a message has a row of its own.

_LOCK_SECONDS = 10.0  # others keep the lock for one transaction
_CLOSE_SECONDS = 1.0  # for what is still to be written

PASSING_ERRORS = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY,
}  # fmt: skip
"""Those of SQLite that say nothing of the file; every other one says that it is damaged."""

Answer = TypeVar("Answer")
Change: TypeAlias = Callable[[sqlite3.Connection], Answer]
"""What is done within a transaction."""


class StateFile:
    """The state file in ``state_dir``; folder and file are made at the first change."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / NAME
        self._waiting: dict[Future[Any], Change[Any]] = {}
        self._has_news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query, none where there is no file."""
        with _understandable_errors(self.path):
            if not self.path.exists():
                return []
            with closing(_open(self.path)) as database:
                return database.execute(query, values).fetchall()

    def write(self, change: Change[Answer]) -> Answer:
        """Return what ``change`` returns, once it is on the disk; the caller's thread waits."""
        return self._submit(change).result()

    async def write_soon(self, change: Change[Answer]) -> Answer:
        """Return what ``change`` returns, once it is on the disk.

        Who stops waiting takes it along, since a disk that hangs must not gather changes in memory. What is just
        being written may be in the file then.
        """
        return await asyncio.wrap_future(self._submit(change))

    def close(self) -> None:
        """Write what waits, and close the file; what the disk does not finish is left to the thread."""
        with self._has_news:
            self._is_closed = True
            self._has_news.notify()
        if self._thread:
            self._thread.join(_CLOSE_SECONDS)
        for future in list(self._waiting):
            future.cancel()

    def _submit(self, change: Change[Answer]) -> Future[Answer]:
        future: Future[Answer] = Future()
        with self._has_news:
            if self._is_closed:
                raise OSError(errno.EBADF, "the file is closed", str(self.path))
            self._waiting[future] = change
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="state file", daemon=True)
                self._thread.start()
            self._has_news.notify()
        future.add_done_callback(self._forget)
        return future

    def _forget(self, future: Future[Any]) -> None:
        with self._has_news:
            self._waiting.pop(future, None)

    def _run(self) -> None:
        """Write what waits until the file is closed."""
        while taken := self._take():
            future, change = taken
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(self._commit(change))
                except BaseException as error:  # noqa: BLE001 - it is raised where the change is waited for
                    future.set_exception(error)
            del taken, future, change  # else they were kept in memory while the thread waits

    def _take(self) -> tuple[Future[Any], Change[Any]] | None:
        """Return the next change when there is one; None when the file is closed."""
        with self._has_news:
            self._has_news.wait_for(lambda: self._waiting or self._is_closed)
            future = next(iter(self._waiting), None)
            return (future, self._waiting.pop(future)) if future else None

    def _commit(self, change: Change[Answer]) -> Answer:
        """Return what ``change`` returns, after what it has done is on the disk; an error takes it back."""
        with _understandable_errors(self.path):
            _make_file(self.path)
            with closing(_open(self.path)) as database:
                database.execute("BEGIN IMMEDIATE")
                answer = change(database)
                database.execute("COMMIT")
                return answer


def _make_file(path: Path) -> None:
    """Make an empty file where there is none. Raises ``OSError`` where something else has its name."""
    make_folder(path.parent)
    _check_owner(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with suppress(FileExistsError):
        os.close(os.open(path, flags, 0o600))
        sync_folder(path.parent)


def _check_owner(folder: Path) -> None:
    owner = folder.stat().st_uid
    if os.geteuid() == 0 != owner:
        raise PermissionError(errno.EPERM, f"it belongs to {user_name(owner)}: {as_user(owner)}", str(folder))


def _open(path: Path) -> sqlite3.Connection:
    """Return a connection to the file, which is there; its tables are made if it is empty."""
    _check_owner(path.parent)
    if not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.EINVAL, "it is no file", str(path))
    # Absolute: SQLite takes :memory: for no file, and may take file: for a URI.
    database = sqlite3.connect(path.absolute(), timeout=_LOCK_SECONDS, isolation_level=None)
    try:
        _prepare(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    if not database.execute("SELECT 1 FROM sqlite_master").fetchone():  # all of it is made at once
        database.execute("PRAGMA auto_vacuum = FULL")
        database.executescript(_SCHEMA)
    if (_pragma(database, "application_id"), _pragma(database, "user_version")) != (_APPLICATION_ID, _FORMAT):
        raise OSError(errno.EINVAL, "it is of another program, or of another version of nbstream", str(path))
    database.execute("PRAGMA synchronous = EXTRA")
    database.execute("PRAGMA secure_delete = FAST")


def used_bytes(database: sqlite3.Connection) -> int:
    """Return how many bytes of the file are used, after the changes of this transaction."""
    pages = _pragma(database, "page_count") - _pragma(database, "freelist_count")
    return pages * _pragma(database, "page_size")


def _pragma(database: sqlite3.Connection, name: str) -> int:
    value: int = database.execute(f"PRAGMA {name}").fetchone()[0]
    return value


@contextmanager
def _understandable_errors(path: Path) -> Iterator[None]:
    """Raise ``OSError`` for the errors of SQLite."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in PASSING_ERRORS:
            number = errno.ENOSPC if code == sqlite3.SQLITE_FULL else errno.EIO
            raise OSError(number, str(error), str(path)) from error
        text = f"the file is damaged ({error}): stop nbstream, move it away, and start nbstream again"
        raise OSError(errno.EIO, text, str(path)) from error
