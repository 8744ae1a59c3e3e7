"""The addresses of sockets: TCP, or a unix socket with its permissions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import ClassVar, TypeAlias

DEFAULT_SOCKET_MODE = 0o660

_ANY_HOST = {"0.0.0.0", "::"}  # noqa: S104 - recognised here, not listened on


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host (name, IPv4 or IPv6 without brackets) and a TCP port; port 0 lets the system choose one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def overlaps(self, other: TcpAddress | UnixAddress) -> bool:
        """Return whether no two sockets can listen at both addresses.

        Names other than ``localhost`` are compared as they are written: nothing is resolved here. IPv6 sockets
        take no IPv4 connections (IPV6_V6ONLY), so ``[::]`` does not overlap with IPv4 addresses.
        """
        if not isinstance(other, TcpAddress) or self.port != other.port or self.port == 0:
            return False
        return any(_hosts_overlap(host, other_host) for host in self._hosts for other_host in other._hosts)

    def is_reached_at(self, target: TcpAddress | UnixAddress) -> bool:
        """Return whether a client on this machine may reach a socket that listens here at ``target``."""
        if not isinstance(target, TcpAddress) or self.port != target.port or not target.is_loopback:
            return False
        return self.is_loopback or self.host in _ANY_HOST

    @property
    def _hosts(self) -> list[IPv4Address | IPv6Address | str]:
        """The host as an address or a name in small letters; ``localhost`` may be either loopback address."""
        name = self.host.lower()
        if name == "localhost":
            return [IPv4Address("127.0.0.1"), IPv6Address("::1")]
        with suppress(ValueError):
            return [ip_address(name)]
        return [name]

    @property
    def is_loopback(self) -> bool:
        """True when only this machine can reach it: 127.0.0.0/8, ::1 or ``localhost`` (RFC 6761 6.3)."""
        if self.host.lower() == "localhost":
            return True
        try:
            return (IPv6Address if ":" in self.host else IPv4Address)(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A unix socket at an absolute path, its permissions, and the name of its group; None leaves the group."""

    path: Path
    mode: int = DEFAULT_SOCKET_MODE
    group: str | None = None

    is_loopback: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"unix:{self.path}"

    def overlaps(self, other: TcpAddress | UnixAddress) -> bool:
        """Return whether no two sockets can listen at both addresses."""
        return isinstance(other, UnixAddress) and self.path == other.path

    def is_reached_at(self, target: TcpAddress | UnixAddress) -> bool:
        """Return whether a client on this machine may reach a socket that listens here at ``target``."""
        return self.overlaps(target)


def _hosts_overlap(one: IPv4Address | IPv6Address | str, other: IPv4Address | IPv6Address | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return one == other or (one.version == other.version and (one.is_unspecified or other.is_unspecified))


ListenAddress: TypeAlias = TcpAddress | UnixAddress
