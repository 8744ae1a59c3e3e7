"""Programs that use the Redis streams of nbstream: they add entries, and wait for the answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from nbstream.listeners.stream.queue import MAX_TRIES
from nbstream.store.follower.follower import stream_entries
from tests.soak.chaos.journal import FeedbackOutcome, Journal, LessonAttempt, StreamRequest
from tests.soak.chaos.mails import mail
from tests.soak.chaos.site import Site
from tests.soak.chaos.teaching import key_of

STREAM_TRIES = MAX_TRIES
IN, OUT, DEAD = (f"nbstream:{{default}}:{name}" for name in ("in", "out", "dead"))
_ANSWER_SECONDS = 20.0
_RETRY_SECONDS = 0.3
_PAUSE_SECONDS = 0.4

StreamAnswer = Mapping[bytes, bytes]


class StreamClient:
    """Adds entries and waits for their answers; ``read_answers`` must run meanwhile."""

    def __init__(self, site: Site) -> None:
        self._redis = site.redis
        self._journal: Journal = site.journal
        self._waiting: dict[str, asyncio.Future[StreamAnswer]] = {}
        self._number = 0

    async def read_answers(self) -> None:
        """Read the answers until cancelled."""
        last: bytes | str = "0"
        while True:
            try:
                streams: Any = await self._redis.xread({OUT: last}, count=500, block=500)
            except RedisError:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            for entry, fields in stream_entries(streams):
                last = entry
                future = self._waiting.pop(fields[b"id"].decode(), None)
                if future and not future.done():
                    future.set_result(fields)

    async def learn(self, number: int, label: str) -> FeedbackOutcome:
        """Teach a message by an entry with a label, and write down what is known then."""
        begun = self._journal.now()
        answer = await self._ask({"raw": mail(number), "label": label})
        outcome, reply = FeedbackOutcome.UNKNOWN, "no answer"
        if answer is not None:
            outcome = FeedbackOutcome.DONE if b"outcome" in answer else FeedbackOutcome.UNKNOWN
            reply = str({name: answer.get(name) for name in (b"outcome", b"error")})
        self._journal.add_lesson(
            LessonAttempt(
                key_of(number), label, "stream", begun, self._journal.now(), outcome, reply, STREAM_TRIES
            )
        )
        return outcome

    async def check_until(self, finishing: asyncio.Event, seed: int) -> None:
        """Check messages and texts until the event is set."""
        generator = random.Random(f"{seed} stream")
        while not finishing.is_set():
            number = generator.randrange(500)
            what: dict[str, str | bytes] = (
                {"raw": mail(number)} if number % 2 else {"text": f"text {number} of a stranger"}
            )
            await self._ask(what)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _ask(self, fields: dict[str, str | bytes]) -> StreamAnswer | None:
        self._number += 1
        request_id = f"request {self._number}"
        future = self._waiting[request_id] = asyncio.Future[StreamAnswer]()
        added: dict[Any, Any] = {"id": request_id, **fields}
        entry: Any = None
        with suppress(RedisError):  # it may have been added all the same
            entry = await self._redis.xadd(IN, added)
        self._journal.add_request(StreamRequest(request_id, entry.decode() if entry else None))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await future
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(request_id, None)
