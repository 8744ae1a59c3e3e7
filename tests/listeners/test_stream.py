"""The stream door on a real Redis: what programs add is checked or learned, and answered once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.errors import CountsFull, StoreUnavailable
from nbstream.filter import Check, Filter, Lesson, Params, Subject
from nbstream.listeners import stream
from nbstream.mail.message import Message
from nbstream.mail.mime import Limits
from nbstream.metrics import Metrics
from nbstream.policy.actions import Actions
from nbstream.policy.patterns import Pattern
from nbstream.policy.policy import Policy
from nbstream.policy.rules import Rule, Rules
from nbstream.store import queue
from nbstream.store.connect import Params as ConnectParams
from nbstream.store.connect import open_client
from nbstream.store.mirror import Mirror
from nbstream.store.model import Model
from nbstream.stream_metrics import StreamMetrics
from nbstream.tokens.tokenizer import Tokenizer
from tests.conftest import RedisServer
from tests.waiting import DEADLINE_SECONDS, until

SPAM = "win a free prize now, claim your cash"
HAM = "shall we have lunch on friday with ann"
FAULTS = "nbstream_filter_failures_total"
RULES = Rules.build(Policy(), Actions())


class Faulty(Filter):
    """A filter with faults: by the text it fails (``times`` times), or ends its worker, or waits for ``go``."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.times = 0
        self.error: Exception = RuntimeError("a fault")
        self.begun: list[str] = []
        self.go, self.late = asyncio.Event(), asyncio.Event()
        self.die: Callable[[], object] = lambda: None

    async def check(self, message: Message) -> Check:
        text = message.raw.decode()
        self.begun.append(text)
        if "slow" in text:
            await self.go.wait()
        if "late" in text:
            await self.late.wait()
        if "lengthy" in text:
            await asyncio.sleep(0.05)
        if "deadly" in text:
            self.die()
            await asyncio.Event().wait()
        if "poison" in text and self.times:
            self.times -= 1
            raise self.error
        return await super().check(message)

    async def learn(self, subject: Subject, label: str, source: str, actor: str = "") -> Lesson:
        if isinstance(self.error, CountsFull):
            raise self.error
        return await super().learn(subject, label, source, actor)


@dataclass
class Worker:
    """A running door."""

    door: stream.StreamDoor
    filter: Faulty
    queue: queue.Queue
    model: Model
    mirror: Mirror
    metrics: Metrics
    client: Redis
    task: asyncio.Task[None]
    stack: AsyncExitStack = field(repr=False)

    async def add(self, **fields: str | bytes) -> bytes:
        place: Any = await self.client.xadd(self.model.keys.incoming, dict(fields))  # type: ignore[arg-type]
        return bytes(place)

    async def answers(self) -> list[Mapping[str, str]]:
        found: Any = await self.client.xrange(self.model.keys.outgoing)
        return [{name.decode(): value.decode() for name, value in fields.items()} for _, fields in found]

    async def answer(self, **fields: str | bytes) -> Mapping[str, str]:
        """Add an entry and return its answer."""
        place = (await self.add(**fields)).decode()
        await self.answered(place)
        (answer,) = [each for each in await self.answers() if each["entry"] == place]
        return answer

    async def answered(self, *places: str) -> None:
        async def all_are() -> bool:
            return {*places} <= {each["entry"] for each in await self.answers()}

        await until(all_are)

    def found(self, outcome: str) -> float:
        name = "nbstream_stream_entries_total"
        return self.metrics.registry.get_sample_value(name, {"outcome": outcome}) or 0.0


