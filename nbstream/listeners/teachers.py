"""Whose feedback is believed: one rule for all protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.listeners.peers import Network, Peer


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
