"""A Maildir as the next hop: one file for all recipients that get the same content.

Rules: files are written as ``relay.maildir_files`` says. ``Return-Path`` and one ``X-Envelope-To`` for each
recipient come first, and no byte of an address can end its line.
"""

from __future__ import annotations

import asyncio
import pathlib
import re
from collections.abc import Iterable

from nbstream.relay import maildir_files
from nbstream.relay.maildir_room import MaildirRoom
from nbstream.relay.next_hop import DataReplies, SmtpPath
from nbstream.wire.smtp_reply import SmtpReply

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
    ) -> maildir_files.MaildirDraft:
        """Return the file for these recipients; ``fields`` with LF line ends go on top of the content."""
        return maildir_files.MaildirDraft(
            self._path,
            maildir_files.unique_name(),
            _envelope_fields(sender, recipients) + fields,
            content,
            self._room,
        )

    async def problem(self) -> str | None:
        """Return why no file could be written now, or None."""
        if not await asyncio.to_thread(maildir_files.is_writable, self._path):
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
        return DataReplies((await maildir_files.write_drafts([draft]) or DELIVERED_REPLY,))

    async def abort(self) -> None:
        """Do nothing, since nothing is written before the data."""


def _envelope_fields(sender: SmtpPath, recipients: Iterable[SmtpPath]) -> bytes:
    lines = [
        f"Return-Path: <{sender.address}>",
        *(f"X-Envelope-To: {recipient.address}" for recipient in recipients),
    ]
    safe_lines = (_CONTROL_CHARACTER.sub(b"?", line.encode("utf-8", "surrogateescape")) for line in lines)
    return b"".join(line + b"\n" for line in safe_lines)
