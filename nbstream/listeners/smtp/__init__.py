"""The SMTP and LMTP listeners: mail comes in, gets its verdict, and goes on to the next hop. Their entries."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from nbstream.listeners.smtp.probe import probe_lmtp, probe_smtp
from nbstream.server.listener import Listener, ListenerContext, ListenerEntry

if TYPE_CHECKING:
    from nbstream.listeners.smtp.settings import MailListenerSettings


def _make(section: MailListenerSettings, context: ListenerContext) -> Listener:
    # aiosmtpd is loaded with it: see nbstream.server.listener
    from nbstream.listeners.smtp.listener import SmtpListener  # noqa: PLC0415 - see above

    return SmtpListener(
        section,
        name=context.name,
        hostname=context.hostname or socket.getfqdn(),
        limits=context.limits,
        bytes_in_flight=context.bytes_in_flight,
        outlet=context.outlet,
        runtime=context.runtime,
        metrics=context.metrics,
    )


SMTP = ListenerEntry(
    "smtp",
    _make,
    probe_smtp,
    message_timeout_seconds=1800,  # for each message; RFC 5321 4.5.3.2 asks for 5 minutes between commands
    binds_all_addresses=True,
)
LMTP = ListenerEntry("lmtp", _make, probe_lmtp, message_timeout_seconds=1800, binds_all_addresses=True)
