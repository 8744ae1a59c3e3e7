"""The settings of the SMTP listener and of the LMTP listener."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, ValidationInfo, field_validator

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.settings.values import (
    FilePath,
    Networks,
    Section,
    TcpOrUnixAddressSetting,
    read_network,
    require_port_for_lmtp,
    require_usable_certificate,
)


class TlsMode(StrEnum):
    """Whether clients use TLS: by STARTTLS if they like (``may``), by STARTTLS (``require``), or at once."""

    OFF = "off"
    MAY = "may"
    REQUIRE = "require"
    IMPLICIT = "implicit"


def read_listener_tls_mode(value: object) -> TlsMode:
    """Read ``off``, ``may``, ``require`` or ``implicit``. Without quotes ``off`` is a boolean in YAML."""
    if value is False:
        return TlsMode.OFF
    if isinstance(value, str) and value in set(TlsMode):
        return TlsMode(value)
    raise ValueError("must be off, may, require or implicit")


class MailListenerSettings(Section):
    """What the listeners that take mail to its next hop have in common."""

    _listener_name: ClassVar[str]

    listen: TcpOrUnixAddressSetting
    """Where the listener accepts connections."""

    trusted_proxies: Networks = (read_network("127.0.0.0/8"), read_network("::1/128"))
    """The networks whose peers may name the client of a message by XFORWARD, as Postfix does. A peer on a unix
    socket may too.
    """

    tls_cert_file: FilePath | None = None
    """The certificate of this listener, with those that lead to its authority (PEM). A reload reads it again."""

    tls_key_file: FilePath | None = None
    """The key of that certificate, unless the same file has it; without a passphrase."""

    tls: Annotated[TlsMode, BeforeValidator(read_listener_tls_mode)] = TlsMode.OFF
    """TLS of version 1.2 at least: with ``may`` clients can begin it (STARTTLS), with ``require`` they must
    before they send mail, with ``implicit`` a connection begins with it. All but ``off`` need
    ``tls_cert_file``.
    """

    @field_validator("tls_key_file")
    @classmethod
    def _usable_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        certificate = info.data.get("tls_cert_file")
        if certificate is None:
            if value is not None and "tls_cert_file" in info.data:
                raise ValueError(f"must be left out where listeners.{cls._listener_name}.tls_cert_file is")
            return value
        require_usable_certificate(certificate, value, f"listeners.{cls._listener_name}.tls_cert_file")
        return value

    @field_validator("tls")
    @classmethod
    def _tls_needs_a_certificate(cls, value: TlsMode, info: ValidationInfo) -> TlsMode:
        if value != "off" and info.data.get("tls_cert_file", "refused") is None:
            raise ValueError(f"must be off, or listeners.{cls._listener_name}.tls_cert_file must be set")
        return value


class SmtpListenerSettings(MailListenerSettings):
    """The SMTP listener."""

    _listener_name: ClassVar[str] = "smtp"

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 10025)
    """Where the listener accepts connections. Port 0 lets the system choose a port. A unix socket may have
    permissions and a group: ``unix:/PATH mode=0660 group=postfix``.
    """


class LmtpListenerSettings(MailListenerSettings):
    """The LMTP listener."""

    _listener_name: ClassVar[str] = "lmtp"

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 10024)
    """Where the listener accepts connections; 25 is for SMTP alone."""

    @field_validator("listen")
    @classmethod
    def _is_no_port_of_smtp(cls, value: TcpAddress | UnixAddress) -> TcpAddress | UnixAddress:
        if isinstance(value, TcpAddress):
            require_port_for_lmtp(value)
        return value