@asynccontextmanager
async def working(
    client: Redis, url: str, *, rules: Rules = RULES, tries: int = 3, follow: bool = True, **options: Any
) -> AsyncIterator[Worker]:
    claim_seconds = options.setdefault("claim_seconds", 60.0)
    timeout = options.pop("timeout", 5.0)
    async with AsyncExitStack() as stack:
        model, metrics = Model(client, "test", 3600), Metrics()
        mirror = Mirror(model, timeout)
        following = asyncio.create_task(mirror.run() if follow else asyncio.Event().wait())
        stack.push_async_callback(asyncio.wait, [following])
        stack.callback(following.cancel)
        if follow:
            await mirror.loaded.wait()
        others = tuple(rule.treatment.policy for rule in rules.rules)
        spam_filter = Faulty(
            tokenizer=Tokenizer(),
            classifier=Classifier(),
            calibration=Calibration(),
            model=model,
            counts=mirror,
            params=Params(rules.top.policy, {"spam": 1, "ham": 1}, others),
            observer=metrics,
        )
        blocking = open_client(ConnectParams(url, timeout_seconds=timeout), retries=0)
        stack.push_async_callback(blocking.aclose)
        params = queue.Params(claim_seconds, tries, timeout_seconds=timeout)
        waiting = queue.Queue(client, blocking, model.keys, params)
        door = stream.StreamDoor(
            waiting, spam_filter, rules, stream.Params(Limits(), **options), StreamMetrics(metrics)
        )
        task = asyncio.create_task(door.run())
        spam_filter.die = task.cancel
        stack.push_async_callback(asyncio.wait, [task])
        stack.callback(task.cancel)
        yield Worker(door, spam_filter, waiting, model, mirror, metrics, client, task, stack)
        assert not task.done() or task.cancelled() or not task.exception()


@pytest.fixture
async def worker(client: Redis, shared_redis: RedisServer) -> AsyncIterator[Worker]:
    async with working(client, shared_redis.url) as found:
        yield found


async def test_a_text_is_checked_and_learned_by_its_label(worker: Worker) -> None:
    first = await worker.answer(text=SPAM, id="sms 1")
    assert first["id"] == "sms 1"
    assert (first["verdict"], first["reason"]) == ("unsure", "learning 0/2")
    assert "outcome" not in first

    learned = await worker.answer(text=SPAM, label="spam")
    assert (learned["outcome"], learned["id"]) == ("learned", learned["entry"])
    assert learned["key"] == first["key"]
    assert (await worker.answer(text=HAM, label="ham"))["outcome"] == "learned"
    assert (await worker.answer(text=HAM, label="ham"))["outcome"] == "already"
    assert (await worker.answer(text=HAM, label="spam"))["outcome"] == "relearned"
    assert (await worker.answer(text=HAM, label="ham"))["outcome"] == "relearned"

    spam, ham = await worker.answer(text=SPAM), await worker.answer(text=HAM)
    assert float(spam["probability"]) > 0.5 > float(ham["probability"])
    assert set(spam) == {"entry", "id", "verdict", "probability", "reason", "key"}
    assert worker.mirror.totals is not None
    assert sum(worker.mirror.totals.messages) == 2


async def test_a_text_has_no_header_and_a_message_has(worker: Worker) -> None:
    letter = "Subject: lunch\nX-Nbstream: spam; id=x\n\nAre you coming?\n"

    text, raw = await worker.answer(text=letter), await worker.answer(raw=letter)

    assert text["key"] == Message.of_text(letter).key
    assert raw["key"] == Message.parse(b"Subject: lunch\n\nAre you coming?\n").key


async def test_who_taught_is_in_the_history(worker: Worker) -> None:
    await worker.answer(text=SPAM, label="spam", **{"from": "shop"})

    (record,) = [each async for each in worker.model.history()]

    assert (record.note.source, record.note.actor) == ("stream", "shop")


async def test_an_entry_that_cannot_be_read_is_answered_with_the_reason(worker: Worker) -> None:
    refused = await worker.answer(text="x", label="junk", id="7")

    assert refused == {"entry": refused["entry"], "id": "7", "error": "label must be ham or spam"}
    assert worker.found("refused") == 1


async def test_a_large_message_is_checked_and_a_larger_one_refused(
    client: Redis, shared_redis: RedisServer
) -> None:
    async with working(client, shared_redis.url, max_message_bytes=400_000) as worker:
        assert "verdict" in await worker.answer(text="word " * 80_000)
        assert (await worker.answer(raw=b"x" * 400_001))["error"] == "the message is larger than 400000 bytes"


