"""The milter listener, for mail servers: its settings, its probe, and its entry in the table."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.server.listener import Listener, ListenerContext, ListenerEntry
from nbstream.settings.values import Section, TcpOrUnixAddressSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.findings import Finding
    from nbstream.server.probe import Conversation

_MILTER_VERSION, _MILTER_ACTIONS, _MILTER_STEPS = 6, 0x1FF, 0x1FFFFF  # what Postfix 3.7 offers


class MilterListenerSettings(Section):
    """The listener for mail servers that ask a milter about each message.

    The mail server edits the header, refuses or holds the message itself. It connects to nbstream; no next hop is
    needed. A message larger than ``limits.max_message_bytes`` is judged by its beginning. There is room for 500
    connections at least, because each SMTP client of the mail server has one of its own.
    """

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 11332)
    """Where the listener accepts connections."""


async def probe_milter(conversation: Conversation) -> Sequence[Finding]:
    """Negotiate the options as a mail server does, and quit."""
    options = struct.pack("!cIII", b"O", _MILTER_VERSION, _MILTER_ACTIONS, _MILTER_STEPS)
    conversation.send(struct.pack("!I", len(options)) + options)
    (size,) = struct.unpack("!I", await conversation.receive(4))
    answer = await conversation.receive(min(size, 13))
    conversation.send(struct.pack("!Ic", 1, b"Q"))
    if size >= 13 and answer[:1] == b"O":
        return conversation.works("the negotiation of options")
    return conversation.wrong("the negotiation of options", repr(answer))


def _make(_: MilterListenerSettings, context: ListenerContext) -> Listener:
    from nbstream.listeners.milter.session import MilterListener  # noqa: PLC0415 - see nbstream.server.listener

    return MilterListener(context.message_service)


MILTER = ListenerEntry(
    "milter",
    _make,
    probe_milter,
    idle_timeout_seconds=7200,  # a connection lives as long as the SMTP session, an hour with Sendmail
    least_connections=500,  # each SMTP client of the mail server has a connection of its own
)
