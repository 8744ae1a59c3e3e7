"""Whom a request of a browser comes from, and whether a page of this host made it.

Rules: a proxy on this machine names its client in ``X-Forwarded-For``, where the last address is the one that the
proxy itself saw; what stands before it, also in fields of their own, is the client's word. Other peers speak for
themselves. A browser says in ``Sec-Fetch-Site`` or ``Origin`` which site
made a request, and no script can change that; so a request with the cookie of a session, but of another site, is
refused (CSRF). The field ``Host`` proves nothing (DNS rebinding): it is compared with ``Origin`` alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from nbstream.listeners.peers import Peer

_IPV6_SITE_BITS = 64
"""A site has 64 bits of addresses of its own, and may use a new one for each request."""


def client_of(peer: Peer, forwarded_for: Sequence[str]) -> Peer:
    """Return whom the request comes from: the peer, or whom a proxy on this machine names.

    ``forwarded_for`` are the values of all fields ``X-Forwarded-For``, in their order.
    """
    if not peer.is_on_this_machine:
        return peer
    address = _parse_address(",".join(forwarded_for).rpartition(",")[2].strip())
    return Peer(str(address)) if address else peer  # without a zone, which may be any text


def failure_sources(peer: Peer, client: Peer) -> Mapping[str, int]:
    """Return how many failures a minute are let through, by what they are counted for.

    A client has ten. All clients that one proxy names have a hundred together, since it could name anybody.
    """
    sources = {_source(client): 10}
    if client != peer:
        sources[f"{_source(peer)} as proxy"] = 100
    return sources


def may_ask(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether such a request is answered at all.

    A POST must be of a page of this host. Whoever follows a link from elsewhere, or types an address, may read;
    the scripts and pictures of another site may not.
    """
    is_own = _is_of_this_host(headers)
    if method == "POST":
        return is_own is True
    is_of_person = headers.get("Sec-Fetch-Mode") == "navigate" or headers.get("Sec-Fetch-Site") == "none"
    return is_own is not False or is_of_person


def _is_of_this_host(headers: Mapping[str, str]) -> bool | None:
    """Return whether a page of this host made the request; None where the browser says nothing of it."""
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("Origin")
    if origin is None:
        return None
    try:
        return urlsplit(origin).netloc.lower() == headers.get("Host", "").lower() != ""
    except ValueError:
        return False


def _source(client: Peer) -> str:
    address = _parse_address(client.address or "")
    if address is None:
        return str(client)[:64]
    if isinstance(address, ipaddress.IPv6Address) and not address.ipv4_mapped:
        return str(ipaddress.ip_network((address, _IPV6_SITE_BITS), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
