"""The view now: what it says, and that it can be read whatever the state is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from nbstream.findings import note, problem
from nbstream.listeners.http.page.now_view import Now, NowView, view_values
from nbstream.listeners.http.page.rendering import PageRenderer
from nbstream.listeners.http.page.requests import Page, Role
from nbstream.policy.verdict import Verdict
from nbstream.store.activity import ActivitySpan
from tests.listeners.http.page.charts.svg import is_within_view_box, parse_svg
from tests.listeners.http.page.now_sources import HOSTILE, MadeUpSource, make_now
from tests.listeners.http.page.page_listener import open_page, title_of

SOME = {0: {Verdict.HAM: 5, Verdict.SPAM: 2}, 7: {Verdict.UNSURE: 1}, 59: {Verdict.REJECT: 1}}
HUGE = {ago: dict.fromkeys(Verdict, 2**50) for ago in range(60)}


async def show(client: Redis, now: Now, query: str = "") -> str:
    """The page as a reader without scripts gets it."""
    view = NowView(MadeUpSource(now), PageRenderer("1").render_parts)
    async with open_page(client, view) as page, page.browser(Role.READ) as browser:
        answer = await browser.get(f"/ui/{query}")
    assert answer.status == 200
    return answer.text


def chart_of(html: str) -> str:
    found = re.search(r"<svg.*?</svg>", html, re.DOTALL)
    assert found
    return found[0]


def plain(html: str) -> str:
    """The words of the page."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


async def test_it_is_whole_without_scripts_and_says_when_it_was_made(client: Redis) -> None:
    html = await show(client, make_now(checks=SOME, at=1_700_000_000))

    assert title_of(html).startswith("Now")
    assert 'As of <time datetime="2023-11-1' in html
    words = plain(html)
    assert "Nothing is wrong." in words
    assert "ham 5 unsure 1 spam 2 reject 1" in words
    assert "9 messages 0.1 a minute &lt; 2 ms 50 % of the checks &lt; 2 ms 99 % of the checks" in words
    assert "smtp 127.0.0.1:10025 7 1 stream \u2013 \u2013 \u2013" in words
    assert "mx1 the only one 0.7.0 up to date" in words
    assert "Answers in 0.4 ms Counts here up to date Quarantine 2 messages" in words


@pytest.mark.parametrize("checks", [None, {0: {Verdict.HAM: 1}}, SOME, HUGE])
@pytest.mark.parametrize("span", ActivitySpan)
async def test_its_chart_can_be_drawn_whatever_the_numbers_are(
    client: Redis, span: ActivitySpan, checks: Mapping[int, Mapping[Verdict, int]] | None
) -> None:
    html = await show(client, make_now(span, checks), f"?span={span}")

    assert is_within_view_box(parse_svg(chart_of(html)))
    assert f'href="/ui/?span={span}" aria-current="true"' in html
    assert len(html) < 100_000


async def test_the_parts_that_are_pushed_are_those_of_the_page(client: Redis) -> None:
    now = make_now(checks=SOME, hosts=["mx1", HOSTILE], findings=[note("x", "A note.")()])
    html = await show(client, now)

    parts = await PageRenderer("1").render_parts(Page("now.html", view_values(now, ActivitySpan.HOUR)))

    shown = {live[1]: html[live.end() :] for live in re.finditer(r'id="([\w-]+)"[^>]*data-live>', html)}
    assert shown.keys() == parts.keys()
    for name, part in parts.items():
        assert shown[name].startswith(f"{part}</")


async def test_the_table_has_the_same_sums_as_the_chart(client: Redis) -> None:
    html = await show(client, make_now(checks=SOME))

    (body,) = re.findall(r'<tbody id="now-rows".*?</tbody>', html, re.DOTALL)
    rows = [
        [int(cell) for cell in re.findall(r'<td class="number">(\d+)</td>', row)] for row in body.split("</tr>")
    ]
    assert [sum(column) for column in zip(*(row for row in rows if row), strict=True)] == [5, 1, 2, 1, 9]


async def test_what_is_wrong_comes_with_what_to_do_the_worst_first(client: Redis) -> None:
    findings = [note("x", "A note.")(), problem("x", "Redis is <away>.", "Start it.")()]
    words = plain(await show(client, make_now(findings=findings)))

    assert "problem Redis is &lt;away&gt;. Start it. note A note." in words


async def test_old_numbers_are_said_to_be_old(client: Redis) -> None:
    now = make_now(checks=SOME)
    assert "These numbers are of" in plain(await show(client, replace(now, read_at=now.at - 60)))
    never = replace(now, activity=None, read_at=0.0, processes=(), quarantined=None)
    words = plain(await show(client, never))
    assert "no numbers are known" in words
    assert "No process has said how it is." in words
    assert "not counted yet" in words


async def test_texts_of_other_hosts_are_shown_as_text(client: Redis) -> None:
    html = await show(client, make_now(hosts=[HOSTILE]))

    assert "<script>alert" not in html
    assert "{{ 7 * 7 }}" in html
    assert "\u202e" not in html
    assert "\x00" not in html


@pytest.mark.parametrize("query", ["?span=", "?span=year", "?span=%00", "?span=hour&span=day"])
async def test_an_unknown_span_is_the_hour(client: Redis, query: str) -> None:
    assert 'href="/ui/?span=hour" aria-current="true"' in await show(client, make_now(), query)


async def test_browsers_without_a_session_get_no_events(client: Redis) -> None:
    view = NowView(MadeUpSource(make_now()), PageRenderer("1").render_parts)
    async with open_page(client, view) as page, page.browser() as browser:
        assert (await browser.get("/ui/events")).status in {303, 401, 403}
