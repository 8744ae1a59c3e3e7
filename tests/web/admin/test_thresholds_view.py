"""The view thresholds on a real listener, over prequential scores of all sizes."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from redis.asyncio import Redis

from nbstream.evaluation.threshold_report import threshold_columns
from nbstream.evaluation.tuning import compare_thresholds, policies_of_rules
from nbstream.policy.address_patterns import AddressPattern
from nbstream.policy.recipient_rules import RecipientRule, RecipientRules
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import PrequentialScores, ThresholdPolicy
from nbstream.policy.verdict import ModelState
from nbstream.server.http.access import Role
from nbstream.web.admin.thresholds_view import ThresholdsView
from tests.harness.scored import random_scores
from tests.web.admin.page_listener import Browser, open_page

FIXED = ThresholdPolicy(0.5, 0.95)
BUDGET = ThresholdPolicy(0.5, max_false_positive_rate=0.01)


@dataclass
class Known:
    """What the view is told of the daemon."""

    scores: PrequentialScores
    policy: ThresholdPolicy = FIXED
    rules: Mapping[str, ThresholdPolicy] = field(default_factory=dict)
    state: ModelState | None = field(default_factory=lambda: ModelState({"ham": 9, "spam": 9}))

    def view(self) -> ThresholdsView:
        return ThresholdsView("default", lambda: self.scores, lambda: self.state, self.recipient_rules)

    def recipient_rules(self) -> RecipientRules:
        rules = [
            RecipientRule.at_position(position, AddressPattern(pattern), policy, ActionsSettings())
            for position, (pattern, policy) in enumerate(self.rules.items())
        ]
        return RecipientRules.build(self.policy, ActionsSettings(), rules)


@asynccontextmanager
async def opened(client: Redis, known: Known) -> AsyncIterator[Browser]:
    async with open_page(client, known.view()) as page, page.browser(Role.READ) as browser:
        yield browser


async def shown(client: Redis, known: Known) -> str:
    """The page, without references to characters."""
    async with opened(client, known) as browser:
        page = await browser.get("/ui/thresholds")
    assert page.status == 200
    return html.unescape(page.text)


@pytest.mark.parametrize("policy", [FIXED, BUDGET], ids=["fixed", "budget"])
async def test_the_page_says_what_tune_prints(client: Redis, policy: ThresholdPolicy) -> None:
    known = Known(random_scores(4000, 3000), policy, {"*@strict.example": ThresholdPolicy(0.5, 0.999)})
    rules = known.recipient_rules()

    seen = await shown(client, known)

    tuning = compare_thresholds(known.scores, policy, policies_of_rules(rules))
    cells = {column.title: column.cells for column in threshold_columns(tuning)}
    for title in ("threshold", "from P", "ham called spam", "% of ham", "spam missed", "% of spam"):
        assert f">{title}</th>" in seen
        assert all(f">{cell}</t" in seen for cell in cells[title])
    assert 'aria-current="true"><th scope="row" class="tight">present</th>' in seen
    assert ">for *@strict.example</th>" in seen