async def test_the_recipients_rules_decide(client: Redis, shared_redis: RedisServer) -> None:
    strict = Rule.numbered(0, Pattern("*@strict.example"), Policy(1e-9, 1e-8), Actions())
    rules = Rules.build(Policy(), Actions(), [strict])
    async with working(client, shared_redis.url, rules=rules) as worker:
        await worker.answer(text=SPAM, label="spam")
        await worker.answer(text=HAM, label="ham")

        assert (await worker.answer(text=HAM))["verdict"] == "ham"
        assert (await worker.answer(text=HAM, to="ann@strict.example"))["verdict"] == "spam"
        worker.door.rules = RULES
        assert (await worker.answer(text=HAM, to="ann@strict.example"))["verdict"] == "ham"


async def test_the_next_entry_goes_by_the_new_filter(worker: Worker) -> None:
    await worker.answer(text=SPAM, label="spam")
    await worker.answer(text=HAM, label="ham")
    assert (await worker.answer(text=HAM))["verdict"] == "ham"

    worker.door.spam_filter = worker.filter.with_params(Params(Policy(1e-9, 1e-8), {}))

    assert (await worker.answer(text=HAM))["verdict"] == "spam"


async def test_what_is_under_way_is_bounded_and_the_rest_waits_in_redis(
    client: Redis, shared_redis: RedisServer
) -> None:
    async with working(client, shared_redis.url, max_in_flight=4) as worker:
        places = [(await worker.add(text=f"slow {number}")).decode() for number in range(20)]
        await until(lambda: len(worker.filter.begun) == 4)
        await until(lambda: worker.metrics.registry.get_sample_value("nbstream_stream_lag") == 16, seconds=30)
        assert worker.metrics.registry.get_sample_value("nbstream_stream_pending") == 4

        worker.filter.go.set()

        await worker.answered(*places)
        assert await worker.client.xlen(worker.model.keys.incoming) == 0


async def test_nothing_more_is_read_while_much_is_under_way(client: Redis, shared_redis: RedisServer) -> None:
    async with working(client, shared_redis.url, max_in_flight=2, max_bytes_in_flight=1000) as worker:
        large = (await worker.add(text="slow " + "x" * 1000)).decode()
        await until(lambda: len(worker.filter.begun) == 1)
        small = (await worker.add(text="slow")).decode()
        await asyncio.sleep(0.5)  # there is room for one more by number; nothing is to happen in it
        assert await worker.queue.standing() == queue.Standing(lag=1, pending=1)

        worker.filter.go.set()

        await worker.answered(large, small)


async def test_a_fault_is_tried_again_and_then_set_aside(client: Redis, shared_redis: RedisServer) -> None:
    async with working(client, shared_redis.url, claim_seconds=0.3) as worker:
        worker.filter.times = 2
        healed = await worker.answer(text="poison that is cured")
        assert "verdict" in healed
        worker.filter.times = 1000

        dead = await worker.answer(text="poison", id="p")

        assert dead["error"].startswith("set aside")
        assert dead["id"] == "p"
        assert worker.filter.begun.count("poison") == 3
        assert (worker.found("claimed"), worker.found("dead")) == (4, 1)
        assert await client.xlen(worker.model.keys.dead) == 1
        assert "verdict" in await worker.answer(text=HAM)


async def test_what_ends_its_workers_is_set_aside_and_its_neighbours_are_answered(
    client: Redis, shared_redis: RedisServer
) -> None:
    keys = Model(client, "test", 3600).keys
    async with client.pipeline() as pipe:
        for text in (*(f"lengthy {number}" for number in range(10)), "deadly"):
            pipe.xadd(keys.incoming, {"text": text})
        places = [place.decode() for place in await pipe.execute()]
    for _ in range(3):
        async with working(client, shared_redis.url, claim_seconds=0.3) as worker:
            await asyncio.wait([worker.task], timeout=DEADLINE_SECONDS)
            assert worker.task.cancelled()

    async with working(client, shared_redis.url, claim_seconds=0.3) as worker:
        await worker.answered(*places)
        assert [each["entry"] for each in await worker.answers() if "error" in each] == places[-1:]


