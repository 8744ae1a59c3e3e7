"""The settings of the listeners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, SecretStr, Strict, ValidationInfo, field_validator

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.config.values import (
    ByteCount,
    FilePath,
    Network,
    PasswordFile,
    SecretFile,
    Section,
    read_address,
    read_listen_address,
    read_listener_tls_mode,
    read_network,
    read_system_user,
    read_unix_address,
    require_port_for_lmtp,
    require_usable_certificate,
)

TcpAddressSetting = Annotated[TcpAddress, BeforeValidator(read_address)]
TcpOrUnixAddressSetting = Annotated[TcpAddress | UnixAddress, BeforeValidator(read_listen_address)]
UnixAddressSetting = Annotated[UnixAddress, BeforeValidator(read_unix_address)]
SystemUser = Annotated[str, BeforeValidator(read_system_user)]
Networks = Annotated[tuple[Annotated[Network, BeforeValidator(read_network)], ...], Strict(False)]


class MailListenerSettings(Section):
    """What the listeners that take mail to its next hop have in common."""

    _listener_name: ClassVar[str]

    listen: TcpOrUnixAddressSetting
    """Where the listener accepts connections."""

    trusted_proxies: Networks = (read_network("127.0.0.0/8"), read_network("::1/128"))
    """The networks whose peers may say by XFORWARD which client a message comes from, as Postfix does. A peer on a
    unix socket may say it too.
    """

    tls_cert_file: FilePath | None = None
    """A file with the certificate of this listener and those that lead to its authority (PEM). A reload reads it
    again, also where nothing else has changed.
    """

    tls_key_file: FilePath | None = None
    """A file with the key of that certificate, unless the same file has it. The key must have no passphrase."""

    tls: Annotated[Literal["off", "may", "require", "implicit"], BeforeValidator(read_listener_tls_mode)] = "off"
    """Whether clients use TLS, of version 1.2 at least. With ``may`` they can begin it (STARTTLS), with
    ``require`` they must before they send mail, and with ``implicit`` a connection begins with it. All but
    ``off`` need ``tls_cert_file``.
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
    def _tls_needs_a_certificate(cls, value: str, info: ValidationInfo) -> str:
        if value != "off" and info.data.get("tls_cert_file", "refused") is None:
            raise ValueError(f"must be off, or listeners.{cls._listener_name}.tls_cert_file must be set")
        return value


class SmtpListenerSettings(MailListenerSettings):
    """The SMTP listener."""

    _listener_name: ClassVar[str] = "smtp"

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 10025)
    """Where the listener accepts connections. Port 0 lets the system choose a port. A unix socket may have
    permissions and a group: ``unix:/PATH mode=0660 group=postfix``. Postfix cannot send SMTP to a unix socket.
    """


class LmtpListenerSettings(MailListenerSettings):
    """The LMTP listener."""

    _listener_name: ClassVar[str] = "lmtp"

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 10024)
    """Where the listener accepts connections. Port 0 lets the system choose a port; 25 is for SMTP alone."""

    @field_validator("listen")
    @classmethod
    def _is_no_port_of_smtp(cls, value: TcpAddress | UnixAddress) -> TcpAddress | UnixAddress:
        if isinstance(value, TcpAddress):
            require_port_for_lmtp(value)
        return value


class HttpListenerSettings(Section):
    """The HTTP listener. Other machines reach it only with a password.

    Where ``write_password_file`` is set, it is for teaching, and ``password_file`` is for all else. Peers in
    ``allow_from`` need neither.
    """

    password_file: PasswordFile | None = None
    """A file that holds the password of this listener, which a client sends as ``Authorization: Bearer`` or as
    ``Password:``. It also logs in to the page. It must be set if the listener can be reached from other machines
    (any address but 127.0.0.0/8, ::1 and localhost).
    """

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 11334)
    """Where the listener accepts connections."""

    write_password_file: PasswordFile | None = None
    """A file that holds another password, which is needed to teach and may also read, on the page too. Without it
    ``password_file`` is for both.
    """

    allow_from: Networks = (read_network("127.0.0.0/8"), read_network("::1/128"))
    """The networks whose peers need no password, unless a proxy asks for somebody else, whom it has to name in
    ``X-Forwarded-For`` then. A peer on a unix socket needs none either. To teach over TCP without a password a
    peer must be in ``feedback.allow_from`` too.
    """

    @field_validator("listen")
    @classmethod
    def _password_beyond_loopback(
        cls, value: TcpAddress | UnixAddress, info: ValidationInfo
    ) -> TcpAddress | UnixAddress:
        # No entry means that password_file was refused itself: one problem, one line.
        if info.data.get("password_file", "refused") is None and not value.is_loopback:
            raise ValueError("must be a loopback address, or listeners.http.password_file must be set")
        return value

    @property
    def password(self) -> SecretStr | None:
        """The secret of ``password_file``."""
        return self.password_file.secret if self.password_file else None

    @property
    def write_password(self) -> SecretStr | None:
        """The secret of ``write_password_file``."""
        return self.write_password_file.secret if self.write_password_file else None

    @field_validator("write_password_file")
    @classmethod
    def _write_password_needs_password(cls, value: SecretFile | None, info: ValidationInfo) -> SecretFile | None:
        # Without a password for reading, anybody could read from other machines.
        if value and info.data.get("password_file", "refused") is None:
            raise ValueError("must be left out where listeners.http.password_file is")
        return value


