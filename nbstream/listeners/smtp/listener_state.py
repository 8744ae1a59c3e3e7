"""What all sessions of one SMTP listener share: limits, bytes in flight, next hop, and what happens to mail."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nbstream.listeners.smtp.settings import TlsMode
from nbstream.server.limits import BytesInFlight

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from nbstream.delivery.next_hop import NextHop
    from nbstream.listeners.smtp.delivery import Delivery
    from nbstream.server.feedback_mailbox import FeedbackMailbox
    from nbstream.server.limits import ListenerLimits
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


class OpenSession(Protocol):
    """A session as the listener sees it."""

    def close_if_idle(self) -> None:
        """Close the connection now unless a message is under way."""

    def abort(self) -> None:
        """Drop the connection."""


class SmtpListenerState:
    """The shared state; ``message_handlers`` are those of the next transaction.

    ``on_closed`` is called when the connection of a session is closed.
    """

    def __init__(
        self,
        limits: ListenerLimits,
        options: SmtpOptions,
        bytes_in_flight: BytesInFlight,
        next_hop: NextHop,
        message_handlers: MessageHandlers,
        on_closed: Callable[[], object],
    ) -> None:
        self.limits = limits
        self.options = options
        self.next_hop = next_hop
        self.message_handlers = message_handlers
        self.bytes_in_flight = bytes_in_flight
        self.sessions: set[OpenSession] = set()
        self.draining = False
        self._on_closed = on_closed
        self.no_sessions = asyncio.Event()

    def session_opened(self, session: OpenSession) -> None:
        """A session has begun."""
        self.sessions.add(session)
        self.no_sessions.clear()

    def session_closed(self, session: OpenSession) -> None:
        """The connection of a session is closed."""
        if session in self.sessions:
            self.sessions.remove(session)
            self._on_closed()
        if not self.sessions:
            self.no_sessions.set()
