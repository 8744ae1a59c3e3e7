"""``nbstream.daemon.model_lookups``."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from redis.asyncio import Redis

from nbstream.daemon.assembly.store import RedisClients
from nbstream.daemon.config import Settings
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.model_lookups import ModelLookups
from nbstream.daemon.server_parts import ServerParts
from nbstream.engine.choice import PYTHON
from nbstream.mail.message import Message
from tests.harness.samples import samples
from tests.harness.waiting import ended, until


async def test_a_message_is_explained_as_it_is_checked_now_with_what_was_learned_automatically(
    client: Redis, tmp_path: Path
) -> None:
    settings = Settings.model_validate(
        {
            "state_dir": str(tmp_path),
            "model": {"min_learned": 3},
            "verdict": {"spam": 0.6},
            "autolearn": {"ham": 0.3, "spam": 0.7},
            "relay": {"next_hop": f"maildir:{tmp_path / 'Maildir'}"},
        }
    )
    parts = ServerParts(settings, RedisClients(client, client), DaemonMetrics.create(PYTHON), PYTHON)
    assert parts.autolearner
    followed = parts.counts
    async with AsyncExitStack() as stack:
        for work in (parts.follower, parts.recent_messages):
            stack.push_async_callback(ended, asyncio.create_task(work.run()))
        learning = asyncio.create_task(parts.autolearner.run())
        stack.push_async_callback(ended, learning)
        await until(followed.loaded.is_set)
        for label, raw in samples(60):
            await parts.spam_filter.learn(Message.parse(raw), label, "test")
        for _, raw in samples(10, seed=8):
            await parts.spam_filter.check(Message.parse(raw))
        await until(lambda: followed.automatic_totals is not None and any(followed.automatic_totals.token_weights))
        await ended(learning)

        check = await parts.spam_filter.check(Message.parse(next(samples(1, seed=9))[1]))
        lookups = ModelLookups(settings, parts, lambda: parts.spam_filter.policy)
        record = await lookups.message_record(check.id)
        learned = [
            found.label
            for _, raw in samples(10, seed=8)
            if (found := await parts.model.entry(Message.parse(raw).key))
        ]
        totals = followed.automatic_totals
        assert totals
        assert totals.messages_by_label() == {"ham": learned.count("ham"), "spam": learned.count("spam")}
        assert learned
        assert record
        assert record.checked
        scorer = replace(parts.spam_filter.parts, uses_automatic=False).make_scorer(lookups.policy())
        without_layer = await scorer.check_now(check.id, record.checked.tokens)

    assert record.explanation_now.score == check.score != without_layer.score
