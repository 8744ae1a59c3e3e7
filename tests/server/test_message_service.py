"""The message service: one message goes by one runtime, and each rule decides once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.errors import StoreIncompatible
from nbstream.filter import Check, Filter, FilterPolicy
from nbstream.filter.own_models.index import OwnModelKeys
from nbstream.mail.message import Message
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.recipient_rules import RecipientRule, RecipientRules
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.server.message_service import MessageService
from tests.harness.listener_filters import open_filter
from tests.harness.own_model_site import open_site
from tests.harness.runtimes import make_runtime

SPAM = Message.parse(b"Subject: You have won\n\nClaim your free prize now.\n")
HAM = Message.parse(b"Subject: Lunch?\n\nShall we have lunch on Friday?\n")
STRICT_POLICY = ThresholdPolicy(1e-9, 1e-8)
STRICT = RecipientRule.at_position(0, AddressPattern("*@strict.example"), STRICT_POLICY, ActionsSettings())
RULES = RecipientRules.build(ThresholdPolicy(), ActionsSettings(), [STRICT])
ANN, BOB = "ann@strict.example", "bob@other.example"


@pytest.fixture
async def spam_filter(client: Redis) -> AsyncIterator[Filter]:
    """A filter that has learned one message of each class."""
    policy = FilterPolicy(ThresholdPolicy(), {"spam": 1, "ham": 1}, (STRICT_POLICY,))
    async with open_filter(client, DaemonMetrics.create(PYTHON), policy, follow=True) as opened:
        for message, label in ((SPAM, "spam"), (HAM, "ham")):
            await opened.spam_filter.learn(message, label, "test")
        yield opened.spam_filter


@pytest.fixture
def service(spam_filter: Filter) -> MessageService:
    return MessageService("http", make_runtime(spam_filter, rules=RULES), DaemonMetrics.create(PYTHON).delivery)


async def test_a_message_goes_by_the_runtime_that_held_when_it_began(
    service: MessageService, spam_filter: Filter
) -> None:
    handler = service.message_handler()

    service.apply(make_runtime(spam_filter))

    verdicts = []
    for one_handler in (handler, service.message_handler()):
        check, _ = await one_handler.check(HAM, [ANN])
        verdicts.append((str(check.verdict), check.policy))
    assert verdicts == [("spam", "*@strict.example"), ("ham", "default")]


async def test_what_the_filter_decided_by_the_default_rule_is_not_decided_again(
    service: MessageService, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided: list[str] = []
    decide_by_rule = Filter.decide_by_rule

    async def count(spam_filter: Filter, check: Check, rule: RecipientRule) -> Check:
        decided.append(rule.name)
        return await decide_by_rule(spam_filter, check, rule)

    monkeypatch.setattr(Filter, "decide_by_rule", count)
    handler = service.message_handler()

    for recipients, rules, verdict in (
        ([], [], "ham"),
        ([BOB], [], "ham"),
        ([ANN], ["*@strict.example"], "spam"),
        ([ANN, BOB], ["*@strict.example"], "ham"),
    ):
        check = await handler.try_check(HAM, recipients)
        assert (str(check.verdict), decided) == (verdict, rules)
        decided.clear()


async def test_a_lesson_whose_own_model_cannot_be_loaded_is_counted_as_failed(client: Redis) -> None:
    metrics = DaemonMetrics.create(PYTHON)
    async with open_site(client, observer=metrics.filter) as site:
        await client.hset(OwnModelKeys("test", "example.org/ann").schema, mapping={"format": "999"})
        runtime = make_runtime(site.common, own_filters=site.filters)
        handler = MessageService("http", runtime, metrics.delivery).message_handler()

        with pytest.raises(StoreIncompatible):
            await handler.learn(SPAM, "spam", "ann", user="ann@example.org")

    labels = {"source": "http", "label": "spam", "outcome": "failed"}
    assert metrics.registry.counts.get_sample_value("nbstream_feedback_total", labels) == 1
