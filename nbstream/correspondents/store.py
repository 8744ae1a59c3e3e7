"""The facts of a model in Redis, how each process follows them, and how it records new ones.

Rules: the facts are a stream beside the counts, one entry for each message of ours that says something new. Each
process has read it all at the start, and follows it; no message waits for Redis. The stream is trimmed by number
and by age. An erasure adds an entry, which makes everybody read all again. Hashes of another key are left out and
said once. What cannot be written is dropped and counted: it is evidence, and mail goes on.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import NO_CHANGE, ChangePosition
from nbstream.correspondents.facts import (
    ANSWER_SECONDS,
    MAX_MESSAGES,
    SENDER_SECONDS,
    CorrespondentFacts,
    FactHasher,
    SentFacts,
)
from nbstream.correspondents.sent_mail import SentMail, read_sent
from nbstream.errors import StoreUnavailable
from nbstream.mail.addresses import canonical_address
from nbstream.store.follower.follower import Followed
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.mail.message import Message
    from nbstream.store.follower.follower import StreamEntries

_log = logging.getLogger(__name__)

MAX_QUEUED = 5000
"""How many messages may wait to be recorded; a message takes some hundred bytes, and with many recipients 4 kB."""

_EXPIRE_SECONDS = 3600.0
_READ_COUNT = 500
_WRITTEN_AT_ONCE = 200
_AT = struct.Struct(">I")
ERASED = {b"erased": b""}
"""An entry of the stream that says that a user was erased."""


class CorrespondentStore:
    """The stream ``key`` of facts that ``hasher`` makes; all methods raise ``StoreUnavailable``."""

    def __init__(self, client: Redis, key: str, hasher: FactHasher) -> None:
        self._client = client
        self.key = key
        self.hasher = hasher
        self._warned = False

    async def read(self) -> AsyncIterator[tuple[bytes, Mapping[bytes, bytes]]]:
        """Yield all entries of the stream, with their ids."""
        start = b"-"
        while True:
            with store_errors(), readable_replies():
                entries: Any = await self._client.xrange(self.key, min=start, count=_READ_COUNT)
            for entry in entries:
                yield entry
            if len(entries) < _READ_COUNT:
                return
            start = b"(" + entries[-1][0]

    async def load(self) -> tuple[CorrespondentFacts, ChangePosition]:
        """Return all that is known, and the last entry that says it; it is read again where a user was erased."""
        while True:
            with store_errors(), readable_replies():
                newest: Any = await self._client.xrevrange(self.key, count=1)
            start = ChangePosition.of(newest[0][0]) if newest else NO_CHANGE
            facts, last, is_erased = CorrespondentFacts(self.hasher), NO_CHANGE, False
            async for entry_id, fields in self.read():
                last = ChangePosition.of(entry_id)
                is_erased = is_erased or (fields == ERASED and last > start)
                if found := self.unpack(fields):
                    facts.add(found)
            if not is_erased:
                facts.expire(time.time())
                return facts, last

    async def write(self, sent: Sequence[SentFacts]) -> None:
        """Add facts, and trim the stream by number and by age."""
        oldest = int((time.time() - max(ANSWER_SECONDS, SENDER_SECONDS)) * 1000)
        with store_errors(), readable_replies():
            async with self._client.pipeline(transaction=False) as pipe:
                for facts in sent:
                    fields: Any = self._pack(facts)
                    pipe.xadd(self.key, fields, maxlen=MAX_MESSAGES)
                pipe.xtrim(self.key, minid=oldest)
                await pipe.execute()

    async def count(self) -> int:
        """Return of how many messages something is stored."""
        with store_errors(), readable_replies():
            return int(await self._client.xlen(self.key))

    async def forget(self, users: Sequence[str], *, erase: bool) -> int:
        """Remove what is known from the messages of users, by all their names; without ``erase`` count it."""
        hashed = {self.hasher.user(canonical_address(user)) for user in users}
        entries = [(entry_id, self.unpack(fields)) async for entry_id, fields in self.read()]
        found = [entry_id for entry_id, facts in entries if facts and facts.user in hashed]
        if found and erase:
            with store_errors(), readable_replies():
                for start in range(0, len(found), _READ_COUNT):
                    await self._client.xdel(self.key, *found[start : start + _READ_COUNT])
                erased: Any = ERASED
                await self._client.xadd(self.key, erased)
        return len(found)

    def _pack(self, facts: SentFacts) -> Mapping[bytes, bytes]:
        return {
            b"key": self.hasher.fingerprint,
            b"at": _AT.pack(facts.at),
            b"user": _pack_hashes([facts.user]),
            b"senders": _pack_hashes(facts.senders),
            b"answers": _pack_hashes(facts.answers),
        }

    def unpack(self, fields: Mapping[bytes, bytes]) -> SentFacts | None:
        """Return the facts of an entry; None for an erasure, hashes of another key, and another program's."""
        try:
            (at,) = _AT.unpack(fields[b"at"])
            (user,) = _unpack_hashes(fields[b"user"])
            facts = SentFacts(at, user, _unpack_hashes(fields[b"senders"]), _unpack_hashes(fields[b"answers"]))
        except (KeyError, ValueError, struct.error):
            return None
        if fields.get(b"key") == self.hasher.fingerprint:
            return facts
        if not self._warned:
            _log.warning("correspondents: hashes with another key are ignored: every machine needs the same key")
            self._warned = True
        return None


