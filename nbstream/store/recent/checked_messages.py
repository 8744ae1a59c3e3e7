"""What is remembered, for a while, of the messages that were checked: enough to learn one without seeing it again.

Rules: no check waits for this. What is fed to it waits in a bounded queue, and one task writes what has gathered,
a batch in one round trip; who asks here for what is not written yet is answered, others see it some milliseconds
later. Where the queue is full, Redis is away or the task ends it is dropped, and that is counted: nothing is
missed but feedback that has only the id. At most ``messages`` are kept, each for ``seconds``; a batch removes the
oldest, at most twice as many as it brings.

An explanation is kept behind its message, under the same key: both are there, or neither, and who asks for the
message alone reads past its end. What was kept before there was a dictionary is read; a program of that time
cannot read what is deflated with one, and says so.
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
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME
from nbstream.store.model.history import Assessment
from nbstream.store.model.ledger import inflate_first, join_tokens, split_tokens
from nbstream.store.model.model import lua_script, store_errors
from nbstream.store.recent import explanations
from nbstream.tokens.tokenizer import Tokens

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.policy.explanation import Explanation
    from nbstream.store.model.keys import ModelKeys

_log = logging.getLogger(__name__)

MAX_QUEUED = 256  # 300 tokens of a message with their counts take some 30 kB: 8 MB
_BATCH_SIZE = 32
_GATHERED_SECONDS = 0.025  # a message in a batch of 32 takes a tenth of what one alone takes to send, of 4 a third
_WRITTEN_SECONDS = 3 * _GATHERED_SECONDS  # until what was just checked elsewhere is written, unless Redis is slow
_PACKED_AT_ONCE = 4  # packed before others have their turn: 0.3 ms
_READ_COUNT = 100
_ZLIB_LEVEL = 1  # as in the ledger
_WINDOW_BITS, _MEMORY_LEVEL = 12, 5  # 32 kB to write to for each message, not 256, and as small
# Deflated with it a message is smaller by a tenth, at no cost. Part of what is stored: with another one, what is
# there already cannot be read. The most frequent at the end.
_DICTIONARY = b"\n".join(
    b"""
    body:please body:click body:free body:email body:here body:http body:www body:com url.scheme:https
    url.scheme:http url.path:html url.path:index absent:reply-to x-mailer:microsoft x-mailer:outlook
    x-priority:3 field:X-Mailer field:Reply-To field:List-Id field:Content-Transfer-Encoding
    encoding:quoted-printable:t/html encoding:8bit:t/plain encoding:7bit:t/plain
    content-transfer-encoding:7bit content-type:text/plain type:multipart/alternative charset:us-ascii
    charset:utf-8 tree:0t/plain order:subject>date order:from>to order:message-id>date order:to>subject
    order:mime-version>content-type same-domain:return-path:True same-domain:message-id:False
    date.shape:Aa,_9_Aa_9_9:9:9_-9 from.shape:"a_a"_<a@a> return-path.shape:<a@a> return-path.addresses:1
    from.local:a to.local:a to.shape:a@a subject.length: received:2 mime-version:1.0 field:MIME-Version
    field:Message-ID field:Content-Type field:Subject field:Date field:From field:To field:Received
    field:Return-Path from.addresses:1 to.addresses:1 type:text/html type:text/plain kind:text:1 parts:1
    size:t/plain: body:was body:on body:this body:is body:if body:not body:be body:with body:that body:your
    body:you body:in body:for body:of body:and body:to body:a body:the
    """.split()
)


@dataclass(frozen=True, slots=True)
class CheckedMessage:
    """A message by its key (the ``id`` in its verdict header), with its tokens and what was thought of it.

    ``policy`` is the name of the treatment that decided.
    """

    key: str
    tokens: Tokens
    probability: float
    verdict: str
    policy: str = DEFAULT_RULE_NAME

    def pack(self) -> bytes:
        """As it is stored, without its key: no token holds a line feed or a NUL."""
        sections = [
            Assessment(self.probability, self.verdict).pack().encode(),
            join_tokens(self.tokens.head),
            join_tokens(self.tokens.body),
            join_tokens([f"{name} {value}".encode() for name, value in self.tokens.attributes]),
            join_tokens([b"%s %d" % (name.encode(), number) for name, number in self.tokens.numbers]),
        ]
        if self.policy != DEFAULT_RULE_NAME:
            sections.append(self.policy.encode())
        packing = zlib.compressobj(_ZLIB_LEVEL, wbits=_WINDOW_BITS, memLevel=_MEMORY_LEVEL, zdict=_DICTIONARY)
        return packing.compress(b"\0".join(sections)) + packing.flush()

    @classmethod
    def unpack(cls, key: str, packed: bytes) -> CheckedMessage:
        """What ``pack`` packed. Raises ``StoreIncompatible`` for what is none of this program's."""
        return cls.unpack_first(key, packed)[0]

    @classmethod
    def unpack_first(cls, key: str, packed: bytes) -> tuple[CheckedMessage, bytes]:
        """The same, and what stands behind it."""
        try:
            joined, behind = inflate_first(packed, _DICTIONARY)
            opinion, head, body, attributes, numbers, *decided = joined.split(b"\0")
            (policy,) = decided or [DEFAULT_RULE_NAME.encode()]
            thought = Assessment.unpack(opinion)
            name = policy.decode()
            tokens = Tokens(
                split_tokens(head),
                split_tokens(body),
                tuple(_pair(each) for each in split_tokens(attributes)),
                tuple((name, int(number)) for name, number in map(_pair, split_tokens(numbers))),
            )
        except (ValueError, zlib.error) as error:
            raise StoreIncompatible("a checked message cannot be read: another program wrote it") from error
        return cls(key, tokens, thought.probability, thought.verdict, name), behind


