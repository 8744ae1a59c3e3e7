"""The view ask: questions of both kinds, how far the budgets are, and buttons for those who may teach."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from nbstream.listeners.http.access import Role
from nbstream.page.ask_view import AskView
from nbstream.policy.fair_sample import NO_SAMPLE, FairSample
from nbstream.policy.first_scores import FirstScore, FirstScores
from nbstream.store.recent.message_rows import DRAWN_INDEX, MessageRow
from nbstream.store.recent.row_search import RowSearch
from tests.page.page_listener import Browser, open_page
from tests.store.recent.rows import KEYS, envelope, message_id, write_rows

HOUR = 3600
CLASSES = ("ham", "newsletter", "spam")
ALL = FairSample("secret").with_share(1.0, 0.0)


async def write(client: Redis, rows: Sequence[MessageRow], *, drawn: bool) -> None:
    more_indices = [DRAWN_INDEX] if drawn else []
    await write_rows(client, rows, seconds=HOUR, messages=1000, now=time.time(), more_indices=more_indices)


def make_row(number: int, verdict: str, probability: float, subject: str = "hello") -> MessageRow:
    return MessageRow(
        message_id(number), time.time() - 100 + number, verdict, probability, envelope=envelope(subject=subject)
    )


@asynccontextmanager
async def open_view(
    client: Redis, role: Role = Role.TEACH, *, sample: FairSample = ALL, answered: int = 0
) -> AsyncIterator[Browser]:
    scores = FirstScores(sample)
    for number in range(answered):
        scores["ham"].add(FirstScore(time.time(), f"m{number}", 0.25).pack())

    async def find_labels(_: Sequence[str]) -> dict[str, str]:
        return {message_id(7): "ham"}

    view = AskView(
        RowSearch(client, KEYS, HOUR),
        find_labels,
        sample is not NO_SAMPLE,
        lambda: scores,
        lambda: {0.01},
        lambda: CLASSES,
    )
    async with open_page(client, view) as page, page.browser(role) as browser:
        yield browser


def ids(page: str) -> list[str]:
    return re.findall(r'href="/ui/messages/([a-z2-7]{24})"', page)


async def test_both_kinds_of_questions_stand_apart_and_what_has_a_label_is_left_out(client: Redis) -> None:
    await write(client, [make_row(number, "spam", 0.99) for number in (3, 7, 5)], drawn=True)
    await write(client, [make_row(1, "unsure", 0.9), make_row(2, "unsure", 0.5)], drawn=False)

    async with open_view(client, answered=20) as browser:
        page = (await browser.get("/ui/ask")).text

    assert ids(page) == [message_id(number) for number in (3, 5, 2, 1)]
    drawn, nearest = page.split("<caption>")[1:]
    assert (len(ids(drawn)), len(ids(nearest))) == (2, 2)
    assert "labelled of the drawn messages that are remembered: 1 of 3, 33 %" in page.lower()
    assert (
        "A budget of 1 % of the ham needs the labels of 299 drawn ham where people label only errors, and has 20"
        in page
    )


@pytest.mark.parametrize(("role", "has_buttons"), [(Role.TEACH, True), (Role.READ, False)])
async def test_only_who_may_teach_has_buttons(client: Redis, role: Role, has_buttons: bool) -> None:
    await write(client, [make_row(1, "ham", 0.01)], drawn=True)

    async with open_view(client, role) as browser:
        page = (await browser.get("/ui/ask")).text

    for name in CLASSES:
        assert (f'value="{name}">These are {name}' in page) is has_buttons
    assert ('type="checkbox"' in page) is has_buttons


async def test_a_hostile_message_is_shown_as_text(client: Redis) -> None:
    row = make_row(1, "ham", 0.01, subject="<script>alert(1)</script>\u202e")
    await write(client, [row, replace(make_row(2, "ham", 0.01), envelope=None)], drawn=True)

    async with open_view(client) as browser:
        page = (await browser.get("/ui/ask")).text

    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert len(ids(page)) == 2


async def test_without_a_share_it_is_said_how_messages_are_drawn(client: Redis) -> None:
    async with open_view(client, sample=NO_SAMPLE) as browser:
        page = (await browser.get("/ui/ask")).text

    assert "ask.share" in page
    assert "drawn ham" not in page
    assert "There is nothing to ask about now." in page
