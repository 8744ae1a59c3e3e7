"""Looking for rows of checked messages: by id, time, verdict, address, action and policy, a page at a time.

Rules: nothing is scanned. A search goes through the rows in the order of time, or through those of one recipient,
and compares each with what is wanted; it looks at ``MAX_LOOKED_AT`` rows at most, and says how far it came. A page
begins behind a position, which is the time and the id of a row: messages that come in meanwhile move nothing.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.errors import StoreIncompatible
from nbstream.store.recent.message_rows import (
    MessageRow,
    RowPosition,
    actions_of,
    address_matches,
    normalize_address,
    recipient_index,
)
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys

_log = logging.getLogger(__name__)

MAX_LOOKED_AT = 2000
"""The most rows that one search looks at."""

_READ_COUNT = 500  # rows that are read at once: a few ms of the event loop


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFilter:
    """What is wanted; what is empty or None is not asked for.

    ``id_prefix`` is an id or its beginning. The time of the check is at or after ``since`` and before ``until``,
    in seconds since the epoch. ``sender`` and ``recipient`` are as ``normalize_address`` returns them; ``user_of``
    returns the address of the user to whom mail for a recipient belongs, who is looked for as well. ``action``
    is one of those that were taken, ``policy`` the name of the policy that decided. The subject has ``subject`` in
    it; upper and lower case are the same.
    """

    id_prefix: str = ""
    since: float | None = None
    until: float | None = None
    verdict: str = ""
    sender: str = ""
    recipient: str = ""
    action: str = ""
    policy: str = ""
    subject: str = ""
    user_of: Callable[[str], str] = normalize_address

    def matches(self, row: MessageRow) -> bool:
        """Return whether a row is what is wanted."""
        if not row.id.startswith(self.id_prefix) or not self.lower <= row.checked_at < self.upper:
            return False
        if (self.verdict and row.verdict != self.verdict) or (self.policy and row.policy != self.policy):
            return False
        if self.action and not (row.envelope and self.action in actions_of(row.envelope)):
            return False
        subject = (row.envelope.subject if row.envelope else None) or ""
        if self.subject.casefold() not in subject.casefold():
            return False
        sender = row.envelope.sender if row.envelope else None
        if self.sender and (sender is None or not address_matches(sender, self.sender)):
            return False
        recipients = row.envelope.recipients if row.envelope else ()
        return not self.recipient or any(
            address_matches(address, self.recipient) or self.user_of(normalize_address(address)) == self.recipient
            for address in recipients
        )

    @property
    def lower(self) -> float:
        """The earliest time that is wanted."""
        return -math.inf if self.since is None else self.since

    @property
    def upper(self) -> float:
        """The time before which it is wanted."""
        return math.inf if self.until is None else self.until


@dataclass(frozen=True, slots=True)
class RowPage:
    """Some rows, the newest first.

    ``next_position`` is where the search goes on to older ones, None where it has come to the end. With ``is_cut``
    it has not, but has looked at as many rows as one search may.
    """

    rows: tuple[MessageRow, ...]
    next_position: RowPosition | None = None
    is_cut: bool = False


class RowSearch:
    """The rows of one model in Redis; ``seconds`` is for how long a row is remembered."""

    def __init__(
        self, client: Redis, keys: ModelKeys, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._keys = keys
        self._seconds = seconds
        self._clock = clock

    async def rows(self, message_keys: Collection[str]) -> Mapping[str, MessageRow]:
        """Return the rows of those of these messages that have one. Raises ``StoreUnavailable``."""
        return {row.id: row for row in await self._read_rows(list(message_keys))}

    async def count(self) -> int:
        """Return how many messages are remembered. Raises ``StoreUnavailable``."""
        with store_errors():
            count: int = await self._client.zcard(self._keys.recent)
        return count

    async def search(
        self,
        wanted: RowFilter,
        position: RowPosition | None = None,
        count: int = 50,
    ) -> RowPage:
        """Return at most ``count`` rows that are ``wanted``: the newest, or those next to ``position`` and older.

        Raises ``StoreUnavailable``.
        """
        for row in await self._read_rows([wanted.id_prefix] if wanted.id_prefix else []):  # a whole id
            is_found = wanted.matches(row) and row.checked_at >= self._oldest_time
            return RowPage((row,) if is_found and (position is None or row.position < position) else ())
        found: list[MessageRow] = []
        looked_at = 0
        async for chunk in self._walk(wanted, position, count + 1):
            places = chunk[: MAX_LOOKED_AT - looked_at]
            looked_at += len(places)
            found += await self._wanted_rows(places, wanted)
            if len(found) > count:
                return RowPage(tuple(found[:count]), found[count - 1].position)
            if looked_at == MAX_LOOKED_AT:
                return RowPage(tuple(found), places[-1], is_cut=True)
        return RowPage(tuple(found))

    @property
    def _oldest_time(self) -> float:
        """The time of the oldest check that is still remembered."""
        return self._clock() - self._seconds

    async def _walk(
        self, wanted: RowFilter, position: RowPosition | None, at_once: int
    ) -> AsyncIterator[list[RowPosition]]:
        """Yield the places of rows in their order behind ``position``, within the times that are wanted.

        At first they are ``at_once``, then more.
        """
        is_address = wanted.recipient and not wanted.recipient.startswith("@")
        key = self._keys.rows_to(recipient_index(wanted.recipient)) if is_address else self._keys.recent
        oldest = max(wanted.lower, self._oldest_time)
        lowest, highest = str(oldest), "inf" if wanted.until is None else f"({wanted.until}"
        offset = 0
        # A position may be of a search for other times: what is not behind it is not walked through.
        if position and position.checked_at < wanted.upper:
            highest = str(position.checked_at)
        while True:
            with store_errors():
                entries: Any = await self._client.zrange(
                    key,
                    highest,
                    lowest,
                    desc=True,
                    byscore=True,
                    withscores=True,
                    offset=offset,
                    num=at_once,
                )
            places = [RowPosition(score, key.decode("utf-8", "replace")) for key, score in entries]
            places = [place for place in places if position is None or place < position]
            if places:
                yield places
                position, offset = places[-1], 0
                highest = str(position.checked_at)
            else:  # all of them are as old as the position: it may be one of many of the same moment
                offset += at_once
            if len(entries) < at_once:
                return
            at_once = _READ_COUNT

    async def _wanted_rows(self, places: Sequence[RowPosition], wanted: RowFilter) -> list[MessageRow]:
        """Return the rows at these places that are wanted.

        A row may have expired, and a message that has been checked again meanwhile has another place.
        """
        times = {place.id: place.checked_at for place in places if place.id.startswith(wanted.id_prefix)}
        rows = await self._read_rows(list(times))
        return [row for row in rows if row.checked_at == times[row.id] and wanted.matches(row)]

    async def _read_rows(self, message_keys: Sequence[str]) -> list[MessageRow]:
        """Return the rows of these messages in their order, without those that are not there or not readable."""
        if not message_keys:
            return []
        with store_errors():
            values: Any = await self._client.mget([self._keys.row(key) for key in message_keys])
        rows, unreadable = [], []
        for key, packed in zip(message_keys, values, strict=True):
            if packed is None:
                continue
            try:
                rows.append(MessageRow.unpack(key, packed))
            except StoreIncompatible as error:
                unreadable.append(error)
        if unreadable:  # logged once: beside a later version there may be hundreds
            _log.warning("%d messages are left out: %s", len(unreadable), unreadable[0])
        return rows
