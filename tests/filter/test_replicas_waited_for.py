"""Feedback that too few replicas have is not acknowledged, and neither is its repeat, until they have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.errors import StoreRefuses
from nbstream.filter import FeedbackOutcome, Filter
from nbstream.store.model.commit import ReplicaWaitOptions
from nbstream.store.model.model import Model
from tests.harness.filters import PRIZE, make_filter, with_parts
from tests.harness.redis.redis_server import RedisServer
from tests.harness.redis.replicas import Pair, replicated


def waiting_filter(pair: Pair, seconds: float) -> Filter:
    model = Model(pair.at_primary, "test", 3600, replica_wait=ReplicaWaitOptions(1, seconds))
    return with_parts(make_filter(pair.at_primary), model=model)


@pytest.mark.parametrize("label", ["spam", None])
async def test_a_repeat_of_what_is_done_already_waits_for_the_replicas_too(
    own_redis: RedisServer, tmp_path: Path, label: str | None
) -> None:
    async with replicated(own_redis, tmp_path / "replica") as pair:
        if label is None:
            await waiting_filter(pair, 10).learn(PRIZE, "spam", "test")
        hasty = waiting_filter(pair, 0.2)
        pair.replica.hang()
        try:
            for _ in range(3):
                with pytest.raises(StoreRefuses):
                    await (hasty.learn(PRIZE, label, "test") if label else hasty.unlearn(PRIZE, "test"))
        finally:
            pair.replica.go_on()

        patient = waiting_filter(pair, 10)
        lesson = await (patient.learn(PRIZE, label, "test") if label else patient.unlearn(PRIZE, "test"))

        assert lesson.outcome == (FeedbackOutcome.ALREADY if label else FeedbackOutcome.UNKNOWN)
        at_replica = await Model(pair.at_replica, "test", 3600).totals()
        assert at_replica.messages == (0, 1 if label else 0)
