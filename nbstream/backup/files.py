"""The files of a site that a backup has: the quarantine with the state of the digests, the spool, IMAP positions.

Rules: a file is copied under a name that says which folder of the site it belongs to, and its name has one of the
forms that this program gives; all others are left out of a backup, and refused in one. A link, and what is no
file, is no member. Files come and go while they are copied; one that is there was written whole. The position of
the spool is read before its messages are, and these are before the model is: what was learned meanwhile is learned
once more, which changes nothing.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from nbstream.durable_files import make_folder, sync_folder
from nbstream.errors import InputError, OutputFailed
from nbstream.listeners.dovecot.spool import FOLDER as SPOOL_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nbstream.backup.container import Member
    from nbstream.config import Settings

IMAP = "imap"
QUARANTINE = "quarantine"
SPOOL = "spool"

_FILE = r"[^/\x00-\x1f\x7f.][^/\x00-\x1f\x7f]*"
_FORMS = {
    QUARANTINE: (
        ("new/*", r"new/[0-9]{1,12}\.[^/:\x00-\x1f\x7f]*,I=[a-z2-7]{24}"),
        ("cur/*", r"cur/[0-9]{1,12}\.[^/:\x00-\x1f\x7f]*,I=[a-z2-7]{24}:2,P"),
        ("digests/*", r"digests/(?:done|[0-9a-f]{64})"),
    ),
    SPOOL: (
        ("position", r"position"),
        ("*.messages", r"[0-9]{12}\.messages"),
        ("failed/*/*", rf"failed/(?:spam|ham|damaged)/{_FILE}"),
    ),
    IMAP: (("*.json", r"[0-9a-f]{32}\.json"),),
}
_MEMBER = re.compile("|".join(f"{area}/{form}" for area, forms in _FORMS.items() for _, form in forms))


def folders(settings: Settings) -> dict[str, Path]:
    """Return the folders of the site, by the first part of the names of their members."""
    state = settings.state_dir
    return {QUARANTINE: settings.quarantine_folder, SPOOL: state / SPOOL_FOLDER, IMAP: state / IMAP}


def is_file_member(name: str) -> bool:
    """Return whether a member of that name is a file of a site."""
    return _MEMBER.fullmatch(name) is not None


def has_mail(folder: Path) -> bool:
    """Return whether there is mail in this folder of a site already."""
    return any(next(folder.glob(pattern), None) for pattern in ("new/*", "cur/*", "*.messages"))


def read_files(settings: Settings) -> Iterator[tuple[str, bytes, float]]:
    """Yield the name, the content and the last change (Unix time) of each file. Raises ``InputError``."""
    for area, folder in folders(settings).items():
        for pattern, _ in _FORMS[area]:
            for path in sorted(folder.glob(pattern)):
                below = path.relative_to(folder)
                name = f"{area}/{below}"
                with suppress(FileNotFoundError):  # it was released, or learned
                    if is_file_member(name) and (found := _read_file(folder, below)):
                        yield name, *found


def _read_file(folder: Path, name: Path) -> tuple[bytes, float] | None:
    """Return the content of a file and its last change, None for what is none, or behind a link.

    Root may do it, while the folder belongs to the daemon's user, who is not to choose what root reads.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in name.parts:
            above = descriptor
            descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
            os.close(above)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(), status.st_mtime
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}:
            return None
        raise InputError(f"{folder / name}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def write_file(settings: Settings, member: Member) -> None:
    """Put a file in its place, durably and for its owner alone; one that is there is replaced.

    Raises ``OutputFailed``.
    """
    area, _, name = member.name.partition("/")
    path = folders(settings)[area] / name
    draft = path.with_name(".restoring")  # a name of its own could be too long
    try:
        make_folder(path.parent)
        draft.unlink(missing_ok=True)  # of an interrupted restore
        with open(draft, "xb", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
            shutil.copyfileobj(member, file)
            file.flush()
            os.utime(draft, (member.modified, member.modified))
            os.fsync(file.fileno())
        draft.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        raise OutputFailed(f"{path}: {error.strerror}") from error
