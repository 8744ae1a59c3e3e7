"""What all sessions of one SMTP listener share: limits, bytes in flight, next hop, and what happens to mail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.listeners.smtp.settings import TlsMode

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from nbstream.delivery.next_hop import NextHop
    from nbstream.listeners.smtp.delivery import Delivery
    from nbstream.server.connections import Connections
    from nbstream.server.feedback_mailbox import FeedbackMailbox
    from nbstream.server.limits import BytesInFlight, ListenerLimits
    from nbstream.server.peers import Network, Teachers


@dataclass(frozen=True, slots=True)
class SmtpOptions:
    """How the listener treats its clients; ``listener_name`` is that of its entry.

    ``hostname`` is the name in the greeting. Those in ``trusted_proxies`` may name clients of their own
    (XFORWARD). With ``is_lmtp`` the protocol is LMTP (RFC 2033): after the content of a message each of its
    recipients gets a reply. Recipients beyond ``max_recipients`` are put off, and the client sends to them in a
    second transaction; RFC 5321 4.5.3.1.8 asks for at least 100.
    """

    hostname: str
    listener_name: str = "smtp"
    trusted_proxies: Sequence[Network] = ()
    tls: TlsMode = TlsMode.OFF
    is_lmtp: bool = False
    max_recipients: int = 1000


@dataclass(frozen=True, slots=True)
class MessageHandlers:
    """What becomes of mail: a transaction goes by one set of rules from MAIL to its end.

    ``tls_context`` has the certificate for the next handshake; None where there is no TLS.
    """

    delivery: Delivery
    feedback: FeedbackMailbox
    teachers: Teachers
    tls_context: ssl.SSLContext | None = None


@dataclass(slots=True)
class SmtpListenerState:
    """The shared state; ``message_handlers`` are those of the next transaction."""

    connections: Connections
    limits: ListenerLimits
    options: SmtpOptions
    bytes_in_flight: BytesInFlight
    next_hop: NextHop
    message_handlers: MessageHandlers
