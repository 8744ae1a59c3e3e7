"""A Maildir as the next hop: one file for recipients that get the same.

Rules: files are as ``relay.maildir_files`` writes them. ``Return-Path`` and one ``X-Envelope-To`` a recipient come
first; no byte of an address can end its line.
"""

from __future__ import annotations

import asyncio
import pathlib
import re
from collections.abc import Iterable

from nbstream.relay import maildir_files
from nbstream.relay.next_hop import SmtpPath
from nbstream.wire.smtp_reply import SmtpReply

# Without DSN: nobody behind a file sends the notifications that its parameters ask for.
FEATURES = frozenset({"8BITMIME", "ENHANCEDSTATUSCODES", "PIPELINING", "SIZE", "SMTPUTF8"})

DELIVERED_REPLY = SmtpReply(250, "2.0.0 Delivered to the Maildir")

_CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")


class MaildirNextHop:
    """The Maildir at ``path``, made when it is first needed."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    async def features(self) -> frozenset[str]:
        """What a file can keep: any bytes and any address."""
        return FEATURES

    async def begin(self, sender: SmtpPath) -> MaildirTransaction:
        """Open a transaction; nothing is written before its data."""
        return MaildirTransaction(self, sender)

    def make_draft(
        self, sender: SmtpPath, recipients: Iterable[SmtpPath], content: bytes, fields: bytes = b""
    ) -> maildir_files.MaildirDraft:
        """The file for these recipients, to be written; ``fields`` with LF line ends go on top of the content."""
        return maildir_files.MaildirDraft(
            self._path, maildir_files.unique_name(), _envelope_fields(sender, recipients) + fields, content
        )

    async def reachable(self) -> bool:
        """Whether a file could be made now."""
        return await asyncio.to_thread(maildir_files.is_writable, self._path)

    async def close(self) -> None:
        """Nothing is held open."""


class MaildirTransaction:
    """A message on its way into a Maildir."""

    def __init__(self, hop: MaildirNextHop, sender: SmtpPath) -> None:
        self._hop = hop
        self._sender = sender
        self._recipients: list[SmtpPath] = []

    async def rcpt(self, recipient: SmtpPath) -> SmtpReply:
        """Every recipient is accepted."""
        self._recipients.append(recipient)
        return SmtpReply(250, "2.1.5 Recipient ok")

    async def data(self, content: bytes) -> SmtpReply:
        """Deliver; 452 when the file system is full, RelayUnavailable when it fails otherwise."""
        return (
            await maildir_files.write_drafts([self._hop.make_draft(self._sender, self._recipients, content)])
            or DELIVERED_REPLY
        )

    async def abort(self) -> None:
        """Nothing has been written."""


def _envelope_fields(sender: SmtpPath, recipients: Iterable[SmtpPath]) -> bytes:
    lines = [f"Return-Path: <{sender.address}>", *(f"X-Envelope-To: {to.address}" for to in recipients)]
    safe = (_CONTROL_CHARACTER.sub(b"?", line.encode("utf-8", "surrogateescape")) for line in lines)
    return b"".join(line + b"\n" for line in safe)
