"""A model of the oldest published version, 0.7.0, is used by this version, once it is migrated where need be."""

from __future__ import annotations

import time

from redis.asyncio import Redis

from nbstream import config
from nbstream.assembly.filter import make_filter
from nbstream.assembly.store import make_autolearn_model, make_model, make_recent_messages
from nbstream.filter import LessonOutcome
from nbstream.mail.message import Message
from nbstream.store.migration import migrate
from tests.store.released_models import autolearned, restore, taught

SETTINGS = config.load_settings(None)


async def restore_and_migrate(client: Redis) -> None:
    await restore(client)
    await migrate(client, SETTINGS.model.name, time.time())


async def test_what_it_learned_is_known_and_is_unlearned_exactly(client: Redis) -> None:
    await restore_and_migrate(client)
    model = await make_model(SETTINGS, client).open()
    spam_filter = make_filter(SETTINGS, model, model)

    for label, raw in taught():
        message = Message.parse(raw)
        assert (await spam_filter.learn(message, label, "cli")).outcome is LessonOutcome.ALREADY
        lesson = await spam_filter.unlearn(message, "cli")
        assert (lesson.outcome, lesson.label) == (LessonOutcome.UNLEARNED, label)

    totals = await client.hgetall(model.keys.totals)
    assert not any(map(int, totals.values()))
    assert await client.exists(*model.keys.counts) == 0
    assert sum([await client.zcard(key) for key in model.keys.first_scores]) == 0


async def test_what_it_learned_without_people_is_known(client: Redis) -> None:
    await restore_and_migrate(client)
    layer = await make_autolearn_model(SETTINGS, client).open()

    entries = await layer.entries([Message.parse(raw).key for _, raw in autolearned()])

    assert [entry.label for entry in entries if entry] == [label for label, _ in autolearned()]  # type: ignore[union-attr]


async def test_what_it_remembered_can_be_taught_by_its_key(client: Redis) -> None:
    await restore_and_migrate(client)
    model = await make_model(SETTINGS, client).open()
    recent = make_recent_messages(SETTINGS, model)

    for label, raw in taught()[:3]:
        message = Message.parse(raw)
        entry = await model.entry(message.key)
        checked = await recent.recall(message.key)
        assert checked
        assert entry
        assert (set(checked.tokens.all.names), entry.label) == (set(entry.tokens), label)
