"""Counts, totals and first scores of a model, read from Redis in bounded steps.

Rules: a step is one HSCAN or ZSCAN of about ``SCAN_STEP`` fields, so that other commands do not wait long. While
others learn, each count is as it was at some moment of the scan. All steps go to one server, since a cursor has no
meaning in another one.

First scores are read once, and afterwards only what has changed: as in a mirror, the position in the change stream
is read before the scan, a change may be applied although the scan has seen it, and a gap in the sequence numbers
means that all first scores are read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream.bayes.counts import CLASSES
from nbstream.errors import StoreIncompatible
from nbstream.policy.first_scores import FirstScores
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.connection import ServerGuard
from nbstream.store.model.scripts import PositionScript, lesson_count

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.bayes.counts import Counts
    from nbstream.store.model.keys import ModelKeys


SCAN_STEP = 2000  # fields: 1 to 2 ms of Redis


async def scan_keys(client: Redis, pattern: str, count: int) -> AsyncIterator[list[bytes]]:
    """The keys that match ``pattern``, about ``count`` keys of the whole database at a step.

    Raises what redis-py raises, and ``StoreUnavailable`` where another server answers in the middle, or keys of
    the model are being moved to another node of a cluster.
    """
    guard, cursor = ServerGuard(client), None
    await guard.check_keys()
    while cursor != 0:
        reply: Any = await client.scan(cursor or 0, match=pattern, count=count)
        guard.check()
        cursor, keys = reply
        if keys:
            yield keys
    await guard.check_keys()


async def scan_counts(client: Redis, keys: ModelKeys, counts: Counts) -> None:
    """Add the counts of all tokens and sums to ``counts``, which are empty, without totals.

    Raises what redis-py raises, and ``StoreUnavailable`` where another server answers in the middle.

    All classes are scanned at once: while the client reads a step of one class, Redis works on another.
    """
    guard = ServerGuard(client)
    scans = [
        asyncio.create_task(_scan_column(client, key, counts, column, guard))
        for column, key in enumerate(keys.counts)
    ]
    try:
        await asyncio.gather(*scans)
    finally:
        for scan in scans:
            scan.cancel()
        await asyncio.gather(*scans, return_exceptions=True)


async def _scan_column(client: Redis, key: str, counts: Counts, column: int, guard: ServerGuard) -> None:
    cursor = None
    while cursor != 0:
        stop_if_cancelled()
        reply: Any = await client.hscan(key, cursor or 0, count=SCAN_STEP)
        guard.check()
        cursor, fields = reply
        values = np.fromstring(b" ".join(fields.values()), dtype=np.int64, sep=" ")
        counts.set_column(list(fields), column, values)


async def scan_first_scores(client: Redis, keys: ModelKeys) -> FirstScores:
    """All first scores of the model. Raises ``StoreIncompatible``, and what ``scan_counts`` raises."""
    first_scores, guard = FirstScores(), ServerGuard(client)
    for label, key in zip(CLASSES, keys.first_scores, strict=True):
        cursor = None
        while cursor != 0:
            reply: Any = await client.zscan(key, cursor or 0, count=SCAN_STEP)
            guard.check()
            cursor, members = reply
            try:
                for packed, _ in members:
                    first_scores[label].add(packed)
            except ValueError as error:
                raise StoreIncompatible("a first score cannot be read: another program wrote it") from error
    return first_scores


_READ_COUNT = 10  # changes: of 64 lessons each they are 2 MB


@dataclass(slots=True)
class _FirstScoresCopy:
    """First scores in memory, and the last change that was applied to them."""

    first_scores: FirstScores
    last_id: bytes
    sequence: int


class StoredFirstScores:
    """The first scores of one model, for callers that have no mirror."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._keys = keys
        self._position_script = PositionScript(client, keys)
        self._copy: _FirstScoresCopy | None = None

    async def read(self) -> FirstScores:
        """The first scores as they are now. The first call takes about a second for 100,000 of them.

        Raises ``StoreIncompatible``, and what redis-py raises.
        """
        while self._copy is None or not await self._catch_up(self._copy):
            position = await self._position_script.read()
            first_scores = await scan_first_scores(self._client, self._keys)
            self._copy = _FirstScoresCopy(first_scores, position.change, position.sequence)
        return self._copy.first_scores

    async def _catch_up(self, copy: _FirstScoresCopy) -> bool:
        """Apply the changes since the last call; False where they cannot be known, since the stream has a gap."""
        entries: Any = None
        while entries is None or len(entries) == _READ_COUNT:
            entries = await self._client.xrange(self._keys.changes, min=b"(" + copy.last_id, count=_READ_COUNT)
            for entry_id, fields in entries:
                try:
                    sequence = int(fields[b"sequence"])
                    if sequence != copy.sequence + lesson_count(fields):
                        return False
                    copy.first_scores.apply_change(fields)
                except (KeyError, ValueError):
                    return False
                copy.last_id, copy.sequence = entry_id, sequence
        return True
