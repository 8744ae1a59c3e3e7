"""The settings of the doors."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr, ValidationInfo, field_validator

from nbstream.config.section import ByteCount, Count, PasswordFile, Seconds, Section
from nbstream.config.values import (
    DEFAULT_MODE,
    Address,
    UnixAddress,
    read_address,
    read_host_name,
    read_mode,
    read_place,
)

ListenAddress = Annotated[Address, BeforeValidator(read_address)]
ListenPlace = Annotated[Address | UnixAddress, BeforeValidator(read_place)]


class Door(Section):
    """What the doors for programs have in common: where they listen, and who may connect to a unix socket.

    ``socket_group`` is the name of a group that the socket is given to; None leaves it as it is.
    """

    listen: ListenPlace
    socket_mode: Annotated[int, BeforeValidator(read_mode)] = DEFAULT_MODE
    socket_group: Annotated[str, Field(min_length=1, max_length=100)] | None = None


def _room_for_one(value: int, info: ValidationInfo, door: str) -> int:
    # With less, a message of the permitted size would be put off for ever instead of being refused.
    largest = info.data.get("max_message_bytes", 0)
    if value < largest:
        raise ValueError(f"must be at least listeners.{door}.max_message_bytes ({largest})")
    return value


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
        return _room_for_one(value, info, "smtp")


class HttpListener(Section):
    """The HTTP door; beyond loopback only with a password."""

    password_file: PasswordFile | None = None
    listen: ListenAddress = Address("127.0.0.1", 11334)

    @field_validator("listen")
    @classmethod
    def _password_beyond_loopback(cls, value: Address, info: ValidationInfo) -> Address:
        # No entry means that password_file was refused itself: one problem, one line.
        if info.data.get("password_file", "refused") is None and not value.loopback:
            raise ValueError("must be a loopback address, or listeners.http.password_file must be set")
        return value

    @property
    def password(self) -> SecretStr | None:
        """The secret of ``password_file``."""
        return self.password_file.secret if self.password_file else None


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
        return _room_for_one(value, info, "spamd")


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
