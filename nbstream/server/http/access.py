"""Who may do what at the HTTP listener, on two levels: to read (and check), and to teach.

Rules: they are those of rspamd's controller. A peer on a unix socket, or in ``allow_from``, needs no password; a
peer that teaches over TCP must be in ``feedback.allow_from`` too. A proxy forwards requests of others: every
address in its forwarding fields must be allowed as well. All other peers need the password of the level; the
password for teaching is valid for both levels. A request from this machine to a public host name needs a password
too: the owner of the name may have pointed it to this machine, which makes a web page's requests to its own host
arrive here (DNS rebinding).

Wrong passwords are limited, at the APIs and at the login of the page, by one rule and with the same counts. Each
of those for whom a wrong password is counted may give so many a minute. Then no password of theirs is compared for
the rest of that minute: a right one is refused like a wrong one, or guessing would go on. A right password waits
for nothing, as no check waits for Redis: this process judges it by what it knows. A wrong one is counted here at
once, and then in Redis, whose answer tells of the other processes. While Redis is away, each process counts for
itself. A client that has given a right password lately is not kept waiting by the other clients of its proxy.

Whom a request comes from: a proxy on this machine, or in ``allow_from``, names its client in ``X-Forwarded-For``:
the last address there is the one that the proxy itself saw. What stands before it, also in fields of their own,
the client may have written. Other peers speak for themselves. Who may be a proxy may lie and name anybody, so
there is a limit for all the clients of one together. What a proxy or a web page asks for is never counted for the
programs of its own machine: nobody elsewhere can lock them out.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from nbstream.errors import StoreUnavailable
from nbstream.server.connections import Network, Peer, Teachers
from nbstream.store.logins import COUNTED_SECONDS

if TYPE_CHECKING:
    from nbstream.store.logins import AttemptCounts


HeaderFields: TypeAlias = Sequence[tuple[str, str]]
"""Header fields as names and values, repeated ones too."""

_PORT_SUFFIX = re.compile(r":[0-9]*\Z")
_FORWARDING_FIELDS = frozenset({"x-forwarded-for", "x-real-ip"})
_ORIGIN_FIELDS = frozenset({"host", "forwarded", *_FORWARDING_FIELDS})


class Role(StrEnum):
    """What somebody may do: read, or also teach and release."""

    READ = "read"
    TEACH = "teach"

    def includes(self, needed: Role) -> bool:
        """Return whether this role may do what ``needed`` may."""
        return self is Role.TEACH or needed is Role.READ


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """The passwords, and the networks of peers that need none.

    ``teachers`` returns the peers that may teach now.
    """

    passwords: PasswordCheck = field(default_factory=lambda: PasswordCheck(Passwords()))
    allow_from: Sequence[Network] = ()
    teachers: Callable[[], Teachers] = Teachers

    def role_without_password(self, peer: Peer, fields: HeaderFields) -> Role | None:
        """Return what a request with these header fields may do without a password, None for nothing.

        To read, the peer and all whose requests it forwards must be allowed: that depends on nothing but the peer
        and ``origin_fields``. A peer on a unix socket was let in by the permissions of the socket.
        """
        involved = list(requesters(peer, fields))
        if peer.address is not None and peer.is_on_this_machine and has_public_name(fields):
            return None
        if not all(one.address is None or one.is_in_networks(self.allow_from) for one in involved):
            return None
        return Role.TEACH if all(map(self.teachers().may_teach, involved)) else Role.READ


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


def requesters(peer: Peer, fields: Iterable[tuple[str, str]]) -> Iterator[Peer]:
    """Yield the peer, and all that its forwarding fields name."""
    yield peer
    yield from map(Peer, _forwarded_addresses(fields))


def _forwarded_addresses(fields: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in fields:
        field_name = name.lower()
        if field_name == "forwarded":  # RFC 7239, whose values may be names
            yield ""
        elif field_name in _FORWARDING_FIELDS:
            yield from map(str.strip, value.split(","))


@dataclass(frozen=True, slots=True)
class Passwords:
    """The passwords of the listener, None where there is none.

    ``teach`` gives both roles; without it, ``read`` does.
    """

    read: str | None = field(default=None, repr=False)
    teach: str | None = field(default=None, repr=False)

    @property
    def any(self) -> bool:
        """Whether there is a password."""
        return self.read is not None or self.teach is not None

    def role_of(self, offered: str) -> Role | None:
        """Return the role that a password gives; all passwords are compared, even after a match."""
        is_read = self.read is not None and is_equal(offered, self.read)
        is_teach = self.teach is not None and is_equal(offered, self.teach)
        if is_teach or (is_read and self.teach is None):
            return Role.TEACH
        return Role.READ if is_read else None

    def of_role(self, role: Role) -> str | None:
        """Return the password that gives this role and no other one; None where there is none."""
        if role is Role.TEACH:
            return self.read if self.teach is None else self.teach
        return None if self.teach is None else self.read


def is_equal(offered: str, secret: str) -> bool:
    """Return whether the texts are equal, in a time that tells nothing of where they differ."""
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), secret.encode())


_Value = TypeVar("_Value")

MAX_SOURCES = 10_000
"""The sources that a process remembers, the last ones: in 4 MB, with those that have given a right password."""

_SHARE_SECONDS = 1.0  # for Redis to count a wrong password
_PROVEN_SECONDS = 3600.0


class TooManyFailures(Exception):
    """No password of this client is looked at for the rest of the minute."""


@dataclass(frozen=True, slots=True)
class _Failures:
    """Some failures, which are forgotten at ``ends_at`` of the monotonic clock."""

    count: int
    ends_at: float


class FailureCounts:
    """The failures of the last minute by source, and the clients that have given a right password lately.

    ``shared`` counts for all processes; None where there is one only. The ``sources`` of a client are a mapping
    from each source to how many failures a minute it may have; the client itself comes first.
    """

    def __init__(self, shared: AttemptCounts | None = None) -> None:
        self._shared = shared
        self._failures: OrderedDict[str, _Failures] = OrderedDict()
        self._proven: OrderedDict[str, float] = OrderedDict()

    def require_room(self, sources: Mapping[str, int]) -> None:
        """Raise ``TooManyFailures`` where a source has as many failures as it may have."""
        if any(self._count(source) >= limit for source, limit in self._limits(sources).items()):
            raise TooManyFailures

    def succeed(self, sources: Mapping[str, int]) -> None:
        """Note that the client has given a right password."""
        _remember(self._proven, next(iter(sources)), time.monotonic() + _PROVEN_SECONDS)

    def add(self, sources: Mapping[str, int]) -> None:
        """Count a failure in this process."""
        for source in sources:
            count = self._count(source)
            ends_at = self._failures[source].ends_at if count else time.monotonic() + COUNTED_SECONDS
            _remember(self._failures, source, _Failures(count + 1, ends_at))

    def take_back(self, sources: Mapping[str, int]) -> None:
        """Take back a failure that was counted before it was known whether it is one."""
        for source in sources:
            if count := self._count(source):
                _remember(self._failures, source, replace(self._failures[source], count=count - 1))

    async def share(self, sources: Mapping[str, int]) -> None:
        """Count a failure for all processes, and take over what they have counted, unless Redis is away.

        Raises ``TooManyFailures`` where a source has more of them than it may have.
        """
        if self._shared is not None:
            await self._take_over(self._shared, sources)
        if any(self._count(source) > limit for source, limit in self._limits(sources).items()):
            raise TooManyFailures

    def _limits(self, sources: Mapping[str, int]) -> Mapping[str, int]:
        """Return the limits that hold for a client, whom others do not keep waiting where it is proven."""
        client = next(iter(sources))
        is_proven = time.monotonic() < self._proven.get(client, 0.0)
        return {client: sources[client]} if is_proven else sources

    def _count(self, source: str) -> int:
        failures = self._failures.get(source)
        return failures.count if failures and time.monotonic() < failures.ends_at else 0

    async def _take_over(self, counts_of_all: AttemptCounts, sources: Iterable[str]) -> None:
        try:
            async with asyncio.timeout(_SHARE_SECONDS):
                counts = await counts_of_all.add(sources)
        except (StoreUnavailable, TimeoutError):
            return
        for source, shared in zip(sources, counts, strict=True):
            if shared.count >= self._count(source):
                _remember(self._failures, source, _Failures(shared.count, time.monotonic() + shared.seconds))


class PasswordCheck:
    """Compares passwords with those of the listener, and knows the failures of the last minute.

    ``shared`` counts for all processes; None where there is one only.
    """

    def __init__(self, passwords: Passwords, shared: AttemptCounts | None = None) -> None:
        self.passwords = passwords
        self._failures = FailureCounts(shared)

    async def role_of(self, offered: Collection[str], sources: Mapping[str, int]) -> Role | None:
        """Return the role that the one password in ``offered`` gives; None for a wrong one, which is counted.

        Several passwords are wrong: they would be so many guesses for one. ``sources`` are those of
        ``failure_sources``. Raises ``TooManyFailures``.
        """
        failures = self._failures
        failures.require_room(sources)
        role = self.passwords.role_of(*offered) if len(offered) == 1 else None
        if role is not None:
            failures.succeed(sources)
            return role
        failures.add(sources)  # before anything is waited for: of attempts at the same time only so many pass
        await failures.share(sources)
        return None


def _remember(known: OrderedDict[str, _Value], source: str, value: _Value) -> None:
    known[source] = value
    known.move_to_end(source)
    if len(known) > MAX_SOURCES:
        known.popitem(last=False)


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
    is_forwarded = next(_forwarded_addresses(fields), None) is not None
    is_of_another = is_forwarded or (peer.is_on_this_machine and has_public_name(fields))
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
