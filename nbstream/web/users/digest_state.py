"""What is known of the digests that were sent: a row of the state file for each user.

Rules: the row says until when the mail of a user was in a digest, and it is written after the next hop's 250. So a
crash costs nobody a digest, and one user gets two at most: the one whose digest was being sent. A hash of their
address names the user. Whoever sends digests has the lock (flock), and a lock ends with its process.
"""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.durable_files import make_folder
from nbstream.errors import InputError
from nbstream.file_locks import FileLock

if TYPE_CHECKING:
    from nbstream.store.state_file import StateFile

_ALL = "all"
"""The user in whose row stands for which due time all digests were sent."""


@dataclass(frozen=True, slots=True)
class DigestMarker:
    """Until when the mail of a user was in a digest, and for which due time they were served last.

    Both are in seconds since 1970, 0 for never.
    """

    until: float = 0.0
    due: float = 0.0


class DigestState:
    """The markers of digests in the state file. All methods raise ``InputError``."""

    def __init__(self, state: StateFile) -> None:
        self._state = state

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from sending digests; raises ``InputError`` where somebody else does."""
        path = self._state.path.with_name("digests.lock")
        with _readable():
            make_folder(path.parent)
            lock = FileLock(path)
        with lock:
            if not lock.try_lock(fcntl.LOCK_EX):
                raise InputError("another process is sending digests")
            yield

    def last_done(self) -> float | None:
        """Return the due time for which all digests were sent; None where none ever was."""
        marker = self._read(_ALL)
        return marker.due if marker else None

    def set_last_done(self, due: float) -> None:
        """Note, durably, that all digests of this due time were sent."""
        self._write(_ALL, DigestMarker(due=due))

    def marker(self, address: str) -> DigestMarker:
        """Return what is known of a user."""
        return self._read(_hash(address)) or DigestMarker()

    def set_marker(self, address: str, marker: DigestMarker) -> None:
        """Write, durably, what is known of a user."""
        self._write(_hash(address), marker)

    def forget(self, address: str) -> None:
        """Forget what is known of a user."""
        self._change("DELETE FROM digest_markers WHERE user = ?", _hash(address))

    def remove_older(self, until: float) -> None:
        """Forget the users whose marker was written before ``until``."""
        self._change("DELETE FROM digest_markers WHERE written_at < ? AND user <> ?", until, _ALL)

    def _read(self, user: str) -> DigestMarker | None:
        with _readable():
            rows = self._state.read("SELECT until, due FROM digest_markers WHERE user = ?", user)
        return DigestMarker(*rows[0]) if rows else None

    def _write(self, user: str, marker: DigestMarker) -> None:
        values = (user, marker.until, marker.due, time.time())
        self._change("INSERT OR REPLACE INTO digest_markers VALUES (?, ?, ?, ?)", *values)

    def _change(self, query: str, *values: object) -> None:
        with _readable():
            self._state.write(lambda database: database.execute(query, values).rowcount)


def _hash(address: str) -> str:
    return hashlib.sha256(address.encode("utf-8", "surrogateescape")).hexdigest()


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from error
