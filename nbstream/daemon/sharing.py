"""What the supervisor shares with its workers: addresses of listeners, and a folder for counts in shared memory.

Rules: the supervisor itself listens on none of them, so that no connection waits for a process that accepts none.
Each worker gets a TCP socket of its own at each address, among which the kernel spreads connections (SO_REUSEPORT,
socket(7)); a unix socket is one that all workers accept connections from.

The folder belongs to the user of the daemon alone (0700), and its supervisor has a lock on it (flock). A folder of
this user that nobody has locked was left by a supervisor that was killed; the next one that starts removes it.
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
from typing import TYPE_CHECKING

from nbstream.daemon import addresses
from nbstream.server.sockets import reserve_address, socket_at_same_address

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.addresses import ListenAddresses, ListenerSockets


class SharedSockets:
    """The addresses are reserved from the start until ``close``. Raises ``CannotStart`` for one that is in use."""

    def __init__(self, settings: Settings) -> None:
        self._listen_addresses = addresses.listen_addresses(settings, lambda entry: entry.is_of_workers)
        self._reserved_sockets = addresses.open_sockets(self._listen_addresses, reserve_address)
        self._unix_socket_inodes = addresses.unix_socket_inodes(self._listen_addresses)

    @property
    def bound_addresses(self) -> ListenAddresses:
        """Where workers listen: with the ports that the system chose."""
        return addresses.bound_addresses(self._listen_addresses, self._reserved_sockets)

    def open_for_worker(self) -> ListenerSockets:
        """Open new sockets for one worker, which do not listen yet; raises ``OSError``."""
        sockets: ListenerSockets = {name: [] for name in self._reserved_sockets}
        try:
            for name, reserved in self._reserved_sockets.items():
                for reserved_socket in reserved:
                    sockets[name].append(socket_at_same_address(reserved_socket))
        except BaseException:
            addresses.close_sockets(sockets)
            raise
        return sockets

    def leave_to_workers(self) -> None:
        """Leave the addresses to the workers: where none of them listens any more, connections are refused."""
        addresses.close_sockets(self._reserved_sockets)

    def close(self) -> None:
        """Give the addresses back, and remove the files of unix sockets that are still ours."""
        self.leave_to_workers()
        addresses.remove_unix_sockets(self._unix_socket_inodes)
        self._unix_socket_inodes = {}


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
