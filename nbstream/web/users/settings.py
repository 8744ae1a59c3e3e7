"""The settings of what users get: the digest of quarantined mail, and the self-service page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, Strict

from nbstream.addresses import TcpAddress
from nbstream.mail.addresses import canonical_address
from nbstream.policy.address_patterns import AddressPattern, first_matching_pattern
from nbstream.policy.settings import MailAddress, read_address_pattern
from nbstream.settings.values import Section, read_address, read_path

_BASE_URL = re.compile(r"https?://[A-Za-z0-9\[\]._:-]{1,253}(/[A-Za-z0-9._~/-]{0,200})?")


def read_base_url(value: object) -> str:
    """Read the address of a site, ``http://`` or ``https://``, without a query."""
    if not isinstance(value, str) or _BASE_URL.fullmatch(value) is None or not _has_host(value):
        raise ValueError("must be an address such as https://mail.example.org, without ? and #")
    return value.rstrip("/")


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


AddressPatterns = Annotated[
    tuple[Annotated[AddressPattern, BeforeValidator(read_address_pattern)], ...],
    Strict(False),
    Field(max_length=200),
]


class DigestSettings(Section):
    """The mail to each user about new quarantined messages, at 7 in the morning."""

    recipients: Annotated[AddressPatterns, Field(min_length=1)]
    """Patterns of the addresses that get a digest: ``*`` is any characters, ``?`` one."""

    exclude: AddressPatterns = ()
    """Patterns of addresses that get none. Name all mailing lists and shared addresses: whoever reads a digest
    can release what is in it.
    """

    sender: MailAddress
    """The address in From. The envelope sender is empty."""

    base_url: Annotated[str, BeforeValidator(read_base_url)]
    """The address at which users reach ``listeners.http`` of this daemon."""

    language: Literal["en", "de"] = "en"
    """English or German."""

    @property
    def warnings(self) -> list[str]:
        """One sentence where the links of the digest can be overheard."""
        if self.base_url.startswith("http://"):
            return ["digest.base_url is http://: whoever overhears a link of a digest can use it"]
        return []

    def is_recipient(self, address: str) -> bool:
        """Return whether this address may get a digest."""
        return (
            first_matching_pattern(self.recipients, address) is not None
            and first_matching_pattern(self.exclude, address) is None
        )


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
    """The self-service page."""

    users: Annotated[
        tuple[Annotated[AddressPattern, BeforeValidator(read_address_pattern)], ...],
        Strict(False),
        Field(min_length=1, max_length=100),
    ]
    """The users who may log in, by patterns of their addresses."""

    login: Annotated[DovecotLoginSetting | ImapLoginSetting, BeforeValidator(read_login)] | None = None
    """The server that knows the passwords: Dovecot's socket for clients (``dovecot:/run/dovecot/auth-client``),
    or an IMAP server. With ``null`` users log in by mailed links.
    """

    def address_of(self, user: str, domain: str | None) -> str | None:
        """Return the normalized address of the user with this name; None if they may not log in.

        ``domain`` is that of a name without one. A name with a ``+`` is none: the mail of such an address belongs
        to the user without it.
        """
        address = canonical_address(user if "@" in user or domain is None else f"{user}@{domain}")
        is_plain = _PLAIN_ADDRESS.fullmatch(address) and address.isprintable()
        return address if is_plain and any(pattern.matches(address) for pattern in self.users) else None
