"""The addresses of listeners in a configuration file: hosts, ports, unix sockets and their permissions.

Rules: as in ``values``, each reader takes the value that YAML gave, or one that is already of its type. A refusal
is a ValueError whose text says what is allowed.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from nbstream.config.paths import read_path

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>[0-9]{1,5})")
# Underscores are no part of host names (RFC 1123 2.1), but container networks give such names.
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_ANY_HOST = {"0.0.0.0", "::"}  # noqa: S104 - recognised here, not listened on
_ALLOWED_ADDRESS = "must be HOST:PORT or [IPV6]:PORT, the port from 0 to 65535"
MAX_SOCKET_PATH = 99  # unix(7) allows 107, and a socket is first made under a name that may be eight bytes longer
DEFAULT_SOCKET_MODE = 0o660


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
    """A unix socket at an absolute path."""

    path: Path

    is_loopback = True

    def __str__(self) -> str:
        return f"unix:{self.path}"

    def overlaps(self, other: TcpAddress | UnixAddress) -> bool:
        """Return whether no two sockets can listen at both addresses."""
        return self == other

    def is_reached_at(self, target: TcpAddress | UnixAddress) -> bool:
        """Return whether a client on this machine may reach a socket that listens here at ``target``."""
        return self == target


def _hosts_overlap(one: IPv4Address | IPv6Address | str, other: IPv4Address | IPv6Address | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return one == other or (one.version == other.version and (one.is_unspecified or other.is_unspecified))


def read_address(value: object) -> TcpAddress:
    """Read ``HOST:PORT`` or ``[IPV6]:PORT``, with a port from 0 to 65535."""
    if isinstance(value, TcpAddress):
        return value
    parts = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if parts is None or int(parts["port"]) > 65535 or not _is_host(parts):
        raise ValueError(_ALLOWED_ADDRESS)
    return TcpAddress(parts["v6"] or parts["host"], int(parts["port"]))


def _is_host(parts: re.Match[str]) -> bool:
    if parts["v6"]:
        return _is_ip(parts["v6"], IPv6Address)
    # A name whose last label is a number can only be a mistyped IPv4 address (RFC 3696 2).
    if parts["host"].rpartition(".")[2].isdecimal():
        return _is_ip(parts["host"], IPv4Address)
    return _HOST.fullmatch(parts["host"]) is not None


def _is_ip(text: str, kind: type[IPv4Address | IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def read_listen_address(value: object) -> TcpAddress | UnixAddress:
    """Read ``HOST:PORT`` or ``[IPV6]:PORT``, with a port from 0 to 65535, or ``unix:/PATH``."""
    if isinstance(value, UnixAddress):
        return value
    if not isinstance(value, str) or not value.startswith("unix:"):
        return read_address(value)
    path = read_path(value.removeprefix("unix:") or None)
    # A longer path does not fit into the address of a unix socket (unix(7)).
    if not path.is_absolute() or len(bytes(path)) > MAX_SOCKET_PATH:
        raise ValueError(f"must be unix:/PATH, the path absolute and of at most {MAX_SOCKET_PATH} bytes")
    return UnixAddress(path)


def read_unix_address(value: object) -> UnixAddress:
    """Read ``unix:/PATH``."""
    if not isinstance(value, UnixAddress) and not str(value).startswith("unix:"):
        raise ValueError("must be unix:/PATH, since it is a unix socket in any case")
    address = read_listen_address(value)
    assert isinstance(address, UnixAddress)
    return address


def read_socket_mode(value: object) -> int:
    """Read permissions in quotes, such as ``"0660"``. Without quotes YAML may read a decimal number."""
    if isinstance(value, int) and not isinstance(value, bool) and value == DEFAULT_SOCKET_MODE:
        return value
    if not isinstance(value, str) or not re.fullmatch(r"0?[0-7]{3}", value):
        raise ValueError('must be permissions in quotes, such as "0660"')
    return int(value, 8)


def read_host_name(value: object) -> str:
    """Read a host name such as ``mx.example.org``, fully qualified or short."""
    if not isinstance(value, str) or _HOST.fullmatch(value) is None:
        raise ValueError("must be a host name such as mx.example.org")
    return value


def read_server_name(value: object) -> str:
    """Read the name of a server as its certificate has it: a host name, or an IP address without brackets."""
    with suppress(ValueError):
        return str(ip_address(value)) if isinstance(value, str) else read_host_name(value)
    return read_host_name(value)
