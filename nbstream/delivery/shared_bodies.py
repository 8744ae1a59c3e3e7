"""Large bodies of messages: each is on the disk once, however many files of the quarantine it belongs to.

Rules: a file of the quarantine whose message has a large body holds the note and the header alone, and its name
has the digest of the body. In the folder of that digest lies one hard link for each such file, under the name of
the file. So no count is kept that a kill could make wrong: the body is there as long as one of its links is. A
body is synced before a file that needs it is seen, and removed after that file. What a kill leaves in between
belongs to no file, and is removed an hour later. Where the file system has no hard links, each file has its own
copy.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import pathlib
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from nbstream.durable_files import make_folder, sync_folder

FOLDER = "bodies"
MIN_BYTES = 64 * 1024
"""A body of fewer bytes stays in the file of its message."""

_DIGEST_BYTES = 20
_MAX_TRIES = 3  # to link to a body: where many have too many links, another copy costs less
_UNUSED_SECONDS = 3600  # a body is written before its message; by then the message is there or its delivery ended
_DIGEST_IN_NAME = re.compile(rf",B=([0-9a-f]{{{2 * _DIGEST_BYTES}}})(?::2,P)?\Z")


@dataclass(frozen=True, slots=True)
class SharedBody:
    """A body with CRLF line ends, and the digest that its folder is named after."""

    digest: str
    content: memoryview


def make_body(content: memoryview) -> SharedBody:
    """Return the body with its digest, which takes a millisecond a megabyte."""
    return SharedBody(hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest(), content)


def name_part(body: SharedBody) -> str:
    """Return what the name of a file ends with that has this body."""
    return f",B={body.digest}"


def add(maildir: pathlib.Path, name: str, body: SharedBody) -> None:
    """Make the body of the file with this name, durably. Raises ``OSError``."""
    folder = maildir / FOLDER / body.digest
    while True:
        make_folder(folder)
        try:
            if not _link_to_equal_body(folder, name):
                draft = maildir / "tmp" / f"{name}.body"
                try:
                    _write(draft, body.content)
                    draft.rename(folder / name)
                finally:
                    draft.unlink(missing_ok=True)
            sync_folder(folder)
        except FileNotFoundError:
            if folder.is_dir():
                raise
            continue  # the last link was removed just now, and the folder with it
        return


def _link_to_equal_body(folder: pathlib.Path, name: str) -> bool:
    """Link to the body that lies there; return False where none can be linked to."""
    for other in itertools.islice(folder.iterdir(), _MAX_TRIES):
        with suppress(OSError):  # it was removed just now, has too many links, or the file system has none
            os.link(other, folder / name)
            return True
    return False


def _write(path: pathlib.Path, content: memoryview) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def find(path: pathlib.Path) -> pathlib.Path | None:
    """Return where the body of this file of the quarantine is; None where the file has the whole message."""
    digest = _DIGEST_IN_NAME.search(path.name)
    return path.parent.parent / FOLDER / digest[1] / path.name.partition(":")[0] if digest else None


def remove_for(path: pathlib.Path) -> None:
    """Remove the body of this file, which was removed. Raises ``OSError``."""
    body = find(path)
    if body is not None and not _is_needed(path.parent.parent, body.name):
        _remove(body)


def remove_unused(maildir: pathlib.Path, used: set[str]) -> None:
    """Remove the bodies that belong to no file; ``used`` are the names, without flags, of some that there are.

    Also what a killed process left of a body that it was writing. Raises ``OSError``.
    """
    for body in itertools.chain(_all(maildir), (maildir / "tmp").glob("[0-9]*.*.body")):
        at = body.name.partition(".")[0]
        is_old = at.isdecimal() and time.time() - _UNUSED_SECONDS > int(at)
        if is_old and body.name not in used and not _is_needed(maildir, body.name):
            _remove(body)


def _all(maildir: pathlib.Path) -> Iterator[pathlib.Path]:
    return (maildir / FOLDER).glob("*/[0-9]*.*")


def _is_needed(maildir: pathlib.Path, name: str) -> bool:
    """Return whether there is a file with this name: before, during or after its move to the other folder."""
    waiting, in_doubt = maildir / "new" / name, maildir / "cur" / f"{name}:2,P"
    return waiting.exists() or in_doubt.exists() or waiting.exists()


def _remove(body: pathlib.Path) -> None:
    body.unlink(missing_ok=True)
    if body.parent.parent.name == FOLDER:
        with suppress(OSError):  # others have it
            body.parent.rmdir()