def _pair(stored: bytes) -> tuple[str, str]:
    name, _, value = stored.decode().partition(" ")
    return name, value


@dataclass(frozen=True, slots=True)
class RecentMessagesOptions:
    """For how long a message is remembered, and how many are; 0 messages: none, and nothing is written.

    ``explanations``: whether it is also remembered why a message was called what it was called.
    """

    seconds: int = 72 * 3600
    messages: int = 20_000
    explanations: bool = True


BuildExplanation: TypeAlias = "Callable[[float], Explanation]"
"""Makes the explanation of a check at that time, in seconds since the epoch."""


_QueuedMessage: TypeAlias = "tuple[float, CheckedMessage, BuildExplanation | None]"


class RecentMessages:
    """The checked messages of one model in Redis; ``dropped`` is told how many were not written."""

    def __init__(
        self, client: Redis, keys: ModelKeys, params: RecentMessagesOptions, dropped: Callable[[int], None]
    ) -> None:
        self._client = client
        self._keys = keys
        self._options = params
        self._on_dropped = dropped
        self._queue: asyncio.Queue[_QueuedMessage] = asyncio.Queue(MAX_QUEUED)
        self._unwritten: dict[str, _QueuedMessage] = {}
        self._remember_script = client.register_script(lua_script("remember.lua"))
        self._writing = True

    def remember(self, checked: CheckedMessage, explain: BuildExplanation | None = None) -> None:
        """Have it written soon, with its explanation, which is made then; returns at once."""
        if not self._options.messages:
            return
        fed = time.time(), checked, explain if self._options.explanations else None
        try:
            self._queue.put_nowait(fed)
        except asyncio.QueueFull:
            self._on_dropped(1)
        else:
            self._unwritten[checked.key] = fed

    async def run(self) -> None:
        """Write what is fed, until cancelled; what waits then is dropped, and counted."""
        try:
            while True:
                await self._write_next_batch()
        finally:
            self._on_dropped(self._queue.qsize())

    async def _write_next_batch(self) -> None:
        batch = [await self._queue.get()]
        lost = True
        try:
            if self._queue.qsize() < _BATCH_SIZE:
                await asyncio.sleep(_GATHERED_SECONDS)
            while len(batch) < _BATCH_SIZE and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            await self._write_batch(batch)
            lost, self._writing = False, True
        except StoreUnavailable as error:
            if self._writing:  # once, not for each batch of an outage
                _log.warning("checked messages are not remembered now: %s", error)
            self._writing = False
        finally:
            if lost:  # or cancelled: then it may have been written all the same
                self._on_dropped(len(batch))
            for fed in batch:
                if self._unwritten.get(fed[1].key) is fed:  # else it was checked again meanwhile
                    del self._unwritten[fed[1].key]
                self._queue.task_done()

    async def wait_until_written(self) -> None:
        """Return when nothing waits to be written."""
        await self._queue.join()

    async def recall(self, message_key: str) -> CheckedMessage | None:
        """The message, if it is remembered. Raises ``StoreUnavailable``."""
        if message_key in self._unwritten:
            return self._unwritten[message_key][1]
        packed = await self._read_stored(message_key)
        return CheckedMessage.unpack(message_key, packed) if packed else None

    async def recall_with_explanation(
        self, message_key: str, *, wait: bool = True
    ) -> tuple[CheckedMessage, Explanation | None] | None:
        """The message, if it is remembered, and its explanation, if that is. Raises ``StoreUnavailable``.

        Without ``wait`` what another process has checked just now may be missed; a folder is explained sooner.
        """
        if message_key in self._unwritten:
            at, checked, explain = self._unwritten[message_key]
            return checked, explain(at) if explain else None
        packed = await (self._read_stored(message_key) if wait else self._get_stored(message_key))
        if not packed:
            return None
        checked, why = CheckedMessage.unpack_first(message_key, packed)
        return checked, explanations.unpack_explanation(why, checked.tokens.all) if why else None

    async def newest(self, count: int) -> AsyncIterator[CheckedMessage]:
        """At most ``count`` of those that are remembered, the newest first. Raises ``StoreUnavailable``."""
        for first in range(0, count, _READ_COUNT):
            last = min(first + _READ_COUNT, count) - 1
            with store_errors():
                names: Any = await self._client.zrevrange(self._keys.recent, first, last)
                found: Any = await self._client.mget(map(self._stored_key, names)) if names else []
            for name, packed in zip(names, found, strict=True):
                if packed:  # else it has expired meanwhile
                    yield CheckedMessage.unpack(name.decode(), packed)
            if len(names) <= last - first:
                return

    async def _read_stored(self, message_key: str) -> bytes | None:
        """What is stored of the message; another process may have checked it, and be about to write it."""
        packed = await self._get_stored(message_key)
        if packed is None:
            await asyncio.sleep(_WRITTEN_SECONDS)
            packed = await self._get_stored(message_key)
        return packed

    async def _get_stored(self, message_key: str) -> bytes | None:
        with store_errors():
            packed: Any = await self._client.get(self._keys.checked(message_key))
        return packed  # type: ignore[no-any-return]  # untyped replies

    def _stored_key(self, name: bytes) -> str:
        return self._keys.checked(name.decode())

    async def _write_batch(self, batch: Sequence[_QueuedMessage]) -> None:
        now, params = time.time(), self._options
        args: list[str | bytes | int | float]
        args = [params.seconds, now - params.seconds, params.messages, self._keys.checked("")]
        for place, (at, checked, explain) in enumerate(batch, 1):
            why = explanations.pack_explanation(explain(at), checked.tokens.all) if explain else b""
            args += at, checked.key, checked.pack() + why
            if place % _PACKED_AT_ONCE == 0:
                await asyncio.sleep(0)
        with store_errors():
            await self._remember_script(keys=[self._keys.recent], args=args)
