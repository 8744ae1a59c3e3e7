"""What is remembered, for a while, of the messages that were checked: enough to learn one without seeing it again.

Rules: no check waits for this. What is fed to it waits in a bounded queue, and one task writes what is there, a
batch in one round trip. Where the queue is full or Redis is away it is dropped, and that is counted: nothing is
missed but feedback that has only the id. At most ``messages`` are kept, each for ``seconds``; a batch removes the
oldest, at most twice as many as it brings.

An explanation is kept behind its message, under the same key: both are there, or neither, and whoever asks for the
message alone, an older nbstream too, reads past its end.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.store import explained
from nbstream.store.history import Opinion
from nbstream.store.ledger import inflate, join, split
from nbstream.store.model import store_errors
from nbstream.tokens.tokenizer import Tokens

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.policy.explanation import Explanation
    from nbstream.store.keys import Keys

_log = logging.getLogger(__name__)

QUEUED = 256  # 300 tokens of a message with their counts take some 30 kB: 8 MB
_BATCH = 32
_READ = 100
_LEVEL = 1  # as in the ledger


@dataclass(frozen=True, slots=True)
class Checked:
    """A message by its key (the ``id`` in its verdict header), with its tokens and what was thought of it."""

    key: str
    tokens: Tokens
    probability: float
    verdict: str

    def pack(self) -> bytes:
        """As it is stored, without its key: no token holds a line feed or a NUL."""
        sections = (
            Opinion(self.probability, self.verdict).pack().encode(),
            join(self.tokens.head),
            join(self.tokens.body),
            join([f"{name} {value}".encode() for name, value in self.tokens.attributes]),
            join([b"%s %d" % (name.encode(), number) for name, number in self.tokens.numbers]),
        )
        return zlib.compress(b"\0".join(sections), _LEVEL)

    @classmethod
    def unpack(cls, key: str, packed: bytes) -> Checked:
        """What ``pack`` packed. Raises ``StoreIncompatible`` for what is none of this program's."""
        try:
            opinion, head, body, attributes, numbers = inflate(packed).split(b"\0")
            thought = Opinion.unpack(opinion)
            tokens = Tokens(
                split(head),
                split(body),
                tuple(_pair(each) for each in split(attributes)),
                tuple((name, int(number)) for name, number in map(_pair, split(numbers))),
            )
        except (ValueError, zlib.error) as error:
            raise StoreIncompatible("a checked message cannot be read: another program wrote it") from error
        return cls(key, tokens, thought.probability, thought.verdict)


def behind(packed: bytes) -> bytes:
    """What stands behind a packed message."""
    decompressor = zlib.decompressobj()
    decompressor.decompress(packed)
    return decompressor.unused_data


def _pair(stored: bytes) -> tuple[str, str]:
    name, _, value = stored.decode().partition(" ")
    return name, value


@dataclass(frozen=True, slots=True)
class Params:
    """For how long a message is remembered, and how many are; 0 messages: none, and nothing is written.

    ``explanations``: whether it is also remembered why a message was called what it was called.
    """

    seconds: int = 72 * 3600
    messages: int = 20_000
    explanations: bool = True


Explain: TypeAlias = "Callable[[float], Explanation]"
"""Makes the explanation of a check at that time, in seconds since the epoch."""


class Memory:
    """The checked messages of one model in Redis; ``dropped`` is told how many were not written."""

    def __init__(self, client: Redis, keys: Keys, params: Params, dropped: Callable[[int], None]) -> None:
        self._client = client
        self._keys = keys
        self._params = params
        self._dropped = dropped
        self._queue: asyncio.Queue[tuple[float, Checked, Explain | None]] = asyncio.Queue(QUEUED)
        self._writing = True

    def remember(self, checked: Checked, explain: Explain | None = None) -> None:
        """Have it written soon, with its explanation, which is made then; returns at once."""
        if not self._params.messages:
            return
        try:
            self._queue.put_nowait((time.time(), checked, explain if self._params.explanations else None))
        except asyncio.QueueFull:
            self._dropped(1)

    async def run(self) -> None:
        """Write what is fed, until cancelled."""
        while True:
            batch = [await self._queue.get()]
            while len(batch) < _BATCH and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                await self._write(batch)
                self._writing = True
            except StoreUnavailable as error:
                self._dropped(len(batch))
                if self._writing:  # once, not for each batch of an outage
                    _log.warning("checked messages are not remembered now: %s", error)
                self._writing = False
            finally:
                for _ in batch:
                    self._queue.task_done()

    async def settled(self) -> None:
        """Return when nothing waits to be written."""
        await self._queue.join()

    async def recall(self, message_key: str) -> Checked | None:
        """The message, if it is remembered. Raises ``StoreUnavailable``."""
        packed = await self._read(message_key)
        return Checked.unpack(message_key, packed) if packed else None

    async def explained(self, message_key: str) -> tuple[Checked, Explanation | None] | None:
        """The message, if it is remembered, and its explanation, if that is. Raises ``StoreUnavailable``."""
        packed = await self._read(message_key)
        if not packed:
            return None
        checked, rest = Checked.unpack(message_key, packed), behind(packed)
        return checked, explained.unpack(rest, checked.tokens.all) if rest else None

    async def recent(self, count: int) -> AsyncIterator[Checked]:
        """At most ``count`` of those that are remembered, the newest first. Raises ``StoreUnavailable``."""
        for first in range(0, count, _READ):
            last = min(first + _READ, count) - 1
            with store_errors():
                names: Any = await self._client.zrevrange(self._keys.recent, first, last)
                found: Any = await self._client.mget(map(self._stored, names)) if names else []
            for name, packed in zip(names, found, strict=True):
                if packed:  # else it has expired meanwhile
                    yield Checked.unpack(name.decode(), packed)
            if len(names) <= last - first:
                return

    async def _read(self, message_key: str) -> bytes | None:
        with store_errors():
            packed: Any = await self._client.get(self._keys.checked(message_key))
        return packed  # type: ignore[no-any-return]  # untyped replies

    def _stored(self, name: bytes) -> str:
        return self._keys.checked(name.decode())

    async def _write(self, batch: Sequence[tuple[float, Checked, Explain | None]]) -> None:
        packed = []
        for at, checked, explain in batch:
            why = explained.pack(explain(at), checked.tokens.all) if explain else b""
            packed.append((self._keys.checked(checked.key), checked.pack() + why))
            await asyncio.sleep(0)  # 0.3 ms each: no check waits longer for its turn
        with store_errors():
            async with self._client.pipeline(transaction=False) as pipe:
                for name, value in packed:
                    pipe.set(name, value, ex=self._params.seconds)
                pipe.zadd(self._keys.recent, {checked.key: at for at, checked, _ in batch})
                pipe.expire(self._keys.recent, self._params.seconds)
                pipe.zremrangebyscore(self._keys.recent, "-inf", time.time() - self._params.seconds)
                pipe.zrange(self._keys.recent, 0, 2 * len(batch) - 1)
                pipe.zcard(self._keys.recent)
                *_, oldest, kept = await pipe.execute()
            surplus = oldest[: max(0, kept - self._params.messages)]
            if surplus:
                async with self._client.pipeline(transaction=True) as pipe:
                    pipe.zrem(self._keys.recent, *surplus)
                    pipe.unlink(*map(self._stored, surplus))
                    await pipe.execute()
