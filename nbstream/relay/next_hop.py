"""The contract between a listener and the place where its mail goes next.

Rules: one transaction carries one message; the hop's own answer is the answer of every step; a transaction
ends with ``data`` or ``abort``, and by itself when a step raises. What cannot be asked of the hop raises
``RelayUnavailable``, which is a 451 to the client: it keeps the message and tries again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nbstream.wire.smtp_reply import SmtpReply


@dataclass(frozen=True, slots=True)
class SmtpPath:
    """A MAIL or RCPT path with its ESMTP parameters, as the client sent them, case kept. RFC 5321 4.1.2.

    ``address`` is without angle brackets; ``""`` is the null sender. Bytes that are no UTF-8 are kept as
    surrogate escapes.
    """

    address: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Envelope:
    """Whom a message is from and whom it is for: those recipients that the next hop has accepted."""

    sender: SmtpPath
    recipients: tuple[SmtpPath, ...]


class Transaction(Protocol):
    """One message on its way, its MAIL accepted."""

    async def rcpt(self, recipient: SmtpPath) -> SmtpReply:
        """The hop's answer to one recipient, whatever it is; raises RelayUnavailable."""

    async def data(self, content: bytes) -> SmtpReply:
        """Hand over the message, and give the hop's final answer; raises RelayUnavailable.

        ``content`` has CRLF line ends only and is not dot-stuffed. 2xx: the hop has taken responsibility.
        """

    async def abort(self) -> None:
        """Drop the transaction, at any time; raises nothing but its own cancellation."""


class NextHop(Protocol):
    """Where mail goes next."""

    async def features(self) -> frozenset[str]:
        """The upper-case EHLO keywords of the hop: as last seen, or a safe minimum before that. Never raises."""

    async def begin(self, sender: SmtpPath) -> Transaction:
        """Open a transaction; raises RelayRefused with the hop's answer to MAIL, or RelayUnavailable."""

    async def reachable(self) -> bool:
        """Whether mail could leave now; bounded in time and cheap."""

    async def close(self) -> None:
        """Give back what is held open; a transaction begun before may still end, a new one cannot begin."""
