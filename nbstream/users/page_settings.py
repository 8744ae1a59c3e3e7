"""The settings of the page of users: who may see his own mail there, and which server knows his password."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, Strict

from nbstream.addresses import TcpAddress
from nbstream.mail.addresses import canonical_address
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.settings import read_address_pattern
from nbstream.settings.values import CaFile, Section, read_address, read_path

_PLAIN_ADDRESS = re.compile(r"[^\s@+*?<>,;:\"\\()\[\]]+@[^\s@+*?<>,;:\"\\()\[\]]+")
_ALLOWED_LOGIN = "must be dovecot:/PATH, imaps://HOST:PORT or imap://HOST:PORT"


@dataclass(frozen=True, slots=True)
class DovecotLoginSetting:
    """Passwords are checked by Dovecot, at the socket of its auth service for clients."""

    path: Path


@dataclass(frozen=True, slots=True)
class ImapLoginSetting:
    """Passwords are checked by an IMAP server; with ``implicit_tls`` TLS begins with the connection."""

    address: TcpAddress
    implicit_tls: bool


def read_login(value: object) -> DovecotLoginSetting | ImapLoginSetting:
    """Read ``dovecot:/PATH``, ``imaps://HOST:PORT`` or ``imap://HOST:PORT``."""
    if isinstance(value, DovecotLoginSetting | ImapLoginSetting):
        return value
    scheme, _, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
    if scheme == "dovecot" and rest.startswith("/"):
        return DovecotLoginSetting(read_path(rest))
    if scheme in {"imap", "imaps"} and rest.startswith("//"):
        try:
            address = read_address(rest.removeprefix("//"))
        except ValueError:
            raise ValueError(_ALLOWED_LOGIN) from None
        if address.port:
            return ImapLoginSetting(address, scheme == "imaps")
    raise ValueError(_ALLOWED_LOGIN)


class UserPageSettings(Section):
    """The page of users."""

    users: Annotated[
        tuple[Annotated[AddressPattern, BeforeValidator(read_address_pattern)], ...],
        Strict(False),
        Field(min_length=1, max_length=100),
    ]
    """The users who may log in: patterns of their addresses, such as ``"*@example.org"``. Name no domain whose
    users another server knows.
    """

    login: Annotated[DovecotLoginSetting | ImapLoginSetting, BeforeValidator(read_login)] | None = None
    """The server that knows the passwords: ``dovecot:/run/dovecot/auth-client`` is Dovecot's socket for clients,
    ``imaps://HOST:PORT`` and ``imap://HOST:PORT`` are an IMAP server, which gets the password over TLS, or on this
    machine. With ``null`` users log in by links that were mailed to them.
    """

    ca_file: CaFile | None = None
    """The certificates (PEM) that the one of the IMAP server is verified with. ``null`` stands for those of the
    system.
    """

    def address_of(self, user: str, domain: str | None) -> str | None:
        """Return the address of the user with this name, normalized; None where he may not log in.

        ``domain`` is that of a name without one. A name with a ``+`` is none: the mail of such an address belongs
        to the user without it.
        """
        address = canonical_address(user if "@" in user or domain is None else f"{user}@{domain}")
        is_plain = _PLAIN_ADDRESS.fullmatch(address) and address.isprintable()
        return address if is_plain and any(pattern.matches(address) for pattern in self.users) else None