async def test_any_entry_has_one_answer(worker: Worker) -> None:
    draw = random.Random(1)
    names = ["raw", "text", "id", "label", "from", "to", "lable", "", "\xff", "entry"]
    values = [
        "",
        "spam",
        "ham",
        "\0",
        "\r\n",
        "x" * 2000,
        "=?utf-8?b?4pyT?=",
        "Content-Type: multipart/x",
        "\ud7ff",
    ]
    places = []
    for _ in range(500):
        fields = {draw.choice(names): draw.choice(values) for _ in range(draw.randint(1, 5))}
        places.append((await worker.add(**fields)).decode())

    await worker.answered(*places)

    assert sorted(each["entry"] for each in await worker.answers()) == sorted(places)
    assert worker.found("dead") == 0


async def test_what_takes_long_is_held_and_not_given_to_another(client: Redis, shared_redis: RedisServer) -> None:
    async with (
        working(client, shared_redis.url, claim_seconds=0.3, max_in_flight=1) as one,
        working(client, shared_redis.url, claim_seconds=0.3, max_in_flight=1) as other,
    ):
        place = (await one.add(text="slow")).decode()
        await until(lambda: bool(one.filter.begun or other.filter.begun))
        await asyncio.sleep(1)  # three times what an entry may be left alone; nothing is to happen in it

        one.filter.go.set()
        other.filter.go.set()

        await one.answered(place)
        assert len(one.filter.begun + other.filter.begun) == 1
        assert one.found("claimed") + other.found("claimed") == 0


async def test_what_a_dead_worker_held_is_taken_over(client: Redis, shared_redis: RedisServer) -> None:
    async with working(client, shared_redis.url, claim_seconds=0.3) as dead:
        places = [(await dead.add(text=f"slow {number}")).decode() for number in range(5)]
        await until(lambda: len(dead.filter.begun) == 5)
        dead.task.cancel()
        async with working(client, shared_redis.url, claim_seconds=0.3) as heir:
            heir.filter.go.set()
            await heir.answered(*places)

            assert heir.found("claimed") == 5
            assert len(await heir.answers()) == 5


async def test_draining_answers_what_is_under_way_and_leaves_the_rest(
    client: Redis, shared_redis: RedisServer
) -> None:
    async with working(client, shared_redis.url, max_in_flight=2) as worker:
        places = [(await worker.add(text=f"slow {number}")).decode() for number in range(5)]
        await until(lambda: len(worker.filter.begun) == 2)

        draining = asyncio.create_task(worker.door.drain(20))
        await asyncio.sleep(0)
        worker.filter.go.set()
        await draining
        await worker.task

        assert [each["entry"] for each in await worker.answers()] == places[:2]
        assert await client.xlen(worker.model.keys.incoming) == 3
        assert await client.xinfo_consumers(worker.model.keys.incoming, queue.GROUP) == []


async def test_a_drain_ends_when_its_time_is_over(client: Redis, shared_redis: RedisServer) -> None:
    async with working(client, shared_redis.url) as worker:
        await worker.add(text="slow")
        await until(lambda: len(worker.filter.begun) == 1)

        await worker.door.drain(0.01)

        assert not worker.task.done()
    assert await client.xlen(worker.model.keys.incoming) == 1


async def test_a_door_that_was_never_run_is_drained_at_once(worker: Worker) -> None:
    door = stream.StreamDoor(worker.queue, worker.filter, RULES, stream.Params(Limits()), StreamMetrics(Metrics()))

    await door.drain(1000)


async def test_without_counts_entries_wait(client: Redis, shared_redis: RedisServer) -> None:
    async with working(client, shared_redis.url, follow=False) as worker:
        place = (await worker.add(text=HAM)).decode()
        await until(lambda: len(worker.filter.begun) > 1)
        assert await worker.answers() == []

        following = asyncio.create_task(worker.mirror.run())
        await worker.answered(place)

        following.cancel()
        await asyncio.wait([following])


