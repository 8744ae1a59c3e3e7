"""Files in Maildirs: either all of them are written or none, and once written they survive a power cut.

Rules: every file is written in ``tmp`` and synced, then all are renamed into ``new``, then the folders are synced.
A failure leaves none of them behind. Only a process that ends in between the renames leaves some of them: the
client gets no answer then, keeps the message and sends it again. Lines end in LF. File work runs in threads.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pathlib
import secrets
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from nbstream.errors import RelayUnavailable
from nbstream.mail.lines import split_at_line_ends
from nbstream.relay.maildir_room import DISK_FULL_ERRORS, MaildirRoom
from nbstream.wire.smtp_reply import SmtpReply

FOLDERS = ("tmp", "new", "cur")

_DISK_FULL_REPLY = SmtpReply(452, "4.3.1 Insufficient system storage")
_delivery_numbers = itertools.count(1)  # one series for each process, as the format of Maildirs asks


@dataclass(frozen=True, slots=True)
class MaildirDraft:
    """A file that is to be written: first ``head`` with LF line ends, then ``content`` with CRLF line ends.

    ``room`` is told whether there was room for the file.
    """

    maildir: pathlib.Path
    name: str
    head: bytes
    content: bytes
    room: MaildirRoom | None = None


async def write_drafts(drafts: Sequence[MaildirDraft]) -> SmtpReply | None:
    """Write all drafts. Return None, or a 452 where a file system is full.

    Raises ``RelayUnavailable`` where they cannot be written for another reason.
    """
    try:
        await asyncio.to_thread(_write_all, drafts)
    except OSError as error:
        if error.errno in DISK_FULL_ERRORS:
            for draft in drafts:
                if draft.room:
                    draft.room.note_refused(len(draft.head) + len(draft.content))
            return _DISK_FULL_REPLY
        raise RelayUnavailable(f"cannot write to the Maildir: {error}") from error
    for draft in drafts:
        if draft.room:
            draft.room.note_written()
    return None


def _write_all(drafts: Sequence[MaildirDraft]) -> None:
    for draft in drafts:
        create_maildir(draft.maildir)
    moves = [(draft.maildir / "tmp" / draft.name, draft.maildir / "new" / draft.name) for draft in drafts]
    try:
        for draft, (written, _) in zip(drafts, moves, strict=True):
            _write_draft(draft, written)
        for written, delivered in moves:
            written.rename(delivered)
        for folder in dict.fromkeys(delivered.parent for _, delivered in moves):
            sync_folder(folder)
    except BaseException:
        # A file in ``new`` that is not synced is removed, too: the client keeps the message and sends it again.
        for path in itertools.chain.from_iterable(moves):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        raise


def _write_draft(draft: MaildirDraft, path: pathlib.Path) -> None:
    with open(path, "xb", opener=_open_private) as file:
        file.write(draft.head)
        for piece in split_at_line_ends(draft.content):
            file.write(piece.replace(b"\r\n", b"\n"))
        file.flush()
        os.fsync(file.fileno())


def unique_name() -> str:
    """Return a name that is unique over time, process, delivery and host (https://cr.yp.to/proto/maildir.html).

    Names are in the order of their times.
    """
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    host = socket.gethostname().replace("/", "\\057").replace(":", "\\072")
    unique = f"M{nanoseconds // 1000:06d}P{os.getpid()}Q{next(_delivery_numbers)}R{secrets.token_hex(4)}"
    return f"{seconds}.{unique}.{host}"


def is_writable(maildir: pathlib.Path) -> bool:
    """Return whether a file could be written to the Maildir now."""
    try:
        create_maildir(maildir)
    except OSError:
        return False
    return all(os.access(maildir / name, os.W_OK | os.X_OK) for name in ("tmp", "new"))


def create_maildir(maildir: pathlib.Path) -> None:
    """Make the missing folders of the Maildir, open to their owner alone."""
    for name in FOLDERS:
        _make_folder(maildir / name)


def _make_folder(folder: pathlib.Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: pathlib.Path) -> None:
    """Return once the names in the folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
