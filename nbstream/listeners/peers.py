"""Where a peer is: in a network that the configuration names, or on this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_in_networks(host: str, networks: Iterable[Network]) -> bool:
    """True when this peer (an IP address) is in one of the networks."""
    address = _parse_address(host)
    return address is not None and any(address in network for network in networks)


def is_on_this_machine(host: str) -> bool:
    """True when this peer (an IP address) runs on this machine."""
    address = _parse_address(host)
    return address is not None and address.is_loopback


@lru_cache(maxsize=256)  # asked for each message of a connection
def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """A peer's address, IPv4 also where it was written as IPv6; None for what is none."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