async def test_while_redis_refuses_to_write_nothing_is_read(client: Redis, shared_redis: RedisServer) -> None:
    async with working(client, shared_redis.url, max_in_flight=8) as worker:
        await worker.answer(text=SPAM, label="spam")
        worker.filter.times = 1
        left = (await worker.add(text="late poison")).decode()
        slow = [(await worker.add(text=f"slow {number}")).decode() for number in range(4)]
        await until(lambda: len(worker.filter.begun) == 5)
        waiting = [(await worker.add(text=f"{HAM} {number}", label="ham")).decode() for number in range(20)]
        await client.config_set("maxmemory", 1)
        try:
            worker.filter.go.set()
            await until(lambda: worker.door._waiting == 4)
            worker.filter.late.set()
            await until(lambda: worker.metrics.registry.get_sample_value(FAULTS, {"reason": "error"}) == 1)
            await asyncio.sleep(1)  # there is room for four; nothing is to happen in it
            assert await worker.queue.standing() == queue.Standing(lag=20, pending=5)
        finally:
            await client.config_set("maxmemory", 0)

        await worker.answered(*slow, *waiting)
        assert left not in {each["entry"] for each in await worker.answers()}
        assert worker.mirror.totals is not None
        assert sum(worker.mirror.totals.messages) == 21


async def test_a_redis_that_restarts_loses_no_entry(own_redis: RedisServer) -> None:
    durable = ("--appendonly", "yes", "--appendfsync", "always")
    own_redis.stop()
    own_redis.start(*durable)
    client = open_client(ConnectParams(own_redis.url))
    async with working(client, own_redis.url, claim_seconds=1) as worker:
        places: list[str] = []
        for number in range(300):
            if number == 100:
                await worker.answered(*places[:10])
                await asyncio.to_thread(own_redis.stop)
                await asyncio.to_thread(own_redis.start, *durable)
            try:
                label = "spam" if number % 2 else "ham"
                places.append((await worker.add(text=f"text {number}", label=label)).decode())
            except Exception:  # noqa: BLE001 - the producer's own connections died; it goes on
                continue

        await worker.answered(*places)
        answers = await worker.answers()
        assert len(answers) == len({each["entry"] for each in answers})
        assert {each["outcome"] for each in answers} <= {"learned", "already"}
        await until(lambda: worker.mirror.following)
        assert sum((await worker.model.totals()).messages) == len(answers) >= 290
    await client.aclose()


async def test_a_redis_that_lost_everything_is_begun_anew(worker: Worker) -> None:
    await worker.answer(text=HAM)
    await worker.client.flushall()

    assert "verdict" in await worker.answer(text=HAM)


async def test_a_name_that_something_else_has_is_told_and_waited_for(
    client: Redis, shared_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    keys = Model(client, "test", 3600).keys
    await client.set(keys.incoming, "no stream")
    async with working(client, shared_redis.url) as worker:
        await until(lambda: "entries wait: Redis: ResponseError: WRONGTYPE" in caplog.text)
        await until(lambda: "nothing is taken over from other workers" in caplog.text)
        assert len(caplog.records) < 5
        await client.delete(keys.incoming)

        assert "verdict" in await worker.answer(text=HAM)


async def test_what_cannot_be_learned_for_long_is_said(worker: Worker) -> None:
    worker.filter.error = CountsFull("the weights have grown; this is for the log")

    refused = await worker.answer(text=SPAM, label="spam")

    assert refused["error"] == "Learning is not possible until this has been seen to, please try again later"


async def test_the_answer_never_tells_what_failed_inside(worker: Worker) -> None:
    worker.filter.times, worker.filter.error = 2, StoreUnavailable("redis://secret@host")

    answer = await worker.answer(text="poison")

    assert "error" not in answer
    assert "secret" not in str(answer)
