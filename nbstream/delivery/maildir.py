"""A Maildir as the next hop: one file for all recipients that get the same content.

Rules: files are written as ``relay.maildir_files`` says. ``Return-Path`` and one ``X-Envelope-To`` for each
recipient come first, and no byte of an address can end its line.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import pathlib
import re
import secrets
import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from nbstream.delivery.next_hop import DataReplies, SmtpPath, SmtpReply
from nbstream.durable_files import make_folder, sync_folder
from nbstream.errors import RelayUnavailable
from nbstream.mail.lines import split_at_line_ends

# Whether a Maildir has room for mail.
#
# Rules: the answer is what the file system says now, not what it said once: a Maildir that is no longer full
# must not stay "full" until mail comes, because no mail comes to a server that is not ready. The work is some
# system calls in a thread, one at a time, however often somebody asks.

DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
NO_ROOM = "no space left for mail"

_MIN_FREE_BYTES = 16 << 20
_MIN_FREE_INODES = 100
_ANSWER_SECONDS = 2.0  # a file system of another machine may not answer
_NO_ANSWER = "the file system does not respond"


class MaildirRoom:
    """The room of the Maildir at ``path``, as the file system sees it."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._check: asyncio.Task[str | None] | None = None

    async def problem(self) -> str | None:
        """Return ``NO_ROOM``, why nobody knows, or None where there is room or no Maildir yet."""
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(asyncio.to_thread(self._find_problem), name="maildir: room")
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.shield(self._check)
        except TimeoutError:
            return _NO_ANSWER

    def _find_problem(self) -> str | None:
        try:
            free = os.statvfs(self._path)
            has_inodes = free.f_files == 0 or free.f_favail >= _MIN_FREE_INODES  # some file systems count none
            if free.f_bavail * free.f_frsize < _MIN_FREE_BYTES or not has_inodes:
                return NO_ROOM
        except FileNotFoundError:
            return None
        except OSError as error:
            return NO_ROOM if error.errno in DISK_FULL_ERRORS else "a file system error"
        return None


# Files in Maildirs: either all of them are written or none, and once written they survive a power cut.
#
# Rules: every file is written in ``tmp`` and synced, then all are renamed into ``new``, then the folders are
# synced. A failure leaves none of them behind. Only a process that ends in between the renames leaves some of
# them: the client gets no answer then, keeps the message and sends it again. Lines end in LF. File work runs in
# threads.

FOLDERS = ("tmp", "new", "cur")
_UNFINISHED_SECONDS = 36 * 3600  # as the format of Maildirs says

DISK_FULL_REPLY = SmtpReply(452, "4.3.1 Insufficient system storage")
_delivery_numbers = itertools.count(1)  # one series for each process, as the format of Maildirs asks


class MaildirDraft(NamedTuple):
    """A file that is to be written: first ``head`` with LF line ends, then ``content`` with CRLF line ends."""

    maildir: pathlib.Path
    name: str
    head: bytes
    content: bytes


async def write_drafts(drafts: Sequence[MaildirDraft]) -> SmtpReply | None:
    """Write all drafts. Return None, or a 452 where a file system is full.

    Raises ``RelayUnavailable`` where they cannot be written for another reason.
    """
    try:
        await asyncio.to_thread(_write_all, drafts)
    except OSError as error:
        if error.errno in DISK_FULL_ERRORS:
            return DISK_FULL_REPLY
        raise RelayUnavailable(f"cannot write to the Maildir: {error}") from error
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
        make_folder(maildir / name)


def remove_unfinished(maildir: pathlib.Path) -> str:
    """Remove what a process that was killed has left in ``tmp``: nobody writes one file for so long.

    Return why the first of those that stay could not be removed; empty where there is none.
    """
    until, problem = time.time() - _UNFINISHED_SECONDS, ""
    for path in (maildir / "tmp").glob("*"):
        try:
            if path.lstat().st_mtime < until:
                path.unlink()
        except FileNotFoundError:
            continue  # it is in its place now
        except OSError as error:
            problem = problem or str(error)
    return problem


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


# Without DSN: nobody behind a file sends the notifications that its parameters ask for.
FEATURES = frozenset({"8BITMIME", "ENHANCEDSTATUSCODES", "PIPELINING", "SIZE", "SMTPUTF8"})

DELIVERED_REPLY = SmtpReply(250, "2.0.0 Delivered to the Maildir")

_CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")


class MaildirNextHop:
    """The Maildir at ``path``, which is made when it is first needed."""

    answers_each_recipient = False

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._room = MaildirRoom(path)

    async def features(self) -> frozenset[str]:
        """Return the extensions that a file allows: it can hold any bytes and any address."""
        return FEATURES

    async def begin(self, sender: SmtpPath) -> MaildirTransaction:
        """Open a transaction. Nothing is written before its data."""
        return MaildirTransaction(self, sender)

    def make_draft(
        self, sender: SmtpPath, recipients: Iterable[SmtpPath], content: bytes, fields: bytes = b""
    ) -> MaildirDraft:
        """Return the file for these recipients; ``fields`` with LF line ends go on top of the content."""
        return MaildirDraft(
            self._path,
            unique_name(),
            _envelope_fields(sender, recipients) + fields,
            content,
        )

    async def problem(self) -> str | None:
        """Return why no file could be written now, or None."""
        if not await asyncio.to_thread(is_writable, self._path):
            return "cannot be written"
        return await self._room.problem()

    def read_authorities_again(self) -> None:
        """Do nothing, since no certificate is checked."""

    async def close(self) -> None:
        """Do nothing, since no file stays open."""


class MaildirTransaction:
    """A message on its way into a Maildir."""

    def __init__(self, next_hop: MaildirNextHop, sender: SmtpPath) -> None:
        self._next_hop = next_hop
        self._sender = sender
        self._recipients: list[SmtpPath] = []

    async def rcpt(self, recipient: SmtpPath) -> SmtpReply:
        """Accept the recipient, as every other."""
        self._recipients.append(recipient)
        return SmtpReply(250, "2.1.5 Recipient ok")

    async def data(self, content: bytes, fields: bytes = b"") -> DataReplies:
        """Deliver the message. Return the reply, which is a 452 where the file system is full.

        Raises ``RelayUnavailable`` where the file cannot be written for another reason.
        """
        draft = self._next_hop.make_draft(self._sender, self._recipients, content, fields.replace(b"\r\n", b"\n"))
        return DataReplies((await write_drafts([draft]) or DELIVERED_REPLY,))

    async def abort(self) -> None:
        """Do nothing, since nothing is written before the data."""


def _envelope_fields(sender: SmtpPath, recipients: Iterable[SmtpPath]) -> bytes:
    lines = [
        f"Return-Path: <{sender.address}>",
        *(f"X-Envelope-To: {recipient.address}" for recipient in recipients),
    ]
    safe_lines = (_CONTROL_CHARACTER.sub(b"?", line.encode("utf-8", "surrogateescape")) for line in lines)
    return b"".join(line + b"\n" for line in safe_lines)
