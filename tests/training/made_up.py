"""Messages made up for the tests of the choice."""

from __future__ import annotations

from nbstream.training.folder_roles import folder_role
from nbstream.training.messages import Folder, MailboxMessage, MessageFlags, MessageHeader


def message(
    folder: str,
    number: int,
    flags: MessageFlags = MessageFlags.SEEN,
    header: MessageHeader | None = None,
    size: int = 1000,
) -> MailboxMessage:
    """A message that arrived ``number`` seconds after the beginning; its message has the number, too."""
    header = header or MessageHeader(identity=number + 1, message_id=number)
    return MailboxMessage(Folder(folder, folder_role(folder)), b"%d" % number, flags, number, size, header)
