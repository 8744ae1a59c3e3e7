"""The queue of the stream door: entries that programs add to a stream, shared out over all daemons of a model.

Rules. A consumer group hands each entry to one consumer, which answers it: the answer is written and the entry let
go in one atomic step, and only while it is still pending. So an entry has one answer, however often it was tried.
What a consumer holds without a sign of life for ``claim_seconds`` another one takes over; what was tried ``tries``
times is set aside, with an answer that says so. An entry goes when it is answered, so the stream holds what is
still to do.

XAUTOCLAIM would neither say how often an entry was tried nor, before Redis 7, forget one that was removed: so a
script claims.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from nbstream.store.model.model import lua_script, store_errors
from nbstream.store.replica.mirror import stream_entries

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys

CONSUMER_GROUP = "nbstream"
"""The consumer group; the stream is this program's alone."""

_BLOCK_SECONDS = 1.0
_SILENT_CLAIM_PERIODS = 10  # times claim_seconds: then a consumer that holds nothing is forgotten
_DEAD_LETTER_REASON = "set aside: each try ended without an answer"


class ClaimOutcome(StrEnum):
    """What became of an entry that a consumer had left alone."""

    CLAIMED = "claimed"
    DEAD = "dead"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class StreamQueueOptions:
    """``answers`` and ``dead``: about how many are kept. ``timeout_seconds`` is that of the client."""

    claim_seconds: float = 60.0
    tries: int = 3
    max_answers: int = 100_000
    max_dead_letters: int = 1000
    timeout_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """An entry to answer: its stream id, and its fields as they came."""

    stream_id: bytes
    fields: Mapping[bytes, bytes]

    @property
    def size(self) -> int:
        """The bytes in it."""
        return sum(len(name) + len(value) for name, value in self.fields.items())


@dataclass(frozen=True, slots=True)
class QueueBacklog:
    """How many entries no consumer has been given yet, and how many consumers hold without an answer."""

    lag: int
    pending: int


class StreamQueue:
    """One consumer of a model's queue.

    ``blocking`` is the client for what waits, on a connection of its own. It must not try again by itself: entries
    that it was given in a lost reply are found only when they are taken over.
    """

    def __init__(self, client: Redis, blocking: Redis, keys: ModelKeys, params: StreamQueueOptions) -> None:
        self._client = client
        self._blocking_client = blocking
        self._keys = keys
        self._options = params
        self._block_milliseconds = max(1, round(min(_BLOCK_SECONDS, params.timeout_seconds / 2) * 1000))
        self._answer_script = client.register_script(lua_script("answer.lua"))
        self._claim_script = client.register_script(lua_script("claim.lua"))
        self._tidy_script = client.register_script(lua_script("tidy.lua"))
        self.consumer = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"

    async def open(self) -> None:
        """Make the group where there is none, from the first entry on. All here raise ``StoreUnavailable``."""
        with store_errors():
            try:
                await self._client.xgroup_create(self._keys.incoming, CONSUMER_GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    async def take(self, count: int) -> list[QueueEntry]:
        """At most ``count`` entries that nobody was given before; waits a second for one, then gives none."""
        with store_errors():
            streams: Any = await self._blocking_client.xreadgroup(
                CONSUMER_GROUP,
                self.consumer,
                {self._keys.incoming: ">"},
                count=count,
                block=self._block_milliseconds,
            )
        return [QueueEntry(place, fields) for place, fields in stream_entries(streams)]

    async def claim(self) -> tuple[ClaimOutcome, QueueEntry] | None:
        """Take over one entry that was left alone, or say what became of it instead; None where there is none."""
        params, keys = self._options, self._keys
        with store_errors():
            found: Any = await self._claim_script(
                keys=[keys.incoming, keys.outgoing, keys.dead_letters],
                args=[
                    CONSUMER_GROUP,
                    self.consumer,
                    round(params.claim_seconds * 1000),
                    params.tries,
                    params.max_answers,
                    params.max_dead_letters,
                    _DEAD_LETTER_REASON,
                ],
            )
        if not found:
            return None
        done, place, fields = found
        pairs = dict(zip(fields[0::2], fields[1::2], strict=True))
        return ClaimOutcome(done.decode()), QueueEntry(place, pairs)

    async def answer(self, place: bytes, fields: Mapping[str, str | bytes]) -> bool:
        """Write the answer to an entry and let it go; False where it has one already, or Redis has lost it.

        May be repeated after a failure: at most one answer is written.
        """
        arguments = [item for pair in fields.items() for item in pair]
        with store_errors():
            try:
                written = await self._answer_script(
                    keys=[self._keys.incoming, self._keys.outgoing],
                    args=[CONSUMER_GROUP, place, self._options.max_answers, *arguments],
                )
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                return False
        return bool(written)

    async def renew_claims(self, places: Sequence[bytes]) -> None:
        """Say that these entries are still worked on: nobody takes them over, and this is no further try."""
        if places:
            with store_errors():
                await self._client.xclaim(
                    self._keys.incoming,
                    CONSUMER_GROUP,
                    self.consumer,
                    min_idle_time=0,
                    message_ids=list(places),
                    justid=True,
                )

    async def backlog(self) -> QueueBacklog:
        """How much is waiting.

        Redis 6.2 does not tell a group's lag, and later ones may not know it once entries were removed. As what is
        answered goes, it is what is there and not pending.
        """
        with store_errors():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.xlen(self._keys.incoming)
                pipe.xinfo_groups(self._keys.incoming)
                length, groups = await pipe.execute()
        pending = next((group["pending"] for group in groups if group["name"] == CONSUMER_GROUP.encode()), 0)
        return QueueBacklog(max(0, length - pending), pending)

    async def remove_idle_consumers(self, *, leave: bool = False) -> None:
        """Forget consumers that hold nothing and are long gone; with ``leave`` this one too."""
        silent = round(_SILENT_CLAIM_PERIODS * self._options.claim_seconds * 1000)
        with store_errors():
            await self._tidy_script(
                keys=[self._keys.incoming], args=[CONSUMER_GROUP, self.consumer if leave else "", silent]
            )
