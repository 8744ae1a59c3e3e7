"""The follower: one task that keeps equal to Redis whatever a process has of it in memory.

Rules: all that is followed has a change stream. It is loaded as a whole, from a position on that was noted
before, and then one blocking XREAD waits for the entries of all streams. These are always the same ones, since a
command that is cancelled costs its connection. What finds that its stream does not continue where it stands is
loaded anew, and so is everything where Redis was away or another server answers, since its streams may have gone
another way. What was known serves meanwhile. An idle process asks nothing else, but whether the streams
are there and where one ends when a wait was in vain: a Redis that was emptied writes no entry. A wait may be long,
since a watch ends it when another server answers, or none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from nbstream.bayes.counts import NO_CHANGE, ChangePosition
from nbstream.errors import NbstreamError, StoreIncompatible
from nbstream.store.backoff import Backoff
from nbstream.store.connection import ServerGuard, look_for_primary, primary_of
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

_log = logging.getLogger(__name__)

BLOCK_SECONDS = 2.0
"""How long one XREAD waits: on a connection to a former server, which still answers, it ends no sooner.

A lesson waits for the follower, and longer than this.
"""

WATCHED_BLOCK_SECONDS = 25.0
"""The same where a watch ends the wait, or it is always the same server."""

_REPLY_SECONDS = 5.0  # that are left of the client's deadline when the server has waited

READ_COUNT = 10
"""Changes that are read at once: of 64 lessons each they are 2 MB, and each stops other work for some 5 ms."""

_LOG_EVERY = 30  # attempts, two seconds apart: about once a minute

StreamEntries: TypeAlias = "Sequence[tuple[bytes, Mapping[bytes, bytes]]]"
"""Entries of a stream: the id of each, and its fields."""


class RescanNeeded(Exception):
    """The change stream does not continue where somebody who follows it stands."""


class Followed:
    """Something in memory that a follower keeps equal to Redis by the entries of ``stream``."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.position = NO_CHANGE
        """The last entry that is in it."""
        self.is_current = False
        """Whether it follows Redis; else what was known last serves on."""
        self.equal_at = time.monotonic()
        """When it was last known to equal Redis."""
        self.loaded = asyncio.Event()
        """Whether it has been loaded."""

    async def load(self) -> None:
        """Read all, and note the ``position``.

        Raises ``StoreUnavailable``, ``RescanNeeded`` and ``StoreIncompatible``.
        """
        raise NotImplementedError

    async def apply(self, entries: StreamEntries) -> None:
        """Take over the entries behind ``position``. Raises ``StoreUnavailable`` and ``RescanNeeded``."""
        raise NotImplementedError

    def lose(self) -> None:
        """Note that Redis is away, or may have gone another way: all is loaded anew afterwards."""
        self.is_current = False

    def check_end(self, end: ChangePosition) -> None:
        """Raise ``RescanNeeded`` if the stream ends before the position, or has another entry there."""
        here = self.position
        is_other = end.stream_id == here.stream_id != NO_CHANGE.stream_id and end.sequence != here.sequence
        if is_other or (end < here and end.stream_id != here.stream_id):
            raise RescanNeeded(f"known here is change {here.sequence}, the last in Redis is {end.sequence}")


