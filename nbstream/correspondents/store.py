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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import NO_CHANGE, ChangePosition
from nbstream.correspondents.facts import CorrespondentFacts, FactHasher, KnownTime, SentFacts
from nbstream.correspondents.sent_mail import SentMail, read_sent
from nbstream.errors import StoreUnavailable
from nbstream.mail.addresses import canonical_address
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.mirror.follower import Followed, RescanNeeded
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.mail.message import Message
    from nbstream.store.mirror.follower import StreamEntries

_log = logging.getLogger(__name__)

MAX_QUEUED = 5000
"""How many messages may wait to be recorded; a message takes some hundred bytes, and with many recipients 4 kB."""

_EXPIRE_SECONDS = 3600.0
_READ_COUNT = 500
_WRITTEN_AT_ONCE = 200
_AT = struct.Struct(">I")
_ERASED = {b"erased": b""}


@dataclass(frozen=True, slots=True)
class FactEntry:
    """An entry of the stream; ``facts`` is None for an erasure, and for hashes that this process does not know."""

    id: bytes
    facts: SentFacts | None
    is_erasure: bool


class CorrespondentStore:
    """The stream ``key`` of facts that ``hasher`` makes; all methods raise ``StoreUnavailable``."""

    def __init__(self, client: Redis, key: str, hasher: FactHasher, known: KnownTime) -> None:
        self._client = client
        self.key = key
        self.hasher = hasher
        self.known = known
        self._warned = False
        self._written = 0

    async def end(self) -> ChangePosition:
        """Return where the stream ends."""
        with store_errors(), readable_replies():
            entries: Any = await self._client.xrevrange(self.key, count=1)
        return ChangePosition.of(entries[0][0]) if entries else NO_CHANGE

    async def read(self) -> AsyncIterator[FactEntry]:
        """Yield all entries."""
        start = b"-"
        while True:
            stop_if_cancelled()
            with store_errors(), readable_replies():
                entries: Any = await self._client.xrange(self.key, min=start, count=_READ_COUNT)
            for entry_id, fields in entries:
                yield self.unpack(entry_id, fields)
            if len(entries) < _READ_COUNT:
                return
            start = b"(" + entries[-1][0]

    async def load(self) -> CorrespondentFacts:
        """Return all that is known."""
        facts = CorrespondentFacts(self.hasher, self.known)
        async for entry in self.read():
            if entry.facts:
                facts.add(entry.facts)
        facts.expire(time.time())
        return facts

    async def write(self, sent: Sequence[SentFacts]) -> None:
        """Add facts, and trim the stream: each entry that is added by number and by age in turn.

        XADD does one of both.
        """
        oldest = int((time.time() - max(self.known.answer_seconds, self.known.sender_seconds)) * 1000)
        trims: Any = ({"maxlen": self.known.limit}, {"minid": oldest})
        with store_errors(), readable_replies():
            async with self._client.pipeline(transaction=False) as pipe:
                for facts in sent:
                    fields: Any = self._pack(facts)
                    pipe.xadd(self.key, fields, approximate=True, **trims[self._written % 2])
                    self._written += 1
                await pipe.execute()

    async def count(self) -> int:
        """Return of how many messages something is stored."""
        with store_errors(), readable_replies():
            return int(await self._client.xlen(self.key))

    async def forget(self, users: Sequence[str], *, erase: bool) -> int:
        """Remove what is known from the messages of users, by all their names; without ``erase`` count it."""
        hashed = {self.hasher.user(canonical_address(user)) for user in users}
        found = [entry.id async for entry in self.read() if entry.facts and entry.facts.user in hashed]
        if found and erase:
            with store_errors(), readable_replies():
                for start in range(0, len(found), _READ_COUNT):
                    await self._client.xdel(self.key, *found[start : start + _READ_COUNT])
                erased: Any = _ERASED
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

    def unpack(self, entry_id: bytes, fields: Mapping[bytes, bytes]) -> FactEntry:
        """Return what an entry of the stream says."""
        return FactEntry(entry_id, self._unpack(fields), fields == _ERASED)

    def _unpack(self, fields: Mapping[bytes, bytes]) -> SentFacts | None:
        """Return the facts of an entry; None for hashes of another key, and for what another program wrote."""
        try:
            (at,) = _AT.unpack(fields[b"at"])
            (user,) = _unpack_hashes(fields[b"user"])
            facts = SentFacts(at, user, _unpack_hashes(fields[b"senders"]), _unpack_hashes(fields[b"answers"]))
        except (KeyError, ValueError, struct.error):
            return None
        if fields.get(b"key") == self.hasher.fingerprint:
            return facts
        if not self._warned:
            _log.warning("correspondents: hashes under another key are left out: each machine needs the same key")
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
        self._facts = self._new_facts()

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
        """Read all that is stored; an entry that is erased meanwhile may have been read before."""
        facts, last, start = self._new_facts(), NO_CHANGE, await self._store.end()
        async for entry in self._store.read():
            last = ChangePosition.of(entry.id)
            if entry.is_erasure and last > start:
                raise RescanNeeded("a user was erased meanwhile")
            if entry.facts:
                facts.add(entry.facts)
        facts.expire(time.time())
        self._facts, self.position, self._expired_at = facts, last, time.monotonic()

    async def apply(self, entries: StreamEntries) -> None:
        """Take over the next entries, or all again where a user was erased."""
        new = [self._store.unpack(*entry) for entry in entries]
        if any(entry.is_erasure for entry in new):
            await self.load()
            return
        for entry in new:
            if entry.facts:
                self._facts.add(entry.facts)
        self.position = ChangePosition.of(new[-1].id)
        if time.monotonic() > self._expired_at + _EXPIRE_SECONDS:
            self._facts.expire(time.time())
            self._expired_at = time.monotonic()

    def _new_facts(self) -> CorrespondentFacts:
        return CorrespondentFacts(self._store.hasher, self._store.known)

    async def record(self) -> None:
        """Write what is queued, until cancelled; of failures in a row the first is logged."""
        failing = False
        while True:
            batch = [await self._queue.get()]
            while len(batch) < _WRITTEN_AT_ONCE and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                recorded = await record_sent(self._store, self._facts, batch)
                self._report("recorded", recorded)
                self._report("known", len(batch) - recorded)
                failing = False
            except StoreUnavailable as error:
                self._report("dropped", len(batch))
                if not failing:
                    _log.warning("correspondents: nothing is recorded now: %s", error)
                failing = True


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
