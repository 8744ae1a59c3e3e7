"""Wrong passwords are limited: at the APIs and at the login of the page, by one rule and with the same counts.

Rules: each of those for whom a wrong password is counted may give so many a minute. Then no password of theirs is
compared for the rest of that minute: a right one is refused like a wrong one, or guessing would go on. A right
password waits for nothing, as no check waits for Redis: this process judges it by what it knows. A wrong one
is counted here at once, and then in Redis, whose answer tells of the other processes. While Redis is away, each
process counts for itself. A client that has given a right password lately is not kept waiting by the other clients
of its proxy.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from nbstream.errors import StoreUnavailable
from nbstream.store.attempt_counts import COUNTED_SECONDS

if TYPE_CHECKING:
    from nbstream.listeners.http.page.requests import Role
    from nbstream.listeners.http.passwords import Passwords
    from nbstream.store.attempt_counts import AttemptCounts

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


class PasswordCheck:
    """Compares passwords with those of the listener, and knows the failures of the last minute.

    ``shared`` counts for all processes; None where there is one only.
    """

    def __init__(self, passwords: Passwords, shared: AttemptCounts | None = None) -> None:
        self.passwords = passwords
        self._shared = shared
        self._failures: OrderedDict[str, _Failures] = OrderedDict()
        self._proven: OrderedDict[str, float] = OrderedDict()

    async def role_of(self, offered: Collection[str], sources: Mapping[str, int]) -> Role | None:
        """Return the role that the one password in ``offered`` gives; None for a wrong one, which is counted.

        Several passwords are wrong: they would be so many guesses for one. ``sources`` are those of
        ``failure_sources``. Raises ``TooManyFailures``.
        """
        client = next(iter(sources))
        is_proven = time.monotonic() < self._proven.get(client, 0.0)
        limits = {client: sources[client]} if is_proven else sources
        if any(self._count(source) >= limit for source, limit in limits.items()):
            raise TooManyFailures
        role = self.passwords.role_of(*offered) if len(offered) == 1 else None
        if role is not None:
            _remember(self._proven, client, time.monotonic() + _PROVEN_SECONDS)
            return role
        for source in sources:  # before anything is waited for: of attempts at the same time only so many pass
            self._add(source)
        await self._share(sources)
        if any(self._count(source) > limit for source, limit in limits.items()):
            raise TooManyFailures
        return None

    def _count(self, source: str) -> int:
        failures = self._failures.get(source)
        return failures.count if failures and time.monotonic() < failures.ends_at else 0

    def _add(self, source: str) -> None:
        count = self._count(source)
        ends_at = self._failures[source].ends_at if count else time.monotonic() + COUNTED_SECONDS
        _remember(self._failures, source, _Failures(count + 1, ends_at))

    async def _share(self, sources: Iterable[str]) -> None:
        """Count a failure for all processes, and take over what they have counted, unless Redis is away."""
        if self._shared is None:
            return
        try:
            async with asyncio.timeout(_SHARE_SECONDS):
                counts = await self._shared.add(sources)
        except (StoreUnavailable, TimeoutError):
            return
        for source, shared in zip(sources, counts, strict=True):
            if shared.count >= self._count(source):
                _remember(self._failures, source, _Failures(shared.count, time.monotonic() + shared.seconds))


def _remember(known: OrderedDict[str, _Value], source: str, value: _Value) -> None:
    known[source] = value
    known.move_to_end(source)
    if len(known) > MAX_SOURCES:
        known.popitem(last=False)
