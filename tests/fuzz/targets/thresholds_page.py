"""First scores, as Redis has them, on the view thresholds: those that can be read are shown, whatever they are.

The first line is a query; each other one is a packed first score of ham, or, after ``+``, of spam.
"""

from __future__ import annotations

import asyncio
import json

from nbstream.page.forms import read_query
from nbstream.page.rendering import PageRenderer
from nbstream.page.requests import Json, Page, PageRefused, PageRequest
from nbstream.page.thresholds_view import ThresholdsView
from nbstream.policy.first_scores import FirstScores
from nbstream.policy.recipient_rules import RecipientRules
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import FalsePositiveBudget, ThresholdPolicy
from nbstream.policy.verdict import ModelState
from nbstream.wire.api_json import encode_json
from tests.fuzz.page_elements import assert_own_elements
from tests.fuzz.shown_records import SESSION
from tests.fuzz.target import FuzzTarget

_RULES = RecipientRules.build(
    ThresholdPolicy(0.5, FalsePositiveBudget(0.01), FalsePositiveBudget(0.001)), ActionsSettings()
)
_renderer = PageRenderer("1")
_runner = asyncio.Runner()


def _check(data: bytes) -> None:
    raw_query, *lines = data.split(b"\n")
    first_scores = FirstScores()
    try:
        query = read_query(raw_query.decode("utf-8", "surrogateescape"))
        for line in lines:
            first_scores["spam" if line.startswith(b"+") else "ham"].add(line.removeprefix(b"+"))
    except (PageRefused, ValueError):
        return
    request = PageRequest(SESSION, "", query)
    view = ThresholdsView("test", 50_000, lambda: first_scores, lambda: ModelState({}), lambda: _RULES)
    try:
        page, outcome = _runner.run(_answers(view, request))
    except PageRefused:
        return
    assert_own_elements(_renderer.render(page, request, path="/ui/thresholds"), has_charts=True)
    json.loads(encode_json(outcome.body))


async def _answers(view: ThresholdsView, request: PageRequest) -> tuple[Page, Json]:
    page, outcome = [await route.handler(request) for route in view.routes()]
    assert isinstance(page, Page)
    assert isinstance(outcome, Json)
    return page, outcome


TARGET = FuzzTarget(
    _check,
    (
        b"\n1.0 a 0.1 0.01:0 0.001:0\n2.0 b 0.99 0.01:1 0.001:0\n+3.0 c 0.999\n+4.0 d 5e-324",
        b"unsure=.3&spam=0.9&reject=\n1e300 a 0.0\n2.0 b 1.0\n+0.0 c 1.0\n+99999999999.0 d 0.0",
        b"policy=default&spam_budget=0.01&reject_budget=0.001\n1.0 a 0.5 0.01:1\n1.0 b 0.5 0.01:0\n+1.0 c 0.5",
        b"unsure=1e-300",
    ),
    words=(b" 0.01:1", b" 0.001:0", b"e-5", b"e300", b"\n+", b"\n1.0 a 0.5", b"&spam=", b"0.9999999999999999"),
    max_bytes=2000,
    mutations=40,
)
