"""What is known of the digests that were sent: files in a folder beside the mail of the quarantine.

Rules: a file for each user says until when his mail was in a digest, and it is written after the next hop's 250.
So a crash costs nobody a digest, and one user gets two at most: the one whose digest was being sent. The name of
the file is a hash of the address. Whoever sends digests has locked the folder (flock), and a lock ends with its
process; two daemons that share the quarantine share this too.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.durable_files import make_folder, replace_file
from nbstream.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "digests"
"""The name of the folder in that of the quarantine."""

_LOCK, _DONE = "lock", "done"
_MARKER_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class DigestMarker:
    """Until when the mail of a user was in a digest, and for which due time he was served last.

    Both are in seconds since 1970, 0 for never.
    """

    until: float = 0.0
    due: float = 0.0


class DigestState:
    """The state in ``folder``, which is made when it is first needed. All methods raise ``InputError``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from sending digests; raises ``InputError`` where somebody else does."""
        with _readable(self._folder):
            make_folder(self._folder)
            descriptor = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError("digests are being sent by another process") from None
            yield
        finally:
            os.close(descriptor)

    def last_done(self) -> float | None:
        """Return the due time for which all digests were sent; None where none ever was."""
        marker = self._read(_DONE)
        return marker.due if marker else None

    def set_last_done(self, due: float) -> None:
        """Note, durably, that all digests of this due time were sent."""
        self._write(_DONE, DigestMarker(due=due))

    def marker(self, address: str) -> DigestMarker:
        """Return what is known of a user."""
        return self._read(_marker_name(address)) or DigestMarker()

    def set_marker(self, address: str, marker: DigestMarker) -> None:
        """Write, durably, what is known of a user."""
        self._write(_marker_name(address), marker)

    def forget(self, address: str) -> None:
        """Forget what is known of a user."""
        with _readable(self._folder):
            (self._folder / _marker_name(address)).unlink(missing_ok=True)

    def remove_older(self, until: float) -> None:
        """Forget the users whose marker was written before ``until``."""
        with _readable(self._folder), os.scandir(self._folder) as entries:
            for entry in entries:
                if _MARKER_NAME.fullmatch(entry.name) and entry.stat().st_mtime < until:
                    os.unlink(entry.path)  # noqa: PTH108 - it is no Path

    def _read(self, name: str) -> DigestMarker | None:
        with _readable(self._folder), suppress(FileNotFoundError):
            try:
                values = json.loads((self._folder / name).read_bytes())
                return DigestMarker(float(values["until"]), float(values["due"]))
            except (ValueError, TypeError, LookupError):
                return None  # another program wrote it: rather a digest too many than none
        return None

    def _write(self, name: str, marker: DigestMarker) -> None:
        with _readable(self._folder):
            replace_file(self._folder / name, json.dumps({"until": marker.until, "due": marker.due}).encode())


def _marker_name(address: str) -> str:
    return hashlib.sha256(address.encode("utf-8", "surrogateescape")).hexdigest()


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error
