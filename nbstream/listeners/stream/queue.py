"""The queue of the stream listener: entries that programs add to a stream, shared by all daemons of a model.

Rules. A consumer group gives each entry to one consumer, which answers it. One atomic step writes the answer and
deletes the entry, and only while the entry is still pending; therefore an entry has one answer, however often it
was tried. When a consumer gives no sign of life for ``CLAIM_SECONDS``, another one claims its entries. An entry
that was tried ``MAX_TRIES`` times is moved to the dead letters, with an answer that says so. Because an answered
entry is deleted, the stream holds the entries that are still to be done.

A script claims entries, because XAUTOCLAIM does not say how often an entry was tried, and before Redis 7 it does
not forget an entry that was deleted.
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

from nbstream.store.follower.follower import stream_entries
from nbstream.store.lua import lua_script
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys

CONSUMER_GROUP = "nbstream"
"""The consumer group of all daemons; no other program reads the stream."""

CLAIM_SECONDS = 60.0
"""For how long a worker was silent whose entries another one takes over.

Each renews its claims every 2 s. It is longer than Redis is away at a restart or a failover: after an outage the
first worker that is back must not take over what living ones work on.
"""

MAX_TRIES = 3

_BLOCK_SECONDS = 1.0
_SILENT_CLAIM_PERIODS = 10  # times CLAIM_SECONDS: after that a silent consumer without entries is removed
_MAX_ANSWERS = 100_000  # about so many
_MAX_DEAD_LETTERS = 1000  # about so many
_DEAD_LETTER_REASON = "set aside: each try ended without an answer"


class ClaimOutcome(StrEnum):
    """What became of an entry that its consumer did not answer in time."""

    CLAIMED = "claimed"
    DEAD = "dead"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """An entry to answer: its stream id, and its fields as the sender wrote them."""

    stream_id: bytes
    fields: Mapping[bytes, bytes]

    @property
    def size(self) -> int:
        """The number of bytes in all field names and values."""
        return sum(len(name) + len(value) for name, value in self.fields.items())


@dataclass(frozen=True, slots=True)
class Claim:
    """The result of a claim: the entry, and what became of it."""

    outcome: ClaimOutcome
    entry: QueueEntry


@dataclass(frozen=True, slots=True)
class QueueBacklog:
    """How many entries wait: ``lag`` were given to no consumer yet, ``pending`` were given but not answered."""

    lag: int
    pending: int


class StreamQueue:
    """One consumer of a model's queue; every method that uses Redis raises ``StoreUnavailable``.

    ``blocking_client`` is the client for commands that wait, on a connection of its own. It must not retry by
    itself: entries in a lost reply come back only when they are claimed. ``timeout_seconds`` is the deadline that
    it sets for each command. Tests have other ``claim_seconds`` and ``tries``.
    """

    def __init__(
        self,
        client: Redis,
        blocking_client: Redis,
        keys: ModelKeys,
        timeout_seconds: float = 5.0,
        *,
        claim_seconds: float = CLAIM_SECONDS,
        tries: int = MAX_TRIES,
    ) -> None:
        self.claim_seconds = claim_seconds
        self._tries = tries
        self._client = client
        self._blocking_client = blocking_client
        self._keys = keys
        self._block_milliseconds = max(1, round(min(_BLOCK_SECONDS, timeout_seconds / 2) * 1000))
        self._answer_script = client.register_script(lua_script("answer.lua"))
        self._claim_script = client.register_script(lua_script("claim.lua"))
        self._tidy_script = client.register_script(lua_script("remove_consumers.lua"))
        self.consumer = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"

    async def open(self) -> None:
        """Create the consumer group if there is none; it begins at the first entry of the stream."""
        with store_errors():
            try:
                await self._client.xgroup_create(self._keys.incoming, CONSUMER_GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    async def take(self, count: int) -> list[QueueEntry]:
        """Return at most ``count`` entries that no consumer got before; none if none comes within a second."""
        with store_errors():
            streams: Any = await self._blocking_client.xreadgroup(
                CONSUMER_GROUP,
                self.consumer,
                {self._keys.incoming: ">"},
                count=count,
                block=self._block_milliseconds,
            )
        return [QueueEntry(stream_id, fields) for stream_id, fields in stream_entries(streams)]

    async def claim(self) -> Claim | None:
        """Claim one entry whose consumer gave no sign of life; None if there is no such entry.

        Only with ``ClaimOutcome.CLAIMED`` is the entry to be answered.
        """
        keys = self._keys
        with store_errors():
            reply: Any = await self._claim_script(
                keys=[keys.incoming, keys.outgoing, keys.dead_letters],
                args=[
                    CONSUMER_GROUP,
                    self.consumer,
                    round(self.claim_seconds * 1000),
                    self._tries,
                    _MAX_ANSWERS,
                    _MAX_DEAD_LETTERS,
                    _DEAD_LETTER_REASON,
                ],
            )
        if not reply:
            return None
        outcome, stream_id, names_and_values = reply
        fields = dict(zip(names_and_values[0::2], names_and_values[1::2], strict=True))
        return Claim(ClaimOutcome(outcome.decode()), QueueEntry(stream_id, fields))

    async def answer(self, stream_id: bytes, fields: Mapping[str, str | bytes]) -> bool:
        """Write the answer to an entry and delete it; False if it has an answer already, or Redis has lost it.

        May be repeated after a failure: at most one answer is written.
        """
        arguments = [item for pair in fields.items() for item in pair]
        with store_errors():
            try:
                written = await self._answer_script(
                    keys=[self._keys.incoming, self._keys.outgoing],
                    args=[CONSUMER_GROUP, stream_id, _MAX_ANSWERS, *arguments],
                )
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                return False
        return bool(written)

    async def renew_claims(self, stream_ids: Sequence[bytes]) -> None:
        """Say that these entries are still worked on: nobody else claims them, and it does not count as a try."""
        if stream_ids:
            with store_errors():
                await self._client.xclaim(
                    self._keys.incoming,
                    CONSUMER_GROUP,
                    self.consumer,
                    min_idle_time=0,
                    message_ids=list(stream_ids),
                    justid=True,
                )

    async def backlog(self) -> QueueBacklog:
        """Return how many entries wait.

        Redis 6.2 does not report a group's lag, and later versions may not know it after entries were deleted. As
        answered entries are deleted, the lag is the number of entries that are there and not pending.
        """
        with store_errors():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.xlen(self._keys.incoming)
                pipe.xinfo_groups(self._keys.incoming)
                length, groups = await pipe.execute()
        pending = next((group["pending"] for group in groups if group["name"] == CONSUMER_GROUP.encode()), 0)
        return QueueBacklog(max(0, length - pending), pending)

    async def remove_idle_consumers(self, *, leave: bool = False) -> None:
        """Remove consumers that have no entry and have been silent for long; with ``leave`` this one as well."""
        silent_milliseconds = round(_SILENT_CLAIM_PERIODS * self.claim_seconds * 1000)
        with store_errors():
            await self._tidy_script(
                keys=[self._keys.incoming],
                args=[CONSUMER_GROUP, self.consumer if leave else "", silent_milliseconds],
            )
