"""The server that is the next hop: its address and protocol, TLS with it, and the login there."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from enum import StrEnum


class TlsMode(StrEnum):
    """Which connections to the next hop are encrypted, and which certificates count."""

    OFF = "off"
    MAY = "may"
    """TLS where the server takes STARTTLS, with any certificate."""
    ENCRYPT = "encrypt"
    """TLS or no mail, with any certificate."""
    VERIFY = "verify"
    """TLS or no mail, with a certificate of a trusted authority that has the name of the server."""


@dataclass(frozen=True, slots=True)
class RelayTls:
    """TLS with the next hop.

    ``implicit``: it begins with the connection, before the greeting. ``server_name`` is the name or the IP address
    that the certificate must have. ``ca_file`` has the authorities that are trusted; None means those of the
    system.
    """

    mode: TlsMode
    server_name: str = ""
    ca_file: str | None = None
    implicit: bool = False

    def make_context(self) -> ssl.SSLContext:
        """Return the context of new connections. The authorities are read from files. Raises ``OSError``."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.mode is not TlsMode.VERIFY:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class RelayLogin:
    """The user and the password for AUTH."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """A server at ``host`` and ``port``, or at the unix socket ``socket_path`` if that is given.

    ``lmtp``: it speaks LMTP (RFC 2033), else SMTP. ``tls`` of None is no TLS.
    """

    host: str = ""
    port: int = 0
    socket_path: str = ""
    lmtp: bool = False
    tls: RelayTls | None = None
    login: RelayLogin | None = None

    def __str__(self) -> str:
        return self.socket_path or f"{self.host} port {self.port}"