def _pack_hashes(hashes: Sequence[int]) -> bytes:
    return struct.pack(f">{len(hashes)}Q", *hashes)


def _unpack_hashes(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(packed) // 8}Q", packed)


class Correspondents(Followed):
    """What one process knows, and what it records; ``report`` counts messages by what became of their facts.

    That is ``recorded``, ``known`` (nothing in it is new) or ``dropped``.
    """

    def __init__(self, store: CorrespondentStore, report: Callable[[str, int], object]) -> None:
        super().__init__(store.key)
        self._store = store
        self._report = report
        self._queue: asyncio.Queue[SentMail] = asyncio.Queue(MAX_QUEUED)
        self._expired_at = 0.0
        self._facts = CorrespondentFacts(store.hasher)

    def known_now(self) -> CorrespondentFacts:
        """Return what is known now; after a while it may be another object."""
        return self._facts

    def note_sent(self, message: Message, user: str, recipients: Sequence[str]) -> None:
        """Queue what a message says that a user of ours sends now, and return at once."""
        sent = read_sent(message, user, recipients, time.time())
        if sent:
            try:
                self._queue.put_nowait(sent)
            except asyncio.QueueFull:
                self._report("dropped", 1)

    async def load(self) -> None:
        """Read all that is stored."""
        self._facts, self.position = await self._store.load()
        self._expired_at = time.monotonic()

    async def apply(self, entries: StreamEntries) -> None:
        """Take over the next entries, or all again where a user was erased."""
        if any(fields == ERASED for _, fields in entries):
            await self.load()
            return
        for _, fields in entries:
            if facts := self._store.unpack(fields):
                self._facts.add(facts)
        self.position = ChangePosition.of(entries[-1][0])
        if time.monotonic() > self._expired_at + _EXPIRE_SECONDS:
            self._facts.expire(time.time())
            self._expired_at = time.monotonic()

    async def record(self) -> None:
        """Write what is queued, until cancelled. Raises ``StoreUnavailable`` after it has dropped what it had."""
        while True:
            batch = [await self._queue.get()]
            while len(batch) < _WRITTEN_AT_ONCE and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                recorded = await record_sent(self._store, self._facts, batch)
            except StoreUnavailable:
                self._report("dropped", len(batch))
                raise
            self._report("recorded", recorded)
            self._report("known", len(batch) - recorded)


async def record_sent(store: CorrespondentStore, facts: CorrespondentFacts, batch: Sequence[SentMail]) -> int:
    """Write what messages of ours say that ``facts`` do not have, add it to them, and return how many it was.

    Raises ``StoreUnavailable``; the same messages may be recorded again.
    """
    new = [found for sent in batch if (found := facts.new_of(store.hasher.hash_sent(sent), time.time()))]
    if new:
        await store.write(new)
    for found in new:
        facts.add(found)
    return len(new)
