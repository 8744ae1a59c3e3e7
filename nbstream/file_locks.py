"""Kernel locks on files of ``state_dir``, and the lock that keeps a second daemon away.

Rules. The kernel releases a lock when its last holder ends, for whatever reason; a process id in a file is for
people only. Lock files are never deleted: otherwise two processes could each hold the lock, on two files of the
same name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from typing import TYPE_CHECKING, Self

from nbstream.errors import CannotStart, ConfigError, StoreUnavailable
from nbstream.system_users import as_user, user_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PERMANENT_ERRORS = frozenset(
    (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENOLCK)
)


class FileLock:
    """flock(2) on a file, which is created if it is missing; ``close`` or the end of the process releases it.

    A process that inherits ``descriptor`` holds the lock too.
    """

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def try_lock(self, mode: int) -> bool:
        """Take the lock (``fcntl.LOCK_SH`` or ``LOCK_EX``) without waiting; return whether it was possible."""
        try:
            fcntl.flock(self.descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Release the lock and close the file."""
        os.close(self.descriptor)

    def write_pid(self, pid: int) -> None:
        """Write the id of the process that has the lock into the file, for whoever is refused it."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, b"%d\n" % pid, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lock_daemon(state_dir: Path) -> FileLock:
    """Keep other daemons off ``state_dir`` until the lock is closed.

    Raises CannotStart if another daemon runs on it, ConfigError or StoreUnavailable if the folder cannot be used.
    """
    with translate_os_errors(state_dir):
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = state_dir / "daemon.lock"
        lock = FileLock(path)
        for _ in range(10):
            if lock.try_lock(fcntl.LOCK_EX):
                lock.write_pid(os.getpid())
                return lock
            time.sleep(0.02)  # daemon_pid has the lock for an instant, too
        lock.close()
        holder = path.read_text(encoding="utf-8").strip() or "unknown"
    raise CannotStart(
        f"another nbstream daemon (pid {holder}) runs on state_dir {state_dir}: "
        "stop it, or give this one a state_dir of its own"
    )


def daemon_pid(state_dir: Path) -> int | None:
    """Return the process id of the daemon that runs on ``state_dir``, or None if none runs."""
    path = state_dir / "daemon.lock"
    with translate_os_errors(state_dir):
        if not path.exists():
            return None
    with translate_os_errors(state_dir), FileLock(path) as lock:
        if lock.try_lock(fcntl.LOCK_SH):
            return None
        holder = path.read_text(encoding="utf-8").strip()
    return int(holder) if holder.isdecimal() else None


@contextlib.contextmanager
def translate_os_errors(state_dir: Path) -> Iterator[None]:
    """Raise ConfigError for an OSError that only a person can mend, StoreUnavailable for one that may pass."""
    try:
        yield
    except OSError as error:
        kind = ConfigError if error.errno in _PERMANENT_ERRORS else StoreUnavailable
        raise kind(f"state_dir {state_dir} cannot be used: {error}{_whose(state_dir, error)}") from error


def _whose(state_dir: Path, error: OSError) -> str:
    """Return the user who may use the folder, where that is why it cannot be used."""
    if isinstance(error, PermissionError):
        with contextlib.suppress(OSError):
            owner = state_dir.stat().st_uid
            if owner != os.geteuid():
                return f"; it belongs to {user_name(owner)}: {as_user(owner)}"
    return ""
