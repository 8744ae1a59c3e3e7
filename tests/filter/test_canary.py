"""A canary is checked like any message, has a known answer, and nobody hears of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.filter import Check, CheckSeconds, FilterObserver
from nbstream.filter.canaries import Canaries
from nbstream.mail.message import Message
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.envelope import BuildEnvelope
from nbstream.policy.recipient_rules import RecipientRule
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.policy.verdict import Verdict
from tests.harness.filters import PRIZE, make_filter, with_parts

NEVER_SPAM = ThresholdPolicy(0.5, 0.999)


class Reports(FilterObserver):
    """The checks that were reported."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def checked(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None) -> None:
        self.checks.append(check)


@pytest.fixture
def canaries(tmp_path: Path) -> Canaries:
    return Canaries(tmp_path / "canaries")


async def test_a_canary_is_spam_whatever_the_model_says_and_is_not_reported(
    client: Redis, canaries: Canaries
) -> None:
    reports = Reports()
    spam_filter = with_parts(make_filter(client, reports), canaries=canaries)
    await spam_filter.learn(PRIZE, "ham", "test")
    await spam_filter.learn(Message.parse(b"Subject: other\n\nwords\n"), "spam", "test")
    canaries.announce(PRIZE.key)

    canary, again = await spam_filter.check(PRIZE), await spam_filter.check(PRIZE)

    assert (canary.verdict, canary.probability, canary.outcome) == (Verdict.SPAM, 1.0, "canary")
    assert canary.reason == "canary of nbstream doctor"
    assert (again.outcome, again.is_canary) == ("ham", False)
    assert reports.checks == [again]


async def test_a_canary_has_the_same_answer_by_every_policy(client: Redis, canaries: Canaries) -> None:
    spam_filter = with_parts(make_filter(client), canaries=canaries)
    canaries.announce(PRIZE.key)
    rule = RecipientRule.at_position(0, AddressPattern("*"), NEVER_SPAM, ActionsSettings())

    canary = await spam_filter.check(PRIZE)

    assert await spam_filter.decide_by_rule(canary, rule) == canary
