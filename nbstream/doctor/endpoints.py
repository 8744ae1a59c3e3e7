"""Where programs listen, in one form: so that what two configurations say can be compared. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

from nbstream.addresses import UnixAddress

if TYPE_CHECKING:
    from nbstream.addresses import ListenAddress

LOOPBACK = "loopback"
"""The host of all addresses by which this machine reaches itself."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a port, or the path of a unix socket with port 0."""

    host_or_path: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.host_or_path}:{self.port}" if self.port else f"unix:{self.host_or_path}"


def is_loopback(host: str) -> bool:
    """Whether the host, which may be in brackets, is this machine's address for itself alone."""
    name = host.strip("[]").lower()
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def tcp_endpoint(host: str, port: int) -> Endpoint:
    """Return the endpoint of a host, which may be in brackets; without a host it is every address."""
    name = host.strip("[]").lower()
    is_local = name in {"", "0.0.0.0", "::"} or is_loopback(name)  # noqa: S104 - recognised here, not listened on
    return Endpoint(LOOPBACK if is_local else name, port)


def listener_endpoint(address: ListenAddress) -> Endpoint:
    """Return the endpoint at which a listener is reached from this machine."""
    if isinstance(address, UnixAddress):
        return Endpoint(str(address.path))
    return tcp_endpoint(address.host, address.port)
