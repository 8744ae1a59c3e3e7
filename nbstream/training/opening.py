"""Opens folders and files of others: no link is followed on the way, and nothing is opened that is neither.

Rules: root may do it while the owners change the folders. Each name is opened by itself, in the folder that was
opened before it, whatever stands at its path by then.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nbstream.system_users import user_name
from nbstream.training.choice import MAX_MESSAGE_BYTES

NO_FILE = "is a link, a pipe or a device, which is not read"
GONE = "is not there, or was moved while it was read"

CHANGED = "was changed while it was read: run the command again"

_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe would wait


class Unreadable(OSError):
    """What is read is not what it should be; the text says why it is skipped."""


def skip_reason(error: OSError) -> str:
    """Return why something is left out that could not be opened or read."""
    if isinstance(error, Unreadable):
        return str(error)
    if error.errno in {errno.ENOENT, errno.ESTALE}:
        return GONE
    if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}:
        return NO_FILE
    if error.errno in {errno.EACCES, errno.EPERM}:
        user = user_name(os.geteuid())
        return f"cannot be read by {user}: run this as root, or as a user that may read it"
    return error.strerror or "cannot be read"


@contextmanager
def opened_at(root: str, names: Sequence[str]) -> Iterator[int]:
    """Open the folder or file that ``names`` lead to from ``root``, which may be a link. Raises ``OSError``."""
    opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            following = _open_below(name, opened)
            os.close(opened)
            opened = following
        yield opened
    finally:
        os.close(opened)


def _open_below(name: str, folder: int) -> int:
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise Unreadable(NO_FILE)
    return os.open(name, _OPEN_FLAGS, dir_fd=folder)


def exists(name: str, folder: int) -> bool:
    """Return whether there is anything of this name in a folder."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def is_folder(opened: int) -> bool:
    """Return whether a folder was opened, and no file."""
    return stat.S_ISDIR(os.fstat(opened).st_mode)


@contextmanager
def opened_below(name: str, folder: int) -> Iterator[int]:
    """Open a folder or a file in a folder for the block. Raises ``OSError``, also for anything else."""
    opened = _open_below(name, folder)
    try:
        yield opened
    finally:
        os.close(opened)


def read_all(file: int) -> bytes:
    """Return what is in a file that is not larger than the largest message. Raises ``OSError``."""
    with open(file, "rb", buffering=0, closefd=False) as stream:
        content = stream.read(MAX_MESSAGE_BYTES + 1) or b""
    if len(content) > MAX_MESSAGE_BYTES:
        raise Unreadable(CHANGED)
    return content
