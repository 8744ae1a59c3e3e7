"""The stream listener on a real Redis: each entry is checked or learned, and answered once."""

from __future__ import annotations

from dataclasses import replace

from redis.asyncio import Redis

from nbstream.filter import Check, CheckSeconds, FilterObserver
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.envelope import BuildEnvelope
from nbstream.policy.recipient_rules import RecipientRule, RecipientRules
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from tests.harness.filters import with_parts
from tests.harness.redis.redis_server import RedisServer
from tests.harness.runtimes import make_runtime
from tests.harness.waiting import until
from tests.listeners.stream.stream_worker import HAM, SPAM, Worker, working


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
    assert worker.followed.totals is not None
    assert sum(worker.followed.totals.messages) == 2


async def test_an_entry_that_cannot_be_read_is_answered_with_the_reason(worker: Worker) -> None:
    refused = await worker.answer(text="x", label="junk", id="7")

    assert refused == {"entry": refused["entry"], "id": "7", "error": "label must be ham or spam"}
    assert worker.entries("refused") == 1


class CheckRecorder(FilterObserver):
    """Collects the checks that are reported."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def checked(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None) -> None:
        self.checks.append(check)


async def test_the_recipients_rules_decide(client: Redis, shared_redis: RedisServer) -> None:
    strict = RecipientRule.at_position(
        0, AddressPattern("*@strict.example"), ThresholdPolicy(1e-9, 1e-8), ActionsSettings()
    )
    rules = RecipientRules.build(ThresholdPolicy(), ActionsSettings(), [strict])
    async with working(client, shared_redis.url, rules=rules) as worker:
        await worker.answer(text=SPAM, label="spam")
        await worker.answer(text=HAM, label="ham")

        assert (await worker.answer(text=HAM))["verdict"] == "ham"
        recorder = CheckRecorder()
        watched = with_parts(worker.filter, observer=recorder)
        worker.listener.apply(make_runtime(watched, rules=rules))
        assert (await worker.answer(text=HAM, to="ann@strict.example"))["verdict"] == "spam"
        assert [(str(check.verdict), check.policy) for check in recorder.checks] == [("spam", "*@strict.example")]
        worker.listener.apply(make_runtime(worker.filter))
        assert (await worker.answer(text=HAM, to="ann@strict.example"))["verdict"] == "ham"


async def test_active_entries_are_limited_and_the_rest_waits_in_redis(
    client: Redis, shared_redis: RedisServer
) -> None:
    async with working(client, shared_redis.url, max_in_flight=4) as worker:
        stream_ids = [(await worker.add(text=f"slow {number}")).decode() for number in range(20)]
        await until(lambda: len(worker.filter.begun) == 4)
        await until(
            lambda: worker.metrics.registry.counts.get_sample_value("nbstream_stream_lag") == 16, seconds=30
        )
        assert worker.metrics.registry.counts.get_sample_value("nbstream_stream_pending") == 4

        worker.filter.go.set()

        await worker.answered(*stream_ids)
        assert await worker.client.xlen(worker.model.keys.incoming) == 0


async def test_a_kind_is_learned_where_the_model_has_it(worker: Worker) -> None:
    policy = worker.filter.policy._replace(kinds=("ham", "newsletter"))
    worker.listener.apply(replace(worker.runtime, spam_filter=worker.filter.with_policy(policy)))

    learned, refused = [await worker.answer(text="x", label=label) for label in ("newsletter", "receipt")]

    assert learned["outcome"] == "learned"
    assert refused["error"] == "label must be ham or newsletter or spam"
