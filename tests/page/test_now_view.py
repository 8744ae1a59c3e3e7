"""The view now: what it says, and that it can be read whatever the state is."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.findings import note, problem
from nbstream.listeners.http.access import Role
from nbstream.page.now import Now
from nbstream.page.now_view import NowView, view_values
from nbstream.page.rendering import PageRenderer
from nbstream.page.requests import Page
from nbstream.policy.verdict import Verdict
from nbstream.store.activity import MESSAGE_CLASSES, UNCHECKED, ActivitySpan
from tests.page.now_sources import HOSTILE, MadeUpReader, make_now
from tests.page.page_listener import open_page, title_of
from tests.page.svg import is_within_view_box, parse_svg

SOME = {0: {Verdict.HAM: 5, Verdict.SPAM: 2}, 7: {Verdict.UNSURE: 1}, 59: {Verdict.REJECT: 1}}
HUGE = {ago: dict.fromkeys(MESSAGE_CLASSES, 2**50) for ago in range(60)}


async def show(client: Redis, now: Now, query: str = "") -> str:
    """The page as a reader without scripts gets it."""
    view = NowView(MadeUpReader(now), PageRenderer("1").render_parts)
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
    assert "ham 5 unsure 1 spam 2 reject 1 unchecked 0" in words
    assert "check of" not in words
    assert "9 messages 0.1 a minute &lt; 2 ms 50 % of the checks &lt; 2 ms 99 % of the checks" in words
    assert "smtp 127.0.0.1:10025 3 7 1 stream \u2013 \u2013 \u2013 \u2013" in words
    assert "mx1 the only one 0.7.0 up to date" in words
    assert "Answers in 0.4 ms Counts here up to date Quarantine 2 messages, counted once a minute" in words


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
    assert [sum(column) for column in zip(*(row for row in rows if row), strict=True)] == [5, 1, 2, 1, 0, 9]


async def test_messages_whose_check_failed_are_a_class_of_their_own(client: Redis) -> None:
    html = await show(client, make_now(checks={0: {Verdict.HAM: 5, UNCHECKED: 2}}))

    words = plain(html)
    assert "unchecked 2 The check of 2 messages failed" in words
    assert "7 messages" in words
    assert "5 ham, 2 unchecked" in chart_of(html)
    assert is_within_view_box(parse_svg(chart_of(html)))


@pytest.fixture
def clock_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the time zone of the daemon."""

    def set_zone(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


# The clocks of New York go back at 06:00 UTC on 2026-11-01, those of Berlin go forth at 01:00 UTC on 2026-03-29.
@pytest.mark.parametrize(
    ("zone", "at", "days"),
    [
        (
            "UTC",
            "2026-11-03 12:30",
            ["Tue 03", "Mon 02", "Sun 01", "Sat 31", "Fri 30", "Thu 29", "Wed 28", "Tue 27"],
        ),
        (
            "America/New_York",
            "2026-11-03 12:30",
            ["Tue 03", "Mon 02", "Sun 01", "Sat 31", "Fri 30", "Thu 29", "Wed 28", "Tue 27"],
        ),
        (
            "Europe/Berlin",
            "2026-04-01 01:30",
            ["Wed 01", "Tue 31", "Mon 30", "Sun 29", "Sat 28", "Fri 27", "Thu 26", "Wed 25"],
        ),
        (
            "Asia/Kolkata",
            "2026-11-03 12:30",
            ["Tue 03", "Mon 02", "Sun 01", "Sat 31", "Fri 30", "Thu 29", "Wed 28", "Tue 27"],
        ),
    ],
)
def test_the_days_of_the_table_are_those_of_the_time_zone(
    clock_of: Callable[[str], None], zone: str, at: str, days: Sequence[str]
) -> None:
    clock_of(zone)
    now = make_now(ActivitySpan.WEEK, at=time.mktime(time.strptime(at, "%Y-%m-%d %H:%M")))

    rows: Any = view_values(now, ActivitySpan.WEEK)["rows"]

    assert [time.strftime("%a %d", time.localtime(row.at)) for row in rows] == days
    assert {time.localtime(row.at)[3:5] for row in rows} == {(0, 0)}


@pytest.mark.parametrize(
    ("zone", "span", "labels"),
    [
        ("America/New_York", ActivitySpan.DAY, ["16:00", "20:00", "00:00", "04:00", "08:00", "12:00"]),
        (
            "Europe/Berlin",
            ActivitySpan.WEEK,
            ["Mon 26", "Tue 27", "Wed 28", "Thu 29", "Fri 30", "Sat 31", "Sun 01"],
        ),
        (
            "Asia/Kolkata",
            ActivitySpan.WEEK,
            ["Mon 26", "Tue 27", "Wed 28", "Thu 29", "Fri 30", "Sat 31", "Sun 01"],
        ),
    ],
)
def test_the_labels_of_the_chart_are_round_times_of_the_time_zone_also_where_the_clocks_change(
    clock_of: Callable[[str], None], zone: str, span: ActivitySpan, labels: Sequence[str]
) -> None:
    clock_of(zone)
    now = make_now(span, at=time.mktime(time.strptime("2026-11-01 13:30", "%Y-%m-%d %H:%M")))

    chart = parse_svg(chart_of(str(view_values(now, span)["chart"])))

    ticks = [each.text or "" for each in chart.iter() if "tick" in each.get("class", "")]
    assert [tick for tick in ticks if re.search("[: ]", tick)] == labels


@pytest.mark.parametrize("count", [0, 1, 200])
async def test_any_number_of_processes_is_shown(client: Redis, count: int) -> None:
    html = await show(client, make_now(hosts=[f"mx{number}" for number in range(count)]))

    assert html.count('data-label="Worker"') == count
    assert len(html) < 120_000


async def test_what_is_wrong_comes_with_what_to_do_the_worst_first(client: Redis) -> None:
    findings = [note("x", "A note.")(), problem("x", "Redis is <away>.", "Start it.")()]
    words = plain(await show(client, make_now(findings=findings)))

    assert "problem Redis is &lt;away&gt;. Start it. note A note." in words


async def test_what_another_server_says_in_a_finding_changes_nothing_around_it(client: Redis) -> None:
    away = problem("x", "The next hop is degraded: {problem}.", "Start {problem}.")(problem=f"550 {HOSTILE}")
    html = await show(client, make_now(findings=[away]))

    assert "\u202e" not in html
    for text in ("The next hop is degraded: 550 ", "Start 550 "):
        assert re.search(f'<bdi class="foreign"[^>]*>{text}', html)


async def test_old_numbers_are_said_to_be_old(client: Redis) -> None:
    now = make_now(checks=SOME)
    assert "These numbers are of" in plain(await show(client, replace(now, read_at=now.at - 60)))
    never = replace(now, activity=None, read_at=0.0, processes=())
    words = plain(await show(client, never))
    assert "no numbers are known" in words
    assert "No process has said how it is." in words
    assert "not counted yet" in words


async def test_texts_of_other_hosts_are_shown_as_text(client: Redis) -> None:
    findings = [problem("x", "The process of {host} is silent.", "")(host=HOSTILE)]
    html = await show(client, make_now(hosts=[HOSTILE], findings=findings))

    assert "<script>alert" not in html
    assert "{{ 7 * 7 }}" in html
    assert "\u202e" not in html
    assert "\x00" not in html


@pytest.mark.parametrize("query", ["?span=", "?span=year", "?span=%00", "?span=hour&span=day"])
async def test_an_unknown_span_is_the_hour(client: Redis, query: str) -> None:
    assert 'href="/ui/?span=hour" aria-current="true"' in await show(client, make_now(), query)