class SpamdListenerSettings(Section):
    """The listener for clients of SpamAssassin's server."""

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 1783)
    """Where the listener accepts connections."""


class MilterListenerSettings(Section):
    """The listener for mail servers that ask a milter about each message.

    The mail server edits the header, refuses or holds the message itself. It connects to nbstream; no next hop is
    needed. A message larger than ``limits.max_message_bytes`` is judged by its beginning. There is room for 500
    connections at least, because each SMTP client of the mail server has one of its own.
    """

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 11332)
    """Where the listener accepts connections."""


class MetricsListenerSettings(Section):
    """A listener for ``/metrics`` alone, for a scraper on another machine."""

    listen: TcpAddressSetting
    """Where the listener accepts connections."""


class StreamListenerSettings(Section):
    """The listener for programs that use Redis. It has no address. A message has at most 10 MiB."""

    claim_seconds: Annotated[float, Field(ge=1, le=86400, allow_inf_nan=False)] = 60
    """Another worker takes over the entries of a worker that gave no sign of life for this long."""


class DovecotListenerSettings(Section):
    """The listener for Dovecot's Sieve scripts, and the spool of what they report.

    A message is on the disk when Dovecot gets its answer, and is learned after that.
    """

    listen: UnixAddressSetting = UnixAddress(Path("/run/nbstream/nbstream-report"))
    """The unix socket, with its group as in ``unix:/PATH group=vmail``: who may connect may teach. Its name is
    that of the program in the Sieve scripts, and ``sieve_pipe_socket_dir`` names its folder, as seen from
    Dovecot's ``base_dir``.
    """

    trusted_users: Annotated[tuple[SystemUser, ...], Strict(False)] = ()
    """The system users who may say whose mail they report, by name or number: the one that owns the mail of
    virtual users, such as ``vmail``. Root and the user of nbstream always may. Any other one reports for itself.
    """

    spool_max_bytes: ByteCount = 1 << 30
    """The bytes of the spool on the disk, in ``state_dir``. A message beyond that is refused. It must be at least
    ``limits.max_message_bytes`` and 16 MiB more, for what was learned and is not removed yet. What was set aside
    because it cannot be learned may have as many bytes again.
    """


class ListenersSettings(Section):
    """The listeners. None stands for one that is closed."""

    smtp: SmtpListenerSettings | None = SmtpListenerSettings()
    """Mail comes in here. The mail server passes each message on to this listener and gets the answer of the next
    hop back.
    """

    http: HttpListenerSettings | None = HttpListenerSettings()
    """Checks and lessons over HTTP, by the API of nbstream (``/v1/``) and by the API of rspamd (``/checkv2``,
    ``/learnspam`` and others); metrics for Prometheus (``/metrics``) and health for a supervisor (``/healthz``,
    ``/readyz``); and a page for administrators (``/ui/``), which asks everybody to log in.
    """

    metrics: MetricsListenerSettings | None = None
    """``/metrics`` alone, without a password, for a scraper on another machine."""

    spamd: SpamdListenerSettings | None = None
    """The protocol of SpamAssassin's server, for spamc, Exim's ``spam =`` and others."""

    lmtp: LmtpListenerSettings | None = None
    """Mail comes in here by LMTP, in place of SMTP: each recipient of a message gets an answer of its own."""

    milter: MilterListenerSettings | None = None
    """The milter protocol, for Postfix (``smtpd_milters``, ``non_smtpd_milters``), Sendmail and others."""

    stream: StreamListenerSettings | None = None
    """Programs add entries to the stream ``nbstream:{MODEL}:in`` in Redis and read the answers in
    ``nbstream:{MODEL}:out``.
    """

    dovecot: DovecotListenerSettings | None = None
    """Dovecot's Sieve scripts hand over what people move to Junk, and out of it. Nobody waits until it is learned.
    """

    @property
    def warnings(self) -> list[str]:
        """One sentence for each certificate that nobody is offered."""
        return [
            f"listeners.{name}.tls is off, so that nobody is offered the certificate in tls_cert_file: with may, "
            "clients can use it"
            for name, listener in (("smtp", self.smtp), ("lmtp", self.lmtp))
            if listener and listener.tls_cert_file and listener.tls == "off"
        ]

    @property
    def listen_addresses(self) -> list[tuple[str, TcpAddress | UnixAddress]]:
        """The names of the listeners that have an address and are not closed, with their addresses."""
        listeners = ((name, getattr(self, name)) for name in type(self).model_fields)
        return [(name, listener.listen) for name, listener in listeners if hasattr(listener, "listen")]
