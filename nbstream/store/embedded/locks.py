"""Kernel locks on files of ``state_dir``, and the one that keeps a second daemon away.

Rules. A lock goes when its last holder goes, however that ends; a process id in a file is for people only. Lock
files are never deleted: else two processes could each hold "the" lock, on two files of one name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from typing import TYPE_CHECKING, Self

from nbstream.errors import CannotStart, ConfigError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PERMANENT_ERRORS = frozenset(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENOLCK)
)


class FileLock:
    """flock(2) on a file that is made when missing; let go by ``close``, or by the end of the process."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def try_lock(self, mode: int) -> bool:
        """Take the lock (``fcntl.LOCK_SH`` or ``LOCK_EX``) if that is possible now."""
        try:
            fcntl.flock(self._descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        """Let the lock go, keep the file open."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let the lock go for good."""
        os.close(self._descriptor)

    def write_pid(self) -> None:
        """Write this process's id into the file, for whoever is refused the lock."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lock_daemon(state_dir: Path) -> FileLock:
    """Keep other daemons off ``state_dir`` until the lock is closed; raises CannotStart if one is there."""
    with translate_os_errors(state_dir):
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = state_dir / "daemon.lock"
        lock = FileLock(path)
        for _ in range(10):
            if lock.try_lock(fcntl.LOCK_EX):
                lock.write_pid()
                return lock
            time.sleep(0.02)  # daemon_pid holds the lock too, for an instant
        lock.close()
        holder = path.read_text().strip() or "unknown"
    raise CannotStart(
        f"another nbstream daemon (pid {holder}) runs on state_dir {state_dir}: "
        "stop it, or give this one a state_dir of its own"
    )


def daemon_pid(state_dir: Path) -> int | None:
    """The process id of the daemon that runs on ``state_dir``; None when none does."""
    path = state_dir / "daemon.lock"
    with translate_os_errors(state_dir):
        if not path.exists():
            return None
    with translate_os_errors(state_dir), FileLock(path) as lock:
        if lock.try_lock(fcntl.LOCK_SH):
            return None
        holder = path.read_text().strip()
    return int(holder) if holder.isdecimal() else None


@contextlib.contextmanager
def translate_os_errors(state_dir: Path) -> Iterator[None]:
    """Raise ConfigError for what only a person can mend, StoreUnavailable for what may pass (a full disk)."""
    try:
        yield
    except OSError as error:
        kind = ConfigError if error.errno in _PERMANENT_ERRORS else StoreUnavailable
        raise kind(f"state_dir {state_dir} cannot be used: {error}") from error
