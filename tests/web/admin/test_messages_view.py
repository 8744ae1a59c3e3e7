"""The list of messages: what is remembered is shown, what is not is said, and all of it is found page by page."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES
from nbstream.policy.envelope import RememberedEnvelope
from nbstream.server.http.access import Role
from nbstream.store.recent.message_rows import MessageRow, RowFilter, RowPage, RowPosition, RowSearch
from nbstream.store.settings import MemorySettings
from nbstream.web.admin.messages_view import MessagesView
from nbstream.web.forms import read_query
from nbstream.web.requests import Page, PageRequest, PageRoute, Session
from tests.harness.rows import KEYS, envelope, message_id, write_rows
from tests.web.admin.page_listener import Browser, open_page

HOURS = 10
MEMORY = MemorySettings(hours=HOURS)
DASH = '<span class="none">\N{EN DASH}</span>'


async def find_labels(_: Sequence[str]) -> dict[str, str]:
    return {message_id(7): "ham"}


@asynccontextmanager
async def open_list(
    client: Redis, memory: MemorySettings = MEMORY, *, has_envelopes: bool = True
) -> AsyncIterator[Browser]:
    """A browser that has logged in to a page with this view."""
    view = MessagesView(
        RowSearch(client, KEYS, memory.hours * 3600),
        memory,
        has_envelopes,
        find_labels,
        lambda: {"recipients[1]": "abuse@*"},
        lambda: CLASSES,
    )
    async with open_page(client, view) as page, page.browser(Role.READ) as browser:
        yield browser


def make_rows(numbers: Sequence[int], envelope_: RememberedEnvelope | None = None) -> list[MessageRow]:
    """Rows of the last hours; those with even numbers are ham, the others spam."""
    first = time.time() - 3600
    return [
        MessageRow(
            message_id(number),
            first + number / 10,
            "spam" if number % 2 else "ham",
            number % 100 / 100,
            envelope=envelope_ or envelope(f"s{number % 3}@x.example", subject=f"subject {number}"),
        )
        for number in numbers
    ]


async def write(client: Redis, rows: Sequence[MessageRow]) -> None:
    await write_rows(client, rows, seconds=HOURS * 3600, now=time.time())


def ids_of(page: str) -> list[str]:
    """The ids of the messages that a page links to."""
    return re.findall(r'<a href="/ui/messages/([a-z2-7]{24})">', page)


def link_of(page: str, text: str) -> str | None:
    """Where the link with this text leads."""
    found = re.search(rf'<a [^>]*?href="([^"]*)"[^>]*>{text}</a>', page)
    return html.unescape(found[1]) if found else None


def cells_of(page: str) -> list[str]:
    """The cells of the first row."""
    return re.findall(r"<td [^>]*>(.*?)</td>", page.split("<tbody", 1)[1].split("</tr>", 1)[0], re.DOTALL)


async def test_a_line_has_what_is_remembered(client: Redis) -> None:
    described = RememberedEnvelope(
        "smtp", "ann@x.example", ("bob@y.example", "carl@z.example"), 12, "hello", "pass, quarantine"
    )
    (row,) = make_rows([7], described)
    await write(client, [replace(row, policy="*@y.example")])

    async with open_list(client) as browser:
        page = (await browser.get("/ui/messages")).text

    assert ids_of(page) == [row.id]
    at, way, subject, verdict, probability, policy, action, learned = cells_of(page)
    assert time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.checked_at)) in at
    assert " ".join(re.sub(r"<[^>]*>", " ", way).split()) == "ann@x.example &rarr; to bob@y.example and 11 more"
    assert ">hello</bdi>" in subject
    assert (verdict, probability) == ('<span class="verdict spam">spam</span>', "0.070")
    assert "*@y.example" in policy
    assert "pass, quarantine" in action
    assert ">ham</bdi>" in learned
    assert "1 checked message of the last 10 hours." in page


async def test_what_is_not_known_is_a_dash(client: Redis) -> None:
    (row,) = make_rows([1], RememberedEnvelope("spamd"))
    await write(client, [row])

    async with open_list(client) as browser:
        page = (await browser.get("/ui/messages")).text

    _, way, subject, _, _, _, action, _ = cells_of(page)
    assert (way.count(DASH), action) == (2, DASH)
    assert row.id in re.sub(r"<[^>]*>", "", subject)


@pytest.mark.parametrize(
    ("memory", "path", "said"),
    [
        (
            MEMORY,
            "/ui/messages",
            "No message is remembered yet.",
        ),
        (MEMORY, "/ui/messages?verdict=spam", "No message matches."),
        (MemorySettings(hours=HOURS, messages=0), "/ui/messages", "memory.messages is 0"),
    ],
)
async def test_an_empty_list_says_what_to_do(client: Redis, memory: MemorySettings, path: str, said: str) -> None:
    async with open_list(client, memory) as browser:
        answer = await browser.get(path)

    assert answer.status == 200
    assert said in answer.text
    assert "<table" not in answer.text


async def test_the_form_filters_and_shows_what_was_asked(client: Redis) -> None:
    rows = make_rows(range(12))
    await write(client, rows)
    middle, later = (
        datetime.fromtimestamp(rows[number].checked_at + 0.05, UTC).isoformat().replace("+", "%2B")
        for number in (6, 9)
    )
    newest_first = [row.id for row in reversed(rows)]

    async with open_list(client) as browser:

        async def found(query: str) -> list[str]:
            return ids_of((await browser.get(f"/ui/messages?{query}")).text)

        assert await found("") == newest_first
        assert await found("verdict=spam") == [row.id for row in reversed(rows) if row.verdict == "spam"]
        assert await found("sender=S1%40X.example") == [row.id for row in reversed(rows[1::3])]
        assert await found("sender=%40x.example&verdict=ham") == [row.id for row in reversed(rows[::2])]
        assert await found("recipient=%3Cbob%40y.example%3E") == newest_first
        assert await found("recipient=%40x.example") == []
        (subject,) = {row.envelope.subject for row in rows[:1] if row.envelope}
        assert subject
        assert rows[0].id in await found(f"subject={quote(subject[1:].upper())}")
        assert await found("subject=of+no+message") == []
        assert await found(f"id=+{rows[3].id[:6].upper()}") == [rows[3].id]
        assert await found(f"since={middle}&until={later}") == [rows[9].id, rows[8].id, rows[7].id]
        assert await found(f"until={middle}") == [row.id for row in reversed(rows[:7])]
        assert await found("since=2h") == newest_first
        assert await found("until=2h") == []
        page = (await browser.get("/ui/messages?verdict=spam&sender=%22%3E%3Cb%3E&since=2026-01-01T10:00")).text
    assert '<option value="spam" selected>' in page
    assert 'name="sender" value="&#34;&gt;&lt;b&gt;"' in page
    assert 'name="since" value="2026-01-01T10:00:00"' in page
    assert link_of(page, "Show all") == "/ui/messages"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sender=*%40x.example", "*@x.example is not looked for: only a whole address is"),
        ("recipient=bo*", "bo* is not looked for"),
        ("sender=theorize", "Whole addresses and domains are found"),
        ("recipient=%40example", "without subdomains"),
        ("action=nonsense", "There is no such action"),
        ("since=yesterday", "A time was not understood"),
        ("until=0001-01-01", "A time was not understood"),
        ("until=9999-12-31T23:59:59-23:59", ""),
        ("older=nan_a", ""),
        ("older=1e400_a", ""),
        ("id=%EF%BF%BD%00", ""),
        ("sender=%EF%BF%BD&recipient=%40", ""),
    ],
)
async def test_what_is_not_understood_is_left_out(client: Redis, query: str, said: str) -> None:
    await write(client, make_rows([1]))

    async with open_list(client) as browser:
        answer = await browser.get(f"/ui/messages?{query}")

    assert answer.status == 200
    assert said in answer.text


class RecordedSearch(RowSearch):
    """Finds one row, after which others follow, and notes what was asked."""

    def __init__(self, row: MessageRow) -> None:
        self._row = row
        self.asked: list[tuple[RowFilter, RowPosition | None]] = []

    async def count(self) -> int:
        return 1

    async def search(
        self,
        wanted: RowFilter,
        position: RowPosition | None = None,
        count: int = 0,
    ) -> RowPage:
        self.asked.append((wanted, position))
        return RowPage((self._row,), self._row.position)


@given(st.floats(0, 1e11), st.text(max_size=30), st.text(max_size=30))
def test_a_link_asks_the_same_behind_the_exact_place_of_the_last_message(
    at: float, sender: str, recipient: str
) -> None:
    row = MessageRow(message_id(1), at, "ham", 0.5)
    search, session = RecordedSearch(row), Session(Role.READ, "page ann", "csrf")
    (route,) = MessagesView(search, MEMORY, True, find_labels, dict, lambda: CLASSES).routes()
    first = PageRequest(session, query={"sender": sender, "recipient": recipient})

    page = asyncio.run(_answer(route, first))
    link = page.values["older_link"]
    asyncio.run(_answer(route, PageRequest(session, query=read_query(urlsplit(str(link)).query))))

    (wanted, _), followed = search.asked
    assert followed == (wanted, row.position)


async def _answer(route: PageRoute, request: PageRequest) -> Page:
    answer = await route.handler(request)
    assert isinstance(answer, Page)
    return answer
