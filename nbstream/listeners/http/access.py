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

from nbstream.listeners.peers import Network, is_here, within

Fields: TypeAlias = Sequence[tuple[str, str]]
"""Header fields as names and values, repeated ones too."""

_PORT = re.compile(r":[0-9]*\Z")
_SECRETS = frozenset({"password", "authorization"})
_FORWARDING = frozenset({"x-forwarded-for", "x-real-ip"})


@dataclass(frozen=True, slots=True)
class Access:
    """The passwords (None: none is set) and the networks of peers that need none.

    ``teachers`` gives the networks whose feedback is believed, as they are now.
    """

    password: str | None = None
    write_password: str | None = None
    allow_from: Sequence[Network] = ()
    teachers: Callable[[], Sequence[Network]] = tuple

    def reads(self, peer: str | None, fields: Fields) -> bool:
        """Whether a request with these header fields may read and check; ``peer`` is None on a unix socket."""
        return self._within(peer, fields, self.allow_from) or _given(fields, self.password, self.write_password)

    def teaches(self, peer: str | None, fields: Fields) -> bool:
        """Whether it may teach."""
        if self._within(peer, fields, self.allow_from) and self._within(peer, fields, self.teachers()):
            return True
        return _given(fields, self.password if self.write_password is None else self.write_password)

    @staticmethod
    def _within(peer: str | None, fields: Fields, networks: Sequence[Network]) -> bool:
        """Whether the peer and all for whom it speaks are in these networks; the mode of a unix socket lets in."""
        if peer is not None and is_here(peer) and _has_public_name(fields):
            return False
        addresses = [*([] if peer is None else [peer]), *_forwarded(fields)]
        return all(within(address, networks) for address in addresses)


def offers_secret(fields: Fields) -> bool:
    """Whether a password was given, right or wrong."""
    return any(name.lower() in _SECRETS for name, _ in fields)


def _has_public_name(fields: Fields) -> bool:
    """Whether the name that was asked is one of the internet: neither an address nor a single word."""
    return any(_is_public(value) for name, value in fields if name.lower() == "host")


@lru_cache(maxsize=128)  # asked for each request; a name has 8 kB at most
def _is_public(name: str) -> bool:
    """Whether a name with or without a port is one of the internet."""
    host = _PORT.sub("", name)
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return "." in host.rstrip(".").removesuffix(".localhost")
    return False


def _forwarded(fields: Fields) -> Iterator[str]:
    for name, value in fields:
        if name.lower() == "forwarded":  # RFC 7239, whose values may be names
            yield ""
        elif name.lower() in _FORWARDING:
            yield from (each.strip() for each in value.split(","))


def _given(fields: Fields, *secrets: str | None) -> bool:
    """Whether one of the secrets was given; each is compared, whatever the others say."""
    found = [_secret(name.lower(), value) for name, value in fields if name.lower() in _SECRETS]
    return (
        sum(
            hmac.compare_digest(each.encode("utf-8", "surrogateescape"), secret.encode())
            for each in found
            for secret in secrets
            if secret is not None
        )
        > 0
    )


def _secret(name: str, value: str) -> str:
    if name == "password":
        return value
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
