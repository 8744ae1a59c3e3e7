"""The recently checked messages: enough of each one to learn it without seeing it again.

Rules: no check waits for this. A checked message waits in a bounded queue, and one task writes the queue in
batches, a batch in one round trip. This process can recall a message before it is written; other processes see it
some hundredths of a second later. When the queue is full, Redis is unavailable or the task ends, messages are
dropped and counted: the only loss is feedback that has nothing but the id. At most ``messages`` are stored, each
for ``seconds``; a batch removes the oldest messages, at most twice as many as it adds.

An explanation is stored directly after its message, under the same key: Redis has both or neither, and a reader of
the message alone ignores the rest. The row of a message, which lists show, has a key of its own and is
forgotten with its message; see ``message_rows``.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME
from nbstream.policy.verdict import Verdict
from nbstream.store import compression
from nbstream.store.lua import lua_script
from nbstream.store.model.history import Assessment
from nbstream.store.model.ledger import split_tokens
from nbstream.store.recent import stored_form
from nbstream.store.recent.message_rows import MessageRow, normalize_address, recipient_indices
from nbstream.store.redis_errors import store_errors
from nbstream.tokens.tokens import Tokens

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.policy.check import Explanation
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.store.model.keys import ModelKeys
    from nbstream.store.settings import MemorySettings

_log = logging.getLogger(__name__)

# 300 tokens of a message with their counts take some 30 kB, and the beginning of a message for its envelope 32 kB
# at most: 16 MB in all.
MAX_QUEUED = 256
_BATCH_SIZE = 64  # 0.2 MB of most messages; what a command costs by itself is that of some 30 messages
_BATCH_BYTES = 1024 * 1024  # before it is compressed
_THREAD_BYTES = 64 * 1024  # less is compressed sooner than a thread has begun
_GATHERED_SECONDS = 0.025  # larger batches need fewer round trips for each message
_WRITTEN_SECONDS = (
    2 * _GATHERED_SECONDS
)  # by then another process has written its last check, unless Redis is slow
_PACKED_AT_ONCE = 8  # messages packed before other tasks have their turn: a tenth of a millisecond
# Before each message of a batch: the time of its check, then the sizes of its id, row and content.
_SIZES = struct.Struct("<d3I")
_READ_COUNT = 100
_LISTED, _DISCOUNTED = b"list", b"unlike"


class CheckedMessage(NamedTuple):
    """A message by its key (the ``id`` in its verdict header), with its tokens, probability and verdict.

    ``policy`` is the name of the rule that decided. ``is_listed``: a sender list decided the verdict.
    ``is_discounted``: it would be spam, were it not unlike learned spam.
    """

    key: str
    tokens: Tokens
    probability: float
    verdict: str
    policy: str = DEFAULT_RULE_NAME
    is_listed: bool = False
    is_discounted: bool = False

    def pack(self) -> bytes:
        """Return the stored form, without the key."""
        return compression.compress(self.content())

    def content(self) -> bytes:
        """Return the stored form before it is compressed; no token contains a line feed or a NUL."""
        assessment = Assessment(self.probability, self.verdict)
        marks = b" ".join([_LISTED] * self.is_listed + [_DISCOUNTED] * self.is_discounted)
        return b"\0".join((assessment.pack().encode(), self.tokens.all.joined, self.policy.encode(), marks))

    @classmethod
    def unpack(cls, key: str, packed: bytes) -> CheckedMessage:
        """Return the message that ``pack`` packed; raises ``StoreIncompatible`` if another program packed it."""
        return cls.unpack_first(key, packed)[0]

    @classmethod
    def unpack_first(cls, key: str, packed: bytes) -> tuple[CheckedMessage, bytes]:
        """Return the message at the beginning of ``packed``, and the bytes that follow it.

        Raises ``StoreIncompatible`` if another program packed it.
        """
        try:
            content, rest = compression.decompress_first(packed)
            packed_assessment, joined, policy, marks = content.split(b"\0")
            assessment = Assessment.unpack(packed_assessment)
            Verdict(assessment.verdict)  # or ValueError
            tokens, name = Tokens.from_all(split_tokens(joined)), policy.decode()
        except ValueError as error:
            raise StoreIncompatible("a checked message cannot be read: another program wrote it") from error
        has = marks.split().__contains__
        message = cls(
            key, tokens, assessment.probability, assessment.verdict, name, has(_LISTED), has(_DISCOUNTED)
        )
        return message, rest


_Argument: TypeAlias = str | float | memoryview
"""An argument of the script that writes a batch."""

BuildExplanation: TypeAlias = "Callable[[float], Explanation]"
"""Builds the explanation of a check; its argument is the time of the check, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, eq=False)
class _QueuedMessage:
    """A message that waits to be written, the time of its check, and how to build what is stored with it.

    That is its explanation and its envelope, None where there is none.
    """

    checked_at: float
    message: CheckedMessage
    build_explanation: BuildExplanation | None
    build_envelope: BuildEnvelope | None

    @property
    def explanation(self) -> Explanation | None:
        return self.build_explanation(self.checked_at) if self.build_explanation else None

    def row(self, user_of: Callable[[str], str]) -> MessageRow:
        message = self.message
        envelope = self.build_envelope() if self.build_envelope else None
        return MessageRow(
            message.key,
            self.checked_at,
            message.verdict,
            message.probability,
            message.policy,
            envelope,
            indices=tuple(recipient_indices(envelope.recipients, user_of)) if envelope else (),
        )


