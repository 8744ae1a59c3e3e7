"""The SMTP and LMTP listeners: mail comes in, gets its verdict, and goes on.

Here are their probes and their entries.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

from nbstream.server.listener import Listener, ListenerContext, ListenerEntry
from nbstream.server.probe import BUSY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.findings import Finding
    from nbstream.listeners.smtp.settings import MailListenerSettings
    from nbstream.server.probe import Conversation


_MAX_REPLY_LINES = 100


async def probe_smtp(verb: str, conversation: Conversation) -> Sequence[Finding]:
    """EHLO or LHLO, and QUIT."""
    refusal = await begin_smtp(conversation, verb)
    if refusal is None:
        conversation.send(b"QUIT\r\n")
        refusal = (await smtp_reply(conversation))[-1]
        if refusal.startswith("221"):
            return conversation.works(f"{verb} and STARTTLS" if conversation.began_tls else verb)
    if refusal.startswith("421"):
        return [BUSY(name=conversation.name, address=conversation.address, answer=refusal)]
    return conversation.wrong(verb, refusal)


async def begin_smtp(conversation: Conversation, verb: str) -> str | None:
    """Read the greeting and say EHLO or LHLO, within TLS where that is offered; return a reply that refuses."""
    greeting = (await smtp_reply(conversation))[-1]
    if not greeting.startswith("220"):
        return greeting
    reply = await _say_hello(conversation, verb)
    if any(line[4:].upper() == "STARTTLS" for line in reply):
        conversation.send(b"STARTTLS\r\n")
        answer = (await smtp_reply(conversation))[-1]
        if not answer.startswith("220"):
            return answer
        await conversation.start_tls()
        reply = await _say_hello(conversation, verb)
    return None if reply[-1].startswith("250") else reply[-1]


async def _say_hello(conversation: Conversation, verb: str) -> list[str]:
    conversation.send(f"{verb} doctor.nbstream.invalid\r\n".encode())
    return await smtp_reply(conversation)


async def smtp_reply(conversation: Conversation) -> list[str]:
    """Return the lines of a reply; the last one decides."""
    lines = [await conversation.receive_line()]
    while lines[-1][:3].isdigit() and lines[-1][3:4] == "-":
        if len(lines) == _MAX_REPLY_LINES:
            raise ValueError("its reply has no end")
        lines.append(await conversation.receive_line())
    return lines


def _make(section: MailListenerSettings, context: ListenerContext) -> Listener:
    # aiosmtpd is loaded with it: see nbstream.server.listener
    from nbstream.listeners.smtp.session import SmtpListener  # noqa: PLC0415 - see above

    hostname = context.hostname or socket.getfqdn()
    return SmtpListener(section, context.message_service, context.next_hop, context.quarantine, hostname)


SMTP = ListenerEntry(
    "smtp",
    _make,
    partial(probe_smtp, "EHLO"),
    message_timeout_seconds=1800,  # for each message; RFC 5321 4.5.3.2 asks for 5 minutes between commands
    binds_all_addresses=True,
)
LMTP = ListenerEntry(
    "lmtp", _make, partial(probe_smtp, "LHLO"), message_timeout_seconds=1800, binds_all_addresses=True
)
