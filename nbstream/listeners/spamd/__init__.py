"""The spamd listener, for clients of SpamAssassin's server: its settings, its probe, and its entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.addresses import TcpAddress
from nbstream.server.listener import Listener, ListenerContext, ListenerEntry
from nbstream.settings.values import Section, TcpOrUnixAddressSetting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.findings import Finding
    from nbstream.server.probe import Conversation


class SpamdListenerSettings(Section):
    """The listener for clients of SpamAssassin's server."""

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 1783)
    """Where the listener accepts connections."""


async def probe_spamd(conversation: Conversation) -> Sequence[Finding]:
    """PING."""
    conversation.send(b"PING SPAMC/1.5\r\n\r\n")
    answer = await conversation.receive_line()
    if answer.endswith(" 0 PONG"):
        return conversation.works("PING")
    return conversation.wrong("PING", answer)


def _make(_: SpamdListenerSettings, context: ListenerContext) -> Listener:
    from nbstream.listeners.spamd.listener import SpamdListener  # noqa: PLC0415 - see nbstream.server.listener

    return SpamdListener(context.message_service)


SPAMD = ListenerEntry("spamd", _make, probe_spamd)