class RecentMessages:
    """The recently checked messages of one model in Redis.

    ``on_dropped`` is called with the number of messages that were not written, and ``on_written`` whenever Redis
    has taken some. A row has the envelope where ``memory.envelope`` is true. ``user_of`` returns the address of
    the user to whom mail for an address belongs, who is found as a recipient too.
    """

    def __init__(
        self,
        client: Redis,
        keys: ModelKeys,
        memory: MemorySettings,
        on_dropped: Callable[[int], None],
        on_written: Callable[[], object] = lambda: None,
        *,
        user_of: Callable[[str], str] = normalize_address,
    ) -> None:
        self._client = client
        self._keys = keys
        self._memory = memory
        self._user_of = user_of
        self._on_dropped = on_dropped
        self._on_written = on_written
        self._queue: deque[_QueuedMessage] = deque()
        self._unwritten: dict[str, _QueuedMessage] = {}
        # Whether any message is queued, whether a whole batch is, and whether no message waits to be written.
        self._any, self._enough, self._none = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._none.set()
        self._remember_script = client.register_script(lua_script("remember.lua"))
        self._writing = True
        # One of its own: what others do in the common threads may take long. It starts none before it is used.
        self._compressing = ThreadPoolExecutor(1, thread_name_prefix="compression")

    def remember(
        self,
        message: CheckedMessage,
        build_explanation: BuildExplanation | None = None,
        build_envelope: BuildEnvelope | None = None,
    ) -> None:
        """Queue the message to be written soon, and return at once.

        ``build_explanation`` and ``build_envelope`` are called when the message is written.
        """
        if not self._memory.messages:
            return
        queue = self._queue
        if len(queue) >= MAX_QUEUED:
            self._on_dropped(1)
            return
        queued = _QueuedMessage(
            time.time(),
            message,
            build_explanation,
            build_envelope if self._memory.envelope else None,
        )
        queue.append(queued)
        self._unwritten[message.key] = queued
        if len(queue) == 1:
            self._any.set()
            self._none.clear()
        elif len(queue) == _BATCH_SIZE:
            self._enough.set()

    async def run(self) -> None:
        """Write queued messages until cancelled; those that still wait then are dropped and counted."""
        try:
            while True:
                await self._any.wait()
                if len(self._queue) < _BATCH_SIZE:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_GATHERED_SECONDS):
                            await self._enough.wait()
                await self._write_next_batch()
        except asyncio.CancelledError:
            self._on_dropped(len(self._queue))
            raise

    async def _write_next_batch(self) -> None:
        batch: list[_QueuedMessage] = []
        written = False
        try:
            packed = await self._pack_batch(batch)
            now, seconds, keys = time.time(), self._memory.hours * 3600, self._keys
            args: list[_Argument] = [seconds, now - seconds, self._memory.messages]
            args += keys.checked(""), keys.row(""), keys.rows_to(""), len(batch), memoryview(packed)
            with store_errors():
                await self._remember_script(keys=[keys.recent], args=args)
            written = self._writing = True
            self._on_written()
        except StoreUnavailable as error:
            if self._writing:  # logged once, not for each batch of an outage
                _log.warning("checked messages are not remembered now: %s", error)
            self._writing = False
        finally:
            if not written:  # or cancelled: then it may have been written all the same
                self._on_dropped(len(batch))
            for queued in batch:
                key = queued.message.key
                if self._unwritten.get(key) is queued:  # else the message was checked again meanwhile
                    del self._unwritten[key]
            if len(self._queue) < _BATCH_SIZE:
                self._enough.clear()
            if not self._queue:
                self._any.clear()
                self._none.set()

    async def wait_until_written(self) -> None:
        """Return when no message waits to be written."""
        await self._none.wait()

    async def recall(self, message_key: str) -> CheckedMessage | None:
        """Return the message, or None if it is not remembered; raises ``StoreUnavailable``."""
        if message_key in self._unwritten:
            return self._unwritten[message_key].message
        packed = await self._read_stored(message_key)
        return CheckedMessage.unpack(message_key, packed) if packed else None

    async def recall_with_explanation(
        self, message_key: str, *, wait: bool = True
    ) -> tuple[CheckedMessage, Explanation | None] | None:
        """Return the message and its explanation, or None if the message is not remembered.

        The explanation is None if only the message is remembered. With ``wait`` a message that another process is
        about to write is waited for; without it a whole folder is looked up sooner. Raises ``StoreUnavailable``.
        """
        if message_key in self._unwritten:
            queued = self._unwritten[message_key]
            return queued.message, queued.explanation
        packed = await (self._read_stored(message_key) if wait else self._get_stored(message_key))
        if not packed:
            return None
        message, packed_explanation = CheckedMessage.unpack_first(message_key, packed)
        if not packed_explanation:
            return message, None
        return message, stored_form.unpack_explanation(packed_explanation, message.tokens)

    async def newest(self, count: int) -> AsyncIterator[CheckedMessage]:
        """Yield at most ``count`` remembered messages, the newest first; raises ``StoreUnavailable``.

        A message that has expired or cannot be read does not hide the others.
        """
        for first in range(0, count, _READ_COUNT):
            last = min(first + _READ_COUNT, count) - 1
            with store_errors():
                keys: Any = await self._client.zrevrange(self._keys.recent, first, last)
            for message in await self._read_all(keys):
                if message:
                    yield message
            if len(keys) <= last - first:
                return

    async def oldest_between(
        self, after: float, until: float, count: int
    ) -> AsyncIterator[tuple[float, CheckedMessage | None]]:
        """Yield the ``count`` oldest messages that were checked after the first time and up to the second one.

        Times are in seconds since the epoch; each message comes with that of its check, and is None where it has
        expired or cannot be read. Raises ``StoreUnavailable``.
        """
        with store_errors():
            found: Any = await self._client.zrange(
                self._keys.recent, f"({after!r}", f"{until!r}", byscore=True, withscores=True, offset=0, num=count
            )
        messages = await self._read_all([key for key, _ in found])
        for (_, checked_at), message in zip(found, messages, strict=True):
            yield checked_at, message

    async def _read_all(self, keys: Sequence[bytes]) -> list[CheckedMessage | None]:
        """Return the messages with these keys; None for each that has expired, or cannot be read."""
        names = [key.decode("utf-8", "replace") for key in keys]
        with store_errors():
            values: Any = await self._client.mget(map(self._keys.checked, names)) if names else []
        messages: list[CheckedMessage | None] = []
        for name, packed in zip(names, values, strict=True):
            message = None
            if packed:
                try:
                    message = CheckedMessage.unpack(name, packed)
                except StoreIncompatible as error:
                    _log.debug("a message is left out: %s", error)
            messages.append(message)
        return messages

    async def _read_stored(self, message_key: str) -> bytes | None:
        """Return what is stored of the message; wait once, as another process may be about to write it."""
        packed = await self._get_stored(message_key)
        if packed is None:
            await asyncio.sleep(_WRITTEN_SECONDS)
            packed = await self._get_stored(message_key)
        return packed

    async def _get_stored(self, message_key: str) -> bytes | None:
        with store_errors():
            packed: Any = await self._client.get(self._keys.checked(message_key))
        return packed  # type: ignore[no-any-return]  # untyped replies

    async def _pack_batch(self, batch: list[_QueuedMessage]) -> bytes:
        """Take a batch of the queue, and return what the script reads of it."""
        queue, size = self._queue, 0
        contents: list[bytes] = []
        others: list[tuple[bytes, bytes, bytes]] = []
        while queue and len(batch) < _BATCH_SIZE and size < _BATCH_BYTES:
            queued = queue.popleft()
            batch.append(queued)
            contents.append(queued.message.content())
            size += len(contents[-1])
            others.append(self._pack_others(queued))
            if len(batch) % _PACKED_AT_ONCE == 0:
                await asyncio.sleep(0)
        compressed = await self._compress_all(contents, size)
        parts: list[bytes] = []
        for queued, content, (key, row, explanation) in zip(batch, compressed, others, strict=True):
            sizes = len(key), len(row), len(content) + len(explanation)
            parts += _SIZES.pack(queued.checked_at, *sizes), key, row, content, explanation
        return b"".join(parts)

    async def _compress_all(self, contents: Sequence[bytes], size: int) -> list[bytes]:
        """Return these contents of ``size`` bytes, each compressed; many of them in the thread for it."""
        if size > _THREAD_BYTES and compression.COMPRESSES_AT_ONCE:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._compressing, compression.compress_at_once, contents)
        return list(map(compression.compress, contents))

    def _pack_others(self, queued: _QueuedMessage) -> tuple[bytes, bytes, bytes]:
        """Return the id of a message, its row, and its explanation, which may be empty."""
        message, explanation = queued.message, queued.explanation
        return (
            message.key.encode(),
            queued.row(self._user_of).pack(),
            stored_form.pack_explanation(explanation) if explanation else b"",
        )
