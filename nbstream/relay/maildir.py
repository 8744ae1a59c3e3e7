"""A Maildir as the next hop: one file for a transaction, whoever its recipients are.

Rules: a file is written in ``tmp``, synced, renamed into ``new``, and the folder synced before the 250; what
fails leaves no file behind. Lines end in LF. ``Return-Path`` and one ``X-Envelope-To`` a recipient come first;
no byte of an address can end its line. File work runs in threads.
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
from collections.abc import Iterable
from contextlib import suppress

from nbstream.errors import RelayUnavailable, Reply
from nbstream.mail.lines import pieces
from nbstream.relay.next_hop import Path

# Without DSN: nobody behind a file sends the notifications that its parameters ask for.
FEATURES = frozenset({"8BITMIME", "ENHANCEDSTATUSCODES", "PIPELINING", "SIZE", "SMTPUTF8"})

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_FULL = (errno.ENOSPC, errno.EDQUOT)


class MaildirNextHop:
    """The Maildir at ``path``, made when it is first needed."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._deliveries = itertools.count(1)

    async def features(self) -> frozenset[str]:
        """What a file can keep: any bytes and any address."""
        return FEATURES

    async def begin(self, sender: Path) -> MaildirTransaction:
        """Open a transaction; nothing is written before its data."""
        return MaildirTransaction(self._path, _unique_name(next(self._deliveries)), sender)

    async def reachable(self) -> bool:
        """Whether a file could be made now."""
        return await asyncio.to_thread(_writable, self._path)

    async def close(self) -> None:
        """Nothing is held open."""


class MaildirTransaction:
    """A message on its way into a Maildir."""

    def __init__(self, maildir: pathlib.Path, name: str, sender: Path) -> None:
        self._maildir = maildir
        self._name = name
        self._sender = sender
        self._recipients: list[Path] = []

    async def rcpt(self, recipient: Path) -> Reply:
        """Every recipient is accepted."""
        self._recipients.append(recipient)
        return Reply(250, "2.1.5 Recipient ok")

    async def data(self, content: bytes) -> Reply:
        """Deliver; 452 when the file system is full, RelayUnavailable when it fails otherwise."""
        envelope = _envelope(self._sender, self._recipients)
        try:
            await asyncio.to_thread(_deliver, self._maildir, self._name, envelope, content)
        except OSError as error:
            if error.errno in _FULL:
                return Reply(452, "4.3.1 Insufficient system storage")
            raise RelayUnavailable(f"cannot write to the Maildir: {error}") from error
        return Reply(250, "2.0.0 Delivered to the Maildir")

    async def abort(self) -> None:
        """Nothing has been written."""


def _envelope(sender: Path, recipients: Iterable[Path]) -> bytes:
    lines = [f"Return-Path: <{sender.address}>", *(f"X-Envelope-To: {to.address}" for to in recipients)]
    safe = (_CONTROL.sub(b"?", line.encode("utf-8", "surrogateescape")) for line in lines)
    return b"".join(line + b"\n" for line in safe)


def _deliver(maildir: pathlib.Path, name: str, envelope: bytes, content: bytes) -> None:
    _create(maildir)
    draft, delivered = maildir / "tmp" / name, maildir / "new" / name
    try:
        with open(draft, "xb", opener=_private) as file:
            file.write(envelope)
            for piece in pieces(content):
                file.write(piece.replace(b"\r\n", b"\n"))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(delivered)
        _sync_folder(delivered.parent)
    except BaseException:
        # A file in ``new`` that was not synced goes too: the client keeps the message and sends it again.
        for file_path in (draft, delivered):
            with suppress(OSError):
                file_path.unlink(missing_ok=True)
        raise


def _unique_name(delivery: int) -> str:
    """A name unique over time, process, delivery and host, as https://cr.yp.to/proto/maildir.html asks."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    host = socket.gethostname().replace("/", "\\057").replace(":", "\\072")
    unique = f"M{nanoseconds // 1000}P{os.getpid()}Q{delivery}R{secrets.token_hex(4)}"
    return f"{seconds}.{unique}.{host}"


def _writable(maildir: pathlib.Path) -> bool:
    try:
        _create(maildir)
    except OSError:
        return False
    return all(os.access(maildir / name, os.W_OK | os.X_OK) for name in ("tmp", "new"))


def _create(maildir: pathlib.Path) -> None:
    for name in ("tmp", "new", "cur"):
        _make_folder(maildir / name)


def _make_folder(folder: pathlib.Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: pathlib.Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
