"""The settings of the HTTP listener and of the listener for metrics alone."""

from __future__ import annotations

from pydantic import SecretStr, ValidationInfo, field_validator

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.settings.values import (
    Networks,
    PasswordFile,
    SecretFile,
    Section,
    TcpAddressSetting,
    TcpOrUnixAddressSetting,
    read_network,
)


class HttpListenerSettings(Section):
    """The HTTP listener. Other machines reach it only with a password.

    Where ``write_password_file`` is set, it is for teaching, and ``password_file`` is for all else. Peers in
    ``allow_from`` need neither.
    """

    password_file: PasswordFile | None = None
    """A file with the password of this listener (``Authorization: Bearer`` or ``Password:``), also for the
    page. It must be set if the listener can be reached from other machines.
    """

    listen: TcpOrUnixAddressSetting = TcpAddress("127.0.0.1", 11334)
    """Where the listener accepts connections."""

    write_password_file: PasswordFile | None = None
    """A file with another password, which is needed to teach and may also read. Without it ``password_file`` is
    for both.
    """

    allow_from: Networks = (read_network("127.0.0.0/8"), read_network("::1/128"))
    """The networks whose peers need no password, unless a proxy names another client in ``X-Forwarded-For``. To
    teach over TCP without a password a peer must be in ``feedback.allow_from`` too.
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


class MetricsListenerSettings(Section):
    """A listener for ``/metrics`` alone, for a scraper on another machine."""

    listen: TcpAddressSetting
    """Where the listener accepts connections."""
