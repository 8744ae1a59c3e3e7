"""The facts of a model in Redis, how each process follows them, and how it records new ones.

Rules: the facts are a stream beside the counts, one entry for each message of ours that says something new. Each
process has read it all at the start, and asks for what is new once a second; no message waits for Redis. The
stream is trimmed by number and by age. An erasure adds an entry, which makes everybody read all again. Hashes of
another key are left out and said once. What cannot be written is dropped and counted: it is evidence, and mail
goes on.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.correspondents.facts import CorrespondentFacts, FactHasher, KnownTime, SentFacts
from nbstream.correspondents.sent_mail import SentMail, read_sent
from nbstream.errors import StoreUnavailable
from nbstream.mail.addresses import canonical_address
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.mail.message import Message

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
        self._key = key
        self.hasher = hasher
        self.known = known
        self._warned = False
        self._written = 0

    async def read(self, after: bytes = b"") -> AsyncIterator[FactEntry]:
        """Yield the entries after that of this id, or all."""
        start = b"(" + after if after else b"-"
        while True:
            stop_if_cancelled()
            with store_errors(), readable_replies():
                entries: Any = await self._client.xrange(self._key, min=start, count=_READ_COUNT)
            for entry_id, fields in entries:
                yield FactEntry(entry_id, self._unpack(fields), fields == _ERASED)
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
                    pipe.xadd(self._key, fields, approximate=True, **trims[self._written % 2])
                    self._written += 1
                await pipe.execute()

    async def count(self) -> int:
        """Return of how many messages something is stored."""
        with store_errors(), readable_replies():
            return int(await self._client.xlen(self._key))

    async def forget(self, users: Sequence[str], *, erase: bool) -> int:
        """Remove what is known from the messages of users, by all their names; without ``erase`` count it."""
        hashed = {self.hasher.user(canonical_address(user)) for user in users}
        found = [entry.id async for entry in self.read() if entry.facts and entry.facts.user in hashed]
        if found and erase:
            with store_errors(), readable_replies():
                for start in range(0, len(found), _READ_COUNT):
                    await self._client.xdel(self._key, *found[start : start + _READ_COUNT])
                erased: Any = _ERASED
                await self._client.xadd(self._key, erased)
        return len(found)

    def _pack(self, facts: SentFacts) -> Mapping[bytes, bytes]:
        return {
            b"key": self.hasher.fingerprint,
            b"at": _AT.pack(facts.at),
            b"user": _pack_hashes([facts.user]),
            b"senders": _pack_hashes(facts.senders),
            b"answers": _pack_hashes(facts.answers),
        }

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


class Correspondents:
    """What one process knows, and what it records; ``report`` counts messages by what became of their facts.

    That is ``recorded``, ``known`` (nothing in it is new) or ``dropped``.
    """

    def __init__(self, store: CorrespondentStore, report: Callable[[str, int], object]) -> None:
        self._store = store
        self._report = report
        self._queue: asyncio.Queue[SentMail] = asyncio.Queue(MAX_QUEUED)
        self._last = self._erasure = b""  # the last entry that was read, and the last erasure
        self._is_whole = False
        self._expired_at = 0.0
        self._facts = self._new_facts()
        self.loaded = asyncio.Event()
        """Whether all that is stored has been read once."""

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

    async def update(self) -> None:
        """Read what is new since the last time; all after a failure, since another server may answer then.

        Raises ``StoreUnavailable``.
        """
        was_whole, self._is_whole = self._is_whole, False
        if was_whole:
            self._is_whole = await self._read_into(self._facts)
        while not self._is_whole:
            facts, self._last = self._new_facts(), b""
            if await self._read_into(facts):
                self._facts, self._is_whole = facts, True
        self.loaded.set()
        if time.monotonic() > self._expired_at + _EXPIRE_SECONDS:
            self._facts.expire(time.time())
            self._expired_at = time.monotonic()

    def _new_facts(self) -> CorrespondentFacts:
        return CorrespondentFacts(self._store.hasher, self._store.known)

    async def _read_into(self, facts: CorrespondentFacts) -> bool:
        """Add what is new; return whether nothing was erased meanwhile, which may have been read before."""
        erasure = self._erasure
        async for entry in self._store.read(self._last):
            self._last = entry.id
            if entry.is_erasure:
                self._erasure = entry.id
            if entry.facts:
                facts.add(entry.facts)
        return self._erasure == erasure

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
