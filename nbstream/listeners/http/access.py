"""Who may ask the HTTP door what: two levels, reading (and checking) and teaching.

Rules: as rspamd's controller has it. A peer on a unix socket, or in ``allow_from``, needs no password; one that
teaches over TCP must be in ``feedback.allow_from`` too. A proxy speaks for others: every address in its forwarding
fields must be allowed as well. All other peers need the password of the level; the one for teaching opens both.
Secrets are compared in constant time. A request from this machine to a public name needs one too: whoever owns the
name may have pointed it here, so that a page in a browser asks in its own name (DNS rebinding).
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from nbstream.listeners.peers import Network, Peer
from nbstream.listeners.teachers import Teachers

HeaderFields: TypeAlias = Sequence[tuple[str, str]]
"""Header fields as names and values, repeated ones too."""

_PORT_SUFFIX = re.compile(r":[0-9]*\Z")
_SECRET_FIELDS = frozenset({"password", "authorization"})
_FORWARDING_FIELDS = frozenset({"x-forwarded-for", "x-real-ip"})


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """The passwords (None: none is set) and the networks of peers that need none.

    ``teachers`` gives those who may teach, as they are now.
    """

    password: str | None = None
    write_password: str | None = None
    allow_from: Sequence[Network] = ()
    teachers: Callable[[], Teachers] = Teachers

    def may_read(self, peer: Peer, fields: HeaderFields) -> bool:
        """Whether a request with these header fields may read and check."""
        return self._needs_no_password(peer, fields) or _offers_any_of(fields, self.password, self.write_password)

    def may_teach(self, peer: Peer, fields: HeaderFields) -> bool:
        """Whether it may teach."""
        teachers = self.teachers()
        if self._needs_no_password(peer, fields) and all(map(teachers.may_teach, _speakers(peer, fields))):
            return True
        return _offers_any_of(fields, self.password if self.write_password is None else self.write_password)

    def _needs_no_password(self, peer: Peer, fields: HeaderFields) -> bool:
        """Whether the peer and all for whom it speaks are allowed; the permissions of a unix socket let in."""
        if peer.address is not None and peer.is_on_this_machine and _has_public_name(fields):
            return False
        return all(
            speaker.address is None or speaker.is_in_networks(self.allow_from)
            for speaker in _speakers(peer, fields)
        )


def offers_secret(fields: HeaderFields) -> bool:
    """Whether a password was given, right or wrong."""
    return any(name.lower() in _SECRET_FIELDS for name, _ in fields)


def _has_public_name(fields: HeaderFields) -> bool:
    """Whether the name that was asked is one of the internet: neither an address nor a single word."""
    return any(_is_public_name(value) for name, value in fields if name.lower() == "host")


@lru_cache(maxsize=128)  # asked for each request; a name has 8 kB at most
def _is_public_name(name: str) -> bool:
    """Whether a name with or without a port is one of the internet."""
    host = _PORT_SUFFIX.sub("", name)
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return "." in host.rstrip(".").removesuffix(".localhost")
    return False


def _speakers(peer: Peer, fields: HeaderFields) -> Iterator[Peer]:
    """The peer, and all whom its forwarding fields name."""
    yield peer
    yield from map(Peer, _forwarded_addresses(fields))


def _forwarded_addresses(fields: HeaderFields) -> Iterator[str]:
    for name, value in fields:
        if name.lower() == "forwarded":  # RFC 7239, whose values may be names
            yield ""
        elif name.lower() in _FORWARDING_FIELDS:
            yield from (each.strip() for each in value.split(","))


def _offers_any_of(fields: HeaderFields, *secrets: str | None) -> bool:
    """Whether one of the secrets was given; each is compared, whatever the others say."""
    found = [_offered_secret(name.lower(), value) for name, value in fields if name.lower() in _SECRET_FIELDS]
    return (
        sum(
            hmac.compare_digest(each.encode("utf-8", "surrogateescape"), secret.encode())
            for each in found
            for secret in secrets
            if secret is not None
        )
        > 0
    )


def _offered_secret(name: str, value: str) -> str:
    if name == "password":
        return value
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
