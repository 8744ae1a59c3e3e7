"""Who is at the other end of a connection, and whose feedback is believed: one rule for all protocols."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

_UNPRINTABLE = re.compile(r"[^!-~]")
_MAX_USER_LENGTH = 100

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


@dataclass(frozen=True, slots=True)
class Teachers:
    """The peers that may teach: those in one of ``networks``, and those without an address.

    Whoever may open a unix socket, or may write to a stream in Redis, was let in by its permissions. With
    ``checks_forwarded`` a client that a mail server names has to be in the networks too.
    """

    networks: Sequence[Network] = ()
    checks_forwarded: bool = False

    def may_teach(self, peer: Peer) -> bool:
        """Return whether the feedback of the peer is believed."""
        return peer.address is None or peer.is_in_networks(self.networks)

    def may_teach_for(self, peer: Peer, client: Peer | None) -> bool:
        """Return whether the feedback of the peer is believed, which it passes on for ``client``.

        None is no client: the peer speaks for itself. A client of unknown address has no right.
        """
        if not self.may_teach(peer):
            return False
        return client is None or not self.checks_forwarded or client.is_in_networks(self.networks)


def printable_user(raw: bytes) -> str:
    """Return the user whom a client names, in printable ASCII with ``?`` for all else, at most 100 characters."""
    return _UNPRINTABLE.sub("?", raw.decode("utf-8", "replace"))[:_MAX_USER_LENGTH]
