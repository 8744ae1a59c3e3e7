"""The settings of the way out: the next hop, TLS with it, the login there; and of the quarantine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.settings.values import (
    ByteCount,
    CaFile,
    PasswordFile,
    Seconds,
    SecretFile,
    Section,
    read_address,
    read_listen_address,
    read_path,
    require_port_for_lmtp,
)


@dataclass(frozen=True, slots=True)
class MaildirNextHopSetting:
    """The next hop is a Maildir. A path of None means the Maildir in ``state_dir``."""

    path: Path | None = None


@dataclass(frozen=True, slots=True)
class ServerNextHopSetting:
    """The next hop is a server; ``protocol`` is ``smtp``, ``smtps`` (SMTP within TLS) or ``lmtp``."""

    protocol: str
    address: TcpAddress | UnixAddress


_ALLOWED_NEXT_HOP = (
    "must be maildir, maildir:PATH, smtp://HOST:PORT, smtps://HOST:PORT, lmtp://HOST:PORT, smtp:unix:/PATH or "
    "lmtp:unix:/PATH"
)


def _server_address(text: str) -> TcpAddress:
    try:
        address = read_address(text)
    except ValueError:
        raise ValueError(_ALLOWED_NEXT_HOP) from None
    if address.port == 0:
        raise ValueError(f"{_ALLOWED_NEXT_HOP}, the port from 1 to 65535")
    return address


def read_next_hop(value: object) -> MaildirNextHopSetting | ServerNextHopSetting:
    """Read a Maildir, or a server as ``PROTOCOL://HOST:PORT`` or ``PROTOCOL:unix:/PATH``."""
    if isinstance(value, MaildirNextHopSetting | ServerNextHopSetting):
        return value
    text = value if isinstance(value, str) else ""
    kind, _, rest = text.partition(":")
    if text == "maildir":
        return MaildirNextHopSetting()
    if kind == "maildir" and rest:
        return MaildirNextHopSetting(read_path(rest))
    if kind in {"smtp", "smtps", "lmtp"} and rest.startswith("//"):
        address = _server_address(rest.removeprefix("//"))
        if kind == "lmtp":
            require_port_for_lmtp(address)
        return ServerNextHopSetting(kind, address)
    if kind in {"smtp", "lmtp"} and rest.startswith("unix:"):
        return ServerNextHopSetting(kind, read_listen_address(rest))
    raise ValueError(_ALLOWED_NEXT_HOP)


class TlsLevel(StrEnum):
    """Which connections to the next hop are encrypted, and which certificates count."""

    OFF = "off"
    MAY = "may"
    """TLS where the server takes STARTTLS, with any certificate."""
    ENCRYPT = "encrypt"
    """TLS or no mail, with any certificate."""
    VERIFY = "verify"
    """TLS or no mail, with a certificate of a trusted authority that has the name of the server."""


def read_tls_level(value: object) -> TlsLevel:
    """Read ``off``, ``may``, ``encrypt`` or ``verify``. Without quotes ``off`` is a boolean in YAML."""
    if value is False:
        return TlsLevel.OFF
    if isinstance(value, str) and value in set(TlsLevel):
        return TlsLevel(value)
    raise ValueError("must be off, may, encrypt or verify")


class RelaySettings(Section):
    """Where mail goes next, and how long its answers may take."""

    next_hop: Annotated[MaildirNextHopSetting | ServerNextHopSetting, BeforeValidator(read_next_hop)] = (
        MaildirNextHopSetting()
    )
    """Where mail goes next. ``maildir`` is the folder ``Maildir`` in ``state_dir``, ``maildir:PATH`` another
    one. PROTOCOL is ``smtp``, ``lmtp``, or ``smtps`` with TLS from the beginning.
    """

    tls: Annotated[TlsLevel, BeforeValidator(read_tls_level)] = TlsLevel.OFF
    """``may`` uses TLS where the server offers it, ``encrypt`` sends no mail without it; both take any
    certificate. ``verify`` needs a certificate of a trusted authority with the name of the server.
    """

    tls_ca_file: CaFile | None = None
    """The authorities (PEM) that ``verify`` trusts; ``null`` for those of the system. A reload reads it again."""

    user_file: PasswordFile | None = None
    """A file that holds the user of the login at the next hop. It needs TLS by ``encrypt`` or ``verify``, or a
    next hop on this machine.
    """

    password_file: PasswordFile | None = None
    """A file that holds the password of that user."""

    reply_timeout_seconds: Seconds = 300
    """The longest wait for each reply of the next hop. A filter that gives up early doubles mail."""

    @property
    def server(self) -> ServerNextHopSetting:
        """The next hop where it is a server."""
        assert isinstance(self.next_hop, ServerNextHopSetting)
        return self.next_hop

    @field_validator("tls")
    @classmethod
    def _tls_fits_next_hop(cls, value: TlsLevel, info: ValidationInfo) -> TlsLevel:
        next_hop = info.data.get("next_hop")
        if next_hop is None:
            return value
        if isinstance(next_hop, ServerNextHopSetting) and next_hop.protocol == "smtps":
            if value not in {"encrypt", "verify"}:
                raise ValueError("must be encrypt or verify: smtps:// is TLS from the beginning")
        elif value != "off" and not (isinstance(getattr(next_hop, "address", None), TcpAddress)):
            raise ValueError("must be off: relay.next_hop is not a server at HOST:PORT")
        return value

    @field_validator("tls_ca_file")
    @classmethod
    def _only_for_verify(cls, value: object, info: ValidationInfo) -> object:
        if value is not None and info.data.get("tls", "verify") != "verify":
            raise ValueError("must be left out: without relay.tls: verify no certificate is checked")
        return value

    @field_validator("user_file")
    @classmethod
    def _login_is_not_overheard(cls, value: SecretFile | None, info: ValidationInfo) -> SecretFile | None:
        next_hop = info.data.get("next_hop")
        if value is None or next_hop is None:
            return value
        if isinstance(next_hop, MaildirNextHopSetting):
            raise ValueError("must be left out: a Maildir has no login")  # noqa: TRY004 - of the setting
        if info.data.get("tls", "verify") not in {"encrypt", "verify"} and not next_hop.address.is_loopback:
            raise ValueError(
                "must be left out unless relay.tls is encrypt or verify: anyone could read the password"
            )
        return value

    @field_validator("password_file")
    @classmethod
    def _password_of_user(cls, value: SecretFile | None, info: ValidationInfo) -> SecretFile | None:
        if "user_file" in info.data and (value is None) != (info.data["user_file"] is None):
            raise ValueError("must be given together with relay.user_file")
        return value


class QuarantineSettings(Section):
    """How long suspicious messages wait, and how many. They are in the folder ``Quarantine`` of ``state_dir``."""

    days: Annotated[int, Field(ge=1, le=36500)] | None = 30
    """A message is removed after this many days; ``null`` keeps it for ever."""

    max_bytes: ByteCount | None = 4 << 30
    """The room of the quarantine, of which one user has an eighth, or one message that is larger. A message for
    which there is none gets 452. ``null`` sets no limit.
    """
