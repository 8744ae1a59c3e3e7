"""A folder for counts in shared memory, which the workers of one supervisor share.

Rules: the folder belongs to the user of the daemon alone (0700), and its supervisor has a lock on it (flock). A
folder of this user that nobody has locked was left by a supervisor that was killed; the next one that starts
removes it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_log = logging.getLogger(__name__)

_ROOT = Path("/dev/shm")  # noqa: S108 - the folders in it are made by mkdtemp
_PREFIX = "nbstream-"
_ATTEMPTS = 10


@contextmanager
def open_shared_folder(root: Path = _ROOT) -> Iterator[Path | None]:
    """Make a folder in shared memory, and remove it at the end; None, and a warning, where that is impossible."""
    try:
        _remove_leftovers(root)
        folder, descriptor = _make_folder(root)
    except OSError as error:
        _log.warning("each worker keeps its own copy of the counts, there is no shared memory: %s", error)
        yield None
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _make_folder(root: Path) -> tuple[Path, int]:
    """Return a new folder and the descriptor that has it locked."""
    for _ in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        descriptor = _lock(folder)
        if descriptor is not None and folder.is_dir():
            return folder, descriptor
        # Another supervisor that starts took the folder for one that was left, before it was locked.
        if descriptor is not None:
            os.close(descriptor)
    raise BlockingIOError(f"no folder can be locked in {root}")


def _remove_leftovers(root: Path) -> None:
    for folder in root.glob(f"{_PREFIX}*"):
        descriptor = None
        with suppress(OSError):
            descriptor = _lock(folder)
        if descriptor is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)


def _lock(folder: Path) -> int | None:
    """Return a descriptor that has the folder locked; None where it is of another user, or locked, or gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None
