"""The settings of the way out: which next hop, TLS with it, the login there, and how long it may take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, ValidationInfo, field_validator

from nbstream.config.values import (
    CaFile,
    MaildirNextHopSetting,
    PasswordFile,
    Seconds,
    SecretFile,
    Section,
    ServerNextHopSetting,
    read_next_hop,
    read_server_name,
    read_tls_mode,
)


class RelaySettings(Section):
    """Where mail goes next, and how long its answers may take."""

    next_hop: Annotated[MaildirNextHopSetting | ServerNextHopSetting, BeforeValidator(read_next_hop)] = (
        MaildirNextHopSetting()
    )
    """Where mail goes next. ``maildir`` is the folder ``Maildir`` in ``state_dir``, and ``maildir:PATH`` is
    another Maildir. ``smtp://HOST:PORT`` or ``smtp:unix:/PATH`` is an SMTP server, ``lmtp://HOST:PORT`` or
    ``lmtp:unix:/PATH`` an LMTP server such as Dovecot's, and ``smtps://HOST:PORT`` an SMTP server whose
    connections are TLS from the beginning. With LMTP the SMTP listener takes one recipient a transaction.
    """

    tls: Annotated[Literal["off", "may", "encrypt", "verify"], BeforeValidator(read_tls_mode)] = "off"
    """TLS with the next hop (STARTTLS, or ``smtps://``). ``may`` uses it where the server offers it, and
    ``encrypt`` sends no mail without it; both take any certificate. ``verify`` sends no mail without a certificate
    of a trusted authority that has the name of the server.
    """

    tls_ca_file: CaFile | None = None
    """A file with the authorities (PEM) that ``verify`` trusts; without it those of the system are. A reload reads
    it again, also where nothing else has changed.
    """

    tls_server_name: Annotated[str, BeforeValidator(read_server_name)] | None = None
    """The name or IP address that ``verify`` looks for in the certificate; without it that of ``next_hop``."""

    user_file: PasswordFile | None = None
    """A file that holds the user of the login at the next hop (AUTH PLAIN or LOGIN). It needs TLS by ``encrypt``
    or ``verify``, or a next hop on this machine.
    """

    password_file: PasswordFile | None = None
    """A file that holds the password of that user."""

    connect_timeout_seconds: Seconds = 10
    """A next hop that cannot be reached in this time is away: the client gets 451 and tries again later. It is
    also the longest wait for a free connection.
    """

    reply_timeout_seconds: Seconds = 300
    """The longest wait for each reply of the next hop. A mail server may take its time after the final dot, and a
    filter that gives up early doubles mail.
    """

    @field_validator("tls")
    @classmethod
    def _tls_fits_next_hop(cls, value: str, info: ValidationInfo) -> str:
        next_hop = info.data.get("next_hop")
        if next_hop is None:
            return value
        if isinstance(next_hop, ServerNextHopSetting) and next_hop.protocol == "smtps":
            if value not in {"encrypt", "verify"}:
                raise ValueError("must be encrypt or verify: smtps:// is TLS from the beginning")
        elif value != "off" and not (isinstance(next_hop, ServerNextHopSetting) and next_hop.is_on_network):
            raise ValueError("must be off: relay.next_hop is no server at HOST:PORT")
        return value

    @field_validator("tls_ca_file", "tls_server_name")
    @classmethod
    def _only_for_verify(cls, value: object, info: ValidationInfo) -> object:
        if value is not None and info.data.get("tls", "verify") != "verify":
            raise ValueError("must be left out: no certificate is checked without relay.tls: verify")
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
            raise ValueError("must be left out, or relay.tls be encrypt or verify: anyone could read the password")
        return value

    @field_validator("password_file")
    @classmethod
    def _password_of_user(cls, value: SecretFile | None, info: ValidationInfo) -> SecretFile | None:
        if "user_file" in info.data and (value is None) != (info.data["user_file"] is None):
            raise ValueError("must be given together with relay.user_file")
        return value
