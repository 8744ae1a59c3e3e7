"""Who may do what at the HTTP listener, on two levels: to read (and check), and to teach.

Rules: they are those of rspamd's controller. A peer on a unix socket, or in ``allow_from``, needs no password; a
peer that teaches over TCP must be in ``feedback.allow_from`` too. A proxy forwards requests of others: every
address in its forwarding fields must be allowed as well. All other peers need the password of the level; the
password for teaching is valid for both levels. A request from this machine to a public host name needs a password
too: the owner of the name may have pointed it to this machine, which makes a web page's requests to its own host
arrive here (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from nbstream.listeners.http.page.requests import Role
from nbstream.listeners.http.password_check import PasswordCheck
from nbstream.listeners.http.passwords import Passwords
from nbstream.listeners.peers import Network, Peer
from nbstream.listeners.teachers import Teachers

HeaderFields: TypeAlias = Sequence[tuple[str, str]]
"""Header fields as names and values, repeated ones too."""

_PORT_SUFFIX = re.compile(r":[0-9]*\Z")
_FORWARDING_FIELDS = frozenset({"x-forwarded-for", "x-real-ip"})
_ORIGIN_FIELDS = frozenset({"host", "forwarded", *_FORWARDING_FIELDS})


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """The passwords, and the networks of peers that need none.

    ``teachers`` returns the peers that may teach now.
    """

    passwords: PasswordCheck = field(default_factory=lambda: PasswordCheck(Passwords()))
    allow_from: Sequence[Network] = ()
    teachers: Callable[[], Teachers] = Teachers

    def role_without_password(self, peer: Peer, fields: HeaderFields) -> Role | None:
        """Return what a request with these header fields may do without a password, None for nothing."""
        if not self.needs_no_password(peer, fields):
            return None
        teachers = self.teachers()
        return Role.TEACH if all(map(teachers.may_teach, _requesters(peer, fields))) else Role.READ

    def needs_no_password(self, peer: Peer, fields: HeaderFields) -> bool:
        """Return whether the peer and all whose requests it forwards may read without a password.

        It depends on nothing but the peer and ``origin_fields``. A peer on a unix socket was let in by the
        permissions of the socket.
        """
        if peer.address is not None and peer.is_on_this_machine and has_public_name(fields):
            return False
        return all(
            requester.address is None or requester.is_in_networks(self.allow_from)
            for requester in _requesters(peer, fields)
        )


def origin_fields(fields: Iterable[tuple[str, str]]) -> HeaderFields:
    """Return those of the header fields that say where a request comes from and whom it is for; no secret."""
    return [field for field in fields if field[0].lower() in _ORIGIN_FIELDS]


def offered_passwords(fields: HeaderFields) -> set[str]:
    """Return the passwords that the request offers, right or wrong; other schemes of authorization are none."""
    offered = set()
    for name, value in fields:
        if name.lower() == "password":
            offered.add(value)
        elif name.lower() == "authorization":
            scheme, _, token = value.partition(" ")
            if scheme.lower() == "bearer":
                offered.add(token.strip())
    return offered


def is_forwarded(fields: HeaderFields) -> bool:
    """Return whether somebody forwards the request for another one."""
    return next(_forwarded_addresses(fields), None) is not None


def has_public_name(fields: HeaderFields) -> bool:
    """Return whether the field Host has a public name, which is neither an address nor a single word."""
    return any(_is_public_name(value) for name, value in fields if name.lower() == "host")


@lru_cache(maxsize=128)  # called for each request; a name has 8 kB at most
def _is_public_name(name: str) -> bool:
    """Return whether this host name, with or without a port, is a public one."""
    host = _PORT_SUFFIX.sub("", name)
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return "." in host.rstrip(".").removesuffix(".localhost")
    return False


def _requesters(peer: Peer, fields: HeaderFields) -> Iterator[Peer]:
    """Yield the peer, and all that its forwarding fields name."""
    yield peer
    yield from map(Peer, _forwarded_addresses(fields))


def _forwarded_addresses(fields: HeaderFields) -> Iterator[str]:
    for name, value in fields:
        if name.lower() == "forwarded":  # RFC 7239, whose values may be names
            yield ""
        elif name.lower() in _FORWARDING_FIELDS:
            yield from map(str.strip, value.split(","))
