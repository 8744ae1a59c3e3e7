"""The model: what it has learned, and whether people still teach it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.daemon import model_lookups
from nbstream.daemon.assembly.parts import open_one_shot_filter
from nbstream.doctor import model
from nbstream.doctor.examination import Site
from nbstream.doctor.model import examine_model
from nbstream.findings import Finding
from nbstream.mail.message import Message
from nbstream.policy.feedback_source import FeedbackSource
from nbstream.store.model.keys import ModelKeys
from tests.harness.examined_sites import NO_DAEMON, make_site, the, wrong
from tests.harness.filters import labelled
from tests.harness.redis.redis_server import RedisServer

KEYS = ModelKeys("default")


class TaughtSite:
    """A site whose model is taught; ``settings`` are lines of its configuration."""

    def __init__(self, server: RedisServer, folder: Path) -> None:
        self._url = server.url
        self._folder = folder

    def site(self, settings: str = "", needed: int = 1) -> Site:
        model_settings = f"model: {{min_learned: {needed}}}\n"
        text = settings if "model:" in settings else model_settings + settings
        return make_site(self._folder, f"redis: {{url: '{self._url}'}}\n{text}", NO_DAEMON)

    async def teach(self, label: str, count: int, settings: str = "", text: str = "") -> None:
        async def messages() -> AsyncIterator[Message]:
            for number in range(count):
                yield Message.parse(f"Subject: {label} {number}\n\n{text or label} word{number}\n".encode())

        async with open_one_shot_filter(self.site(settings).settings, sign=True) as (spam_filter, _):
            await spam_filter.learn_many(
                labelled(messages(), label), FeedbackSource("learn", "ann"), lambda _: None
            )

    async def findings(self, settings: str = "", needed: int = 1) -> list[Finding]:
        return list(await examine_model(self.site(settings, needed)))


@pytest.fixture
async def taught(client: Redis, shared_redis: RedisServer, tmp_path: Path) -> TaughtSite:
    return TaughtSite(shared_redis, tmp_path)


async def test_a_model_that_both_classes_are_taught_to_is_fine(taught: TaughtSite) -> None:
    await taught.teach("spam", 2)
    await taught.teach("ham", 2)

    found = await taught.findings()

    assert wrong(found) == []
    assert "50%" in the(found, model_lookups.LEARNED).what
    assert (
        "2 spam and 2 ham" in the(found, model.FEEDBACK).what
        or "2 ham and 2 spam" in the(found, model.FEEDBACK).what
    )
    the(found, model.FORMAT)


async def test_a_model_that_nobody_taught_says_what_it_needs(taught: TaughtSite) -> None:
    found = await taught.findings(needed=50)

    assert "50 spam and 50 ham" in the(found, model_lookups.LEARNING).what
    the(found, model.NOT_TAUGHT)


async def test_a_model_of_one_class_is_one_sided(taught: TaughtSite) -> None:
    await taught.teach("spam", 30)

    found = await taught.findings(needed=0)

    assert "0%" in the(found, model_lookups.ONE_SIDED).what
    assert "30 messages were taught as spam" in the(found, model.ONLY_ONE_CLASS).what


async def test_a_model_of_another_format_cannot_be_used(taught: TaughtSite, client: Redis) -> None:
    await taught.teach("spam", 1)
    await client.hset(KEYS.schema, "format", "999")

    assert "format 999" in the(await taught.findings(), model.UNUSABLE).what


async def test_a_vocabulary_at_its_limit_is_noted(taught: TaughtSite, client: Redis) -> None:
    await taught.teach("spam", 1)
    await client.hset(KEYS.totals, "vocabulary", "9990")

    the(await taught.findings("model: {max_tokens: 10000}\n"), model_lookups.TOKENS_FULL)


BUDGET = "verdict: {max_false_positive_rate: 0.1}\n"


async def test_a_budget_needs_labelled_ham(taught: TaughtSite) -> None:
    await taught.teach("ham", 3, BUDGET)

    assert "26 more" in the(await taught.findings(BUDGET), model_lookups.BUDGET_LEARNING).what


def prequential_score(number: int, probability: float) -> bytes:
    return f"{1000.0 + number!r} m{number} {probability!r}".encode()


async def test_a_budget_that_is_guaranteed_and_misses_most_spam_is_a_warning(
    taught: TaughtSite, client: Redis
) -> None:
    for label in ("spam", "ham"):
        await taught.teach(label, 1, BUDGET)
    ham = {
        f"{1e3 + number!r} h{number} {0.99 if number < 6 else 0.1}".encode(): 1e3 + number for number in range(40)
    }
    await client.zadd(KEYS.prequential_scores[0], ham)
    spam = {f"{4e9 + number!r} s{number} 0.9".encode(): 4e9 + number for number in range(60)}
    await client.zadd(KEYS.prequential_scores[1], spam)

    assert (
        "100% of the labelled spam" in the(await taught.findings(BUDGET), model_lookups.BUDGET_CATCHES_LITTLE).what
    )
