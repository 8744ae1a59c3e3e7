"""Prequential scores, as Redis has them, on the view thresholds: those that can be read are shown.

Each line is a packed prequential score of ham, or, after ``+``, of spam.
"""

from __future__ import annotations

import asyncio

from nbstream.policy.recipient_rules import RecipientRules
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import FalsePositiveBudget, PrequentialScores, ThresholdPolicy
from nbstream.policy.verdict import ModelState
from nbstream.web.admin.thresholds_view import ThresholdsView
from nbstream.web.rendering import PageRenderer
from nbstream.web.requests import Page, PageRequest, PageRoute
from tests.fuzz.page_elements import assert_own_elements
from tests.fuzz.shown_records import SESSION
from tests.fuzz.target import FuzzTarget

_RULES = RecipientRules.build(
    ThresholdPolicy(0.5, FalsePositiveBudget(0.01), FalsePositiveBudget(0.001)), ActionsSettings()
)
_renderer = PageRenderer("1")
_runner = asyncio.Runner()


def _check(data: bytes) -> None:
    prequential_scores = PrequentialScores()
    try:
        for line in data.split(b"\n"):
            prequential_scores["spam" if line.startswith(b"+") else "ham"].add(line.removeprefix(b"+"))
    except ValueError:
        return
    request = PageRequest(SESSION)
    view = ThresholdsView("test", lambda: prequential_scores, lambda: ModelState({}), lambda: _RULES)
    (route,) = view.routes()
    page = _runner.run(_shown(route, request))
    assert_own_elements(_renderer.render(page, request, path="/ui/thresholds"), has_charts=True)


async def _shown(route: PageRoute, request: PageRequest) -> Page:
    page = await route.handler(request)
    assert isinstance(page, Page)
    return page


TARGET = FuzzTarget(
    _check,
    (
        b"1.0 a 0.1 0.01:0 0.001:0\n2.0 b 0.99 0.01:1 0.001:0\n+3.0 c 0.999\n+4.0 d 5e-324",
        b"1e300 a 0.0\n2.0 b 1.0\n+0.0 c 1.0\n+99999999999.0 d 0.0",
        b"1.0 a 0.5 0.01:1\n1.0 b 0.5 0.01:0\n+1.0 c 0.5",
    ),
    words=(b" 0.01:1", b" 0.001:0", b"e-5", b"e300", b"\n+", b"\n1.0 a 0.5", b"0.9999999999999999"),
    max_bytes=2000,
    mutations=40,
)
