"""Whom a request comes from, and for whom its wrong passwords are counted.

Rules: a proxy on this machine, or in ``allow_from``, names its client in ``X-Forwarded-For``: the last address
there is the one that the proxy itself saw. What stands before it, also in fields of their own, the client may
have written. Other peers speak for themselves. Who may be a proxy may lie and name anybody, so there is a limit
for all the clients of one together. What a proxy or a web page asks for is never counted for the programs of its
own machine: nobody elsewhere can lock them out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from nbstream.listeners.http.access import HeaderFields, has_public_name, is_forwarded
from nbstream.listeners.peers import Network, Peer

_MAX_FAILURES = 10
_MAX_FAILURES_OF_PROXY = 100
_IPV6_SITE_BITS = 64
"""A site has 64 bits of addresses of its own, and may use a new one for each request."""


def client_of(peer: Peer, fields: HeaderFields, allow_from: Sequence[Network]) -> Peer:
    """Return whom a request with these fields comes from: the peer, or whom it names as a proxy."""
    if not _may_be_proxy(peer, allow_from):
        return peer
    named = ",".join(value for name, value in fields if name.lower() == "x-forwarded-for")
    address = _parse_address(named.rpartition(",")[2].strip())
    return Peer(str(address)) if address else peer  # without a zone, which may be any text


def failure_sources(peer: Peer, fields: HeaderFields, allow_from: Sequence[Network]) -> Mapping[str, int]:
    """Return for whom a wrong password is counted, the client first, and how many a minute each may give."""
    client = client_of(peer, fields, allow_from)
    is_of_another = is_forwarded(fields) or (peer.is_on_this_machine and has_public_name(fields))
    if not is_of_another or not _may_be_proxy(peer, allow_from):
        return {_source(client): _MAX_FAILURES}
    proxy = f"{_source(peer)} as proxy"
    named = f"{proxy} of nobody" if client == peer or client.is_on_this_machine else _source(client)
    return {named: _MAX_FAILURES, proxy: _MAX_FAILURES_OF_PROXY}


def _may_be_proxy(peer: Peer, allow_from: Sequence[Network]) -> bool:
    return peer.is_on_this_machine or peer.is_in_networks(allow_from)


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
