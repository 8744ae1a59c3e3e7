"""How often a lesson waits for Redis, where its filter has a follower."""

from __future__ import annotations

from pathlib import Path

from redis.asyncio import Redis

from nbstream.filter import FeedbackResult
from nbstream.mail.message import Message
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.model import Model
from tests.harness.filters import PRIZE, make_filter
from tests.harness.followers import running
from tests.harness.redis.proxy import Fate, Proxy
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples


async def test_a_lesson_takes_one_round_trip_and_relearning_and_unlearning_two(
    client: Redis, shared_redis: RedisServer, tmp_path: Path
) -> None:
    requests: list[bytes] = []

    async def count(request: bytes) -> Fate:
        requests.append(request)
        return Fate.PASS

    async with (
        Proxy(shared_redis.socket, tmp_path / "s", count) as way,
        running(FollowedCounts(Model(client, "test", 3600))) as followed,
    ):
        counted = open_client(ConnectionOptions(way.url))
        spam_filter = make_filter(counted, counts=followed)
        for label, raw in samples(5):  # Redis knows the script then, and the connection is open
            await spam_filter.learn(Message.parse(raw), label, "test")

        async def taught(label: str | None) -> tuple[str, int]:
            requests.clear()
            lesson: FeedbackResult = await (
                spam_filter.learn(PRIZE, label, "test") if label else spam_filter.unlearn(PRIZE, "test")
            )
            return str(lesson.outcome), len(requests)

        results = [await taught(label) for label in ("spam", "spam", "ham", None, None)]
        await counted.aclose()

    assert results == [("learned", 1), ("already", 1), ("relearned", 2), ("unlearned", 2), ("unknown", 1)]
