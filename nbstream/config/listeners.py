"""The settings of the doors."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr, Strict, ValidationInfo, field_validator

from nbstream.config.addresses import (
    DEFAULT_MODE,
    Address,
    UnixAddress,
    read_address,
    read_host_name,
    read_mode,
    read_place,
)
from nbstream.config.section import ByteCount, Count, PasswordFile, Seconds, Section
from nbstream.config.values import Network, SecretFile, read_network

ListenAddress = Annotated[Address, BeforeValidator(read_address)]
ListenPlace = Annotated[Address | UnixAddress, BeforeValidator(read_place)]
SocketMode = Annotated[int, BeforeValidator(read_mode)]
SocketGroup = Annotated[str, Field(min_length=1, max_length=100)]
Networks = Annotated[tuple[Annotated[Network, BeforeValidator(read_network)], ...], Strict(False)]


def room_for_one(value: int, info: ValidationInfo, door: str) -> int:
    """Bytes in flight, if they are enough for one message.

    With less, a message of the permitted size would be put off for ever instead of being refused.
    """
    largest = info.data.get("max_message_bytes", 0)
    if value < largest:
        raise ValueError(f"must be at least listeners.{door}.max_message_bytes ({largest})")
    return value


class Door(Section):
    """What the doors for programs have in common: where they listen, and who may connect to a unix socket.

    ``socket_group`` is the name of a group that the socket is given to; None leaves it as it is.
    """

    listen: ListenPlace
    socket_mode: SocketMode = DEFAULT_MODE
    socket_group: SocketGroup | None = None


class SmtpListener(Section):
    """The SMTP door and its bounds."""

    listen: ListenAddress = Address("127.0.0.1", 10025)
    max_message_bytes: ByteCount = 50 << 20
    hostname: Annotated[str, BeforeValidator(read_host_name)] | None = None
    idle_timeout_seconds: Seconds = 300
    max_connections: Count = 200
    max_bytes_in_flight: ByteCount = 256 << 20
    max_recipients: Count = 1000

    @field_validator("max_bytes_in_flight")
    @classmethod
    def _room_for_one(cls, value: int, info: ValidationInfo) -> int:
        return room_for_one(value, info, "smtp")


class HttpListener(Section):
    """The HTTP door; beyond this machine only with a password.

    ``write_password_file`` is for teaching, ``password_file`` then for all else; ``allow_from`` are the networks
    whose peers need neither.
    """

    password_file: PasswordFile | None = None
    listen: ListenPlace = Address("127.0.0.1", 11334)
    socket_mode: SocketMode = DEFAULT_MODE
    socket_group: SocketGroup | None = None
    write_password_file: PasswordFile | None = None
    allow_from: Networks = (read_network("127.0.0.0/8"), read_network("::1/128"))
    max_message_bytes: ByteCount = 50 << 20
    max_connections: Count = 200
    max_bytes_in_flight: ByteCount = 256 << 20
    request_timeout_seconds: Seconds = 60

    @field_validator("listen")
    @classmethod
    def _password_beyond_loopback(
        cls, value: Address | UnixAddress, info: ValidationInfo
    ) -> Address | UnixAddress:
        # No entry means that password_file was refused itself: one problem, one line.
        if info.data.get("password_file", "refused") is None and not value.loopback:
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
    def _two_levels(cls, value: SecretFile | None, info: ValidationInfo) -> SecretFile | None:
        # Without a password for reading, this one would be asked for by nobody who reads beyond loopback.
        if value and info.data.get("password_file", "refused") is None:
            raise ValueError("must be left out where listeners.http.password_file is")
        return value

    @field_validator("max_bytes_in_flight")
    @classmethod
    def _room_for_one(cls, value: int, info: ValidationInfo) -> int:
        return room_for_one(value, info, "http")


class SpamdListener(Door):
    """The door for clients of SpamAssassin's server, and its bounds."""

    listen: ListenPlace = Address("127.0.0.1", 1783)
    max_message_bytes: ByteCount = 50 << 20
    idle_timeout_seconds: Seconds = 300
    max_connections: Count = 200
    max_bytes_in_flight: ByteCount = 256 << 20

    @field_validator("max_bytes_in_flight")
    @classmethod
    def _room_for_one(cls, value: int, info: ValidationInfo) -> int:
        return room_for_one(value, info, "spamd")


class MetricsListener(Section):
    """``/metrics`` alone, for a scraper on another host."""

    listen: ListenAddress


class StreamListener(Section):
    """The door for programs that use Redis: it has no address, only bounds.

    ``answers`` and ``dead`` are about how many entries those two streams keep.
    """

    max_message_bytes: ByteCount = 10 << 20
    max_in_flight: Annotated[int, Field(ge=1, le=1000)] = 16
    max_bytes_in_flight: ByteCount = 64 << 20
    claim_seconds: Annotated[float, Field(ge=1, le=86400, allow_inf_nan=False)] = 60
    tries: Annotated[int, Field(ge=1, le=100)] = 3
    answers: Annotated[int, Field(ge=1, le=1_000_000_000)] = 100_000
    dead: Count = 1000


class Listeners(Section):
    """The doors; None is a closed one."""

    smtp: SmtpListener | None = SmtpListener()
    http: HttpListener | None = HttpListener()
    metrics: MetricsListener | None = None
    spamd: SpamdListener | None = None
    stream: StreamListener | None = None
