"""Who is at the other end of a connection: a peer on this machine, or one with an address in some network."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer by its IP address; a text that is no address stands for one that is not known.

    ``address`` is None for a peer without one: it came over a unix socket or a stream, and the permissions of
    these have let it in.
    """

    address: str | None = None

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the peer runs on this machine."""
        if self.address is None:
            return True
        address = _parse_address(self.address)
        return address is not None and address.is_loopback

    def is_in_networks(self, networks: Iterable[Network]) -> bool:
        """Return whether the address of the peer is in one of the networks; a peer without one is in none."""
        address = None if self.address is None else _parse_address(self.address)
        return address is not None and any(address in network for network in networks)

    def __str__(self) -> str:
        return "local" if self.address is None else self.address


@lru_cache(maxsize=256)  # each message of a connection needs it
def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a peer's address, IPv4 also where it was written as IPv6; None for what is no address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