class Follower:
    """Keeps all of ``followed`` equal to Redis while it runs; ``client`` is that of its blocking command.

    The client does not retry by itself, and leads to the same server as those that load. ``before_connect`` is
    awaited before each attempt to connect. A read waits for ``block_seconds``, at most as long as the client's
    deadline leaves time for the reply.
    """

    def __init__(
        self,
        client: Redis,
        followed: Sequence[Followed],
        before_connect: Callable[[], Awaitable[object]] | None = None,
        block_seconds: float = BLOCK_SECONDS,
    ) -> None:
        self._client = client
        self.followed = followed
        self._before_connect = before_connect
        deadline = client.connection_pool.connection_kwargs["socket_timeout"]
        self._block_seconds = min(block_seconds, max(deadline / 2, deadline - _REPLY_SECONDS))
        self._waiting: asyncio.Timeout | None = None
        self._generation = 0

    async def run(self) -> None:
        """Load and follow until cancelled; connect again by itself when Redis is back."""
        backoff = Backoff()
        try:
            while True:
                try:
                    with readable_replies():
                        await self._connect_and_follow(backoff)
                except NbstreamError as error:
                    self._lose(str(error), loud=backoff.failures % _LOG_EVERY == 0)
                    await asyncio.sleep(backoff.next_wait())
        finally:  # whoever runs this may start it again: nothing is followed until then
            self._lose("ended", loud=False)

    async def watch(self, client: Redis) -> None:
        """Look which server ``client`` reaches now; where that is another one, or none, a wait ends at once."""
        is_reached = await look_for_primary(client)
        if self._waiting and not (is_reached and self._generation == primary_of(client).generation):
            self._waiting.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def _waiting_for_reply(self) -> AsyncIterator[None]:
        """Wait for what the server sends, until ``watch`` ends that. Raises ``StoreUnavailable``."""
        self._generation = primary_of(self._client).generation
        with store_errors():
            try:
                async with asyncio.timeout(None) as self._waiting:
                    yield
            finally:
                self._waiting = None

    def _lose(self, problem: str, *, loud: bool) -> None:
        for part in self.followed:
            part.lose()
        _log.log(logging.ERROR if loud else logging.DEBUG, "follower: %s", problem)

    async def _connect_and_follow(self, backoff: Backoff) -> None:
        if self._before_connect:
            await self._before_connect()
        guard = ServerGuard(self._client)
        while True:
            is_whole = await self._load_missing(guard, backoff)
            await self._follow(guard, self._block_seconds if is_whole else backoff.next_wait())
            if is_whole:  # what can be loaded and not followed is not loaded all the time
                backoff.reset()

    async def _load_missing(self, guard: ServerGuard, backoff: Backoff) -> bool:
        """Load whatever does not follow Redis; return whether all does now."""
        is_whole = True
        for part in self.followed:
            if part.is_current:
                continue
            try:
                await part.load()
                guard.check()
            except (RescanNeeded, StoreIncompatible) as error:
                level = logging.DEBUG if backoff.failures % _LOG_EVERY else logging.ERROR
                _log.log(level, "follower: %s cannot be loaded: %s", part.stream, error)
                is_whole = False
            else:
                part.is_current, part.equal_at = True, time.monotonic()
                part.loaded.set()
        return is_whole

    async def _follow(self, guard: ServerGuard, block_seconds: float) -> None:
        """Wait for entries once, and have them applied."""
        parts = {part.stream: part for part in self.followed if part.is_current}
        if not parts:
            await asyncio.sleep(block_seconds)
            return
        places: Any = {stream: part.position.stream_id for stream, part in parts.items()}
        async with self._waiting_for_reply():
            streams: Any = await self._client.xread(
                places, count=READ_COUNT, block=max(1, round(1000 * block_seconds))
            )
        guard.check()
        for key, entries in entries_by_stream(streams):
            part = parts[key.decode()]
            try:
                await part.apply(entries)
            except RescanNeeded as error:
                self._rescan(part, error)
            await asyncio.sleep(0)  # one that was taught very much takes some milliseconds
        if not streams:
            await self._check_ends([part for part in parts.values() if part.position != NO_CHANGE])
            guard.check()
        for part in parts.values():
            part.equal_at = time.monotonic()

    async def _check_ends(self, parts: Sequence[Followed]) -> None:
        """Have all loaded anew where a stream of ``parts`` is gone, or the last entry of all of them."""
        if not parts:
            return
        last = max(parts, key=lambda part: part.position)
        async with self._waiting_for_reply(), self._client.pipeline(transaction=False) as pipe:
            pipe.exists(*(part.stream for part in parts))
            pipe.xrevrange(last.stream, count=1)
            existing, entries = await pipe.execute()
        if existing < len(parts):
            self._lose("history differs, rescanned: a change stream is gone", loud=True)
            return
        try:
            last.check_end(position_of(*entries[0]) if entries else NO_CHANGE)
        except RescanNeeded as error:
            self._lose(f"history differs, rescanned: {last.stream}: {error}", loud=True)

    def _rescan(self, part: Followed, error: RescanNeeded) -> None:
        part.is_current = False
        _log.error("follower: history differs, rescanned: %s: %s", part.stream, error)


def position_of(entry_id: bytes, fields: Mapping[bytes, bytes]) -> ChangePosition:
    """Return the position of an entry in its stream; the number of one that cannot be read is 0."""
    sequence = fields.get(b"sequence", b"")
    return ChangePosition.of(entry_id, int(sequence) if sequence.isdigit() else 0)


def entries_by_stream(streams: Any) -> Sequence[tuple[bytes, StreamEntries]]:
    """Return the key of each stream in the reply to an XREAD or XREADGROUP, and its entries.

    RESP3 gives a mapping, RESP2 a list.
    """
    if not streams:
        return []
    if isinstance(streams, dict):
        return [(key, groups[0]) for key, groups in streams.items()]
    return [(key, entries) for key, entries in streams]


def stream_entries(streams: Any) -> StreamEntries:
    """Return the entries in the reply to an XREAD or XREADGROUP of one stream."""
    return next((entries for _, entries in entries_by_stream(streams)), ())
