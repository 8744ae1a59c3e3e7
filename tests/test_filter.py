"""The filter's three verbs on a real Redis."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.filter import Check, Filter, Lesson, Outcome, Params, Silent
from nbstream.mail.message import Message
from nbstream.policy.verdict import Thresholds, Verdict
from nbstream.store.connect import Params as StoreParams
from nbstream.store.connect import open_client
from nbstream.store.mirror import Mirror
from nbstream.store.model import Model
from nbstream.tokens.tokenizer import Tokenizer
from tests.conftest import RedisServer
from tests.letters import letters

PRIZE = Message.parse(b"From: win@example.com\nSubject: prize\n\nClaim your free prize now\n")


class Recorder(Silent):
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.checks: list[tuple[Check, Mapping[str, float]]] = []
        self.lessons: list[tuple[Lesson, str]] = []

    def checked(self, check: Check, stages: Mapping[str, float]) -> None:
        self.checks.append((check, stages))

    def taught(self, lesson: Lesson, source: str) -> None:
        self.lessons.append((lesson, source))


def make_filter(
    client: Redis, needed: int = 1, observer: Recorder | None = None, counts: Mirror | None = None
) -> Filter:
    model = Model(client, "test", 3600)
    return Filter(
        tokenizer=Tokenizer(),
        classifier=Classifier(),
        calibration=Calibration(),
        model=model,
        counts=counts or model,
        params=Params(Thresholds(), {"spam": needed, "ham": needed}),
        observer=observer,
    )


async def test_an_empty_model_says_that_it_is_learning(client: Redis) -> None:
    check = await make_filter(client).check(PRIZE)

    assert (check.verdict, check.probability, check.score, check.reason) == (
        Verdict.UNSURE,
        0.5,
        0.0,
        "learning 0/2",
    )
    assert check.id == PRIZE.key


async def test_feedback_says_what_it_did(client: Redis) -> None:
    spam_filter = make_filter(client)

    outcomes = [
        (await spam_filter.learn(PRIZE, "spam", "test")).outcome,
        (await spam_filter.learn(PRIZE, "spam", "test")).outcome,
        (await spam_filter.learn(PRIZE, "ham", "test")).outcome,
        (await spam_filter.unlearn(PRIZE, "test")).outcome,
        (await spam_filter.unlearn(PRIZE, "test")).outcome,
    ]

    assert outcomes == [*[Outcome.LEARNED, Outcome.ALREADY, Outcome.RELEARNED], Outcome.UNLEARNED, Outcome.UNKNOWN]
    model = Model(client, "test", 3600)
    assert not await client.exists(model.keys.totals, *model.keys.counts, model.keys.ledger(PRIZE.key))


async def test_a_lesson_shows_the_check_before_and_after(client: Redis) -> None:
    lesson = await make_filter(client).learn(PRIZE, "spam", "test")

    assert lesson.before.probability == 0.5
    assert lesson.after.probability > 0.5
    assert lesson.after.state.learned == {"ham": 0, "spam": 1}


async def test_learn_then_unlearn_of_a_whole_stream_leaves_nothing(client: Redis) -> None:
    spam_filter = make_filter(client)
    stream = [(label, Message.parse(raw)) for label, raw in letters(40)]
    for label, message in stream:
        await spam_filter.learn(message, label, "test")
    for _, message in reversed(stream):
        await spam_filter.unlearn(message, "test")

    model = Model(client, "test", 3600)
    assert not await client.exists(model.keys.totals, *model.keys.counts)


async def test_an_unknown_label_is_an_error_of_the_caller(client: Redis) -> None:
    with pytest.raises(ValueError, match="label 'eggs'"):
        await make_filter(client).learn(PRIZE, "eggs", "test")


async def test_contradicting_writers_leave_one_entry_and_its_counts(client: Redis) -> None:
    filters = [make_filter(client) for _ in range(4)]

    await asyncio.gather(*(each.learn(PRIZE, ("spam", "ham")[n % 2], "test") for n, each in enumerate(filters)))

    totals = await Model(client, "test", 3600).totals()
    assert sum(totals.messages) == 1
    await filters[0].unlearn(PRIZE, "test")
    assert not await client.exists(Model(client, "test", 3600).keys.totals)


async def test_the_clues_sum_to_the_score(client: Redis) -> None:
    spam_filter = make_filter(client)
    stream = list(letters(30))
    for label, raw in stream:
        await spam_filter.learn(Message.parse(raw), label, "test")

    check = await spam_filter.check(PRIZE)

    spam = sum(label == "spam" for label, _ in stream)
    prior = math.log((spam + 1) / (len(stream) - spam + 1))
    assert len(check.clues) > 5
    assert math.isclose(check.score, math.fsum([prior, *(clue.log_ratio for clue in check.clues)]))


async def test_every_check_and_lesson_is_observed_once(client: Redis) -> None:
    recorder = Recorder()
    spam_filter = make_filter(client, observer=recorder)

    await spam_filter.check(PRIZE)
    await spam_filter.learn(PRIZE, "spam", "door")

    ((check, stages),) = recorder.checks
    assert check.id == PRIZE.key
    assert set(stages) == {"parse", "tokenize", "score"}
    assert [(lesson.outcome, source) for lesson, source in recorder.lessons] == [(Outcome.LEARNED, "door")]


async def test_a_large_message_is_scored_like_a_small_one(client: Redis) -> None:
    spam_filter = make_filter(client)
    for label, raw in letters(30):
        await spam_filter.learn(Message.parse(raw), label, "test")

    small = await spam_filter.check(PRIZE)
    large = await spam_filter.check(Message.parse(PRIZE.raw + b" now" * 30_000))

    body = {clue.token for clue in small.clues if clue.token.startswith(b"body:")}
    assert body
    assert body <= {clue.token for clue in large.clues}


async def test_many_learn_at_once_and_all_are_learned(client: Redis) -> None:
    spam_filter = make_filter(client)

    lessons = await asyncio.gather(
        *(spam_filter.learn(Message.parse(raw), label, "test") for label, raw in letters(150))
    )

    assert [lesson.outcome for lesson in lessons] == [Outcome.LEARNED] * 150


async def test_a_lesson_is_what_its_own_mirror_shows(client: Redis) -> None:
    model = Model(client, "test", 3600)
    mirror = Mirror(model, 5.0)
    task = asyncio.create_task(mirror.run())
    await mirror.loaded.wait()
    spam_filter = make_filter(client, counts=mirror)

    for number, (label, raw) in enumerate(letters(20), start=1):
        lesson = await spam_filter.learn(Message.parse(raw), label, "test")
        assert sum(lesson.after.state.learned.values()) == number

    task.cancel()
    await asyncio.wait([task])


class LosesReplies:
    """A way to Redis that breaks the connection instead of passing on the answer to each script's first call."""

    def __init__(self, target: Path, socket: Path) -> None:
        self._target, self.socket = target, socket
        self.lost = 0

    async def __aenter__(self) -> LosesReplies:
        self._server = await asyncio.start_unix_server(self._pass_on, self.socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        redis_reader, redis_writer = await asyncio.open_unix_connection(self._target)
        try:
            while request := await reader.read(1 << 20):
                redis_writer.write(request)
                answer = await redis_reader.read(1 << 20)
                if b"EVALSHA" in request and not answer.startswith(b"-NOSCRIPT") and not self.lost:
                    self.lost += 1
                    return
                writer.write(answer)
        finally:
            writer.close()
            redis_writer.close()


@pytest.mark.parametrize("label", ["spam", None])
async def test_a_change_whose_reply_is_lost_is_made_once_and_reported_as_made(
    client: Redis, shared_redis: RedisServer, tmp_path: Path, label: str | None
) -> None:
    if label is None:
        await make_filter(client).learn(PRIZE, "spam", "test")
    async with LosesReplies(shared_redis.socket, tmp_path / "s") as way:
        lossy = open_client(StoreParams(f"unix://{way.socket}"))
        spam_filter = make_filter(lossy)
        lesson = await (spam_filter.learn(PRIZE, label, "test") if label else spam_filter.unlearn(PRIZE, "test"))
        await lossy.aclose()

    assert way.lost == 1
    assert lesson.outcome == (Outcome.LEARNED if label else Outcome.UNLEARNED)
    assert (await Model(client, "test", 3600).totals()).messages == (0, 1 if label else 0)
