"""Queries and forms of the page: whatever is sent is refused, or becomes a page of our own elements alone."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from html.parser import HTMLParser

from nbstream.listeners.http.page.change_selection import ChangeSelection
from nbstream.listeners.http.page.forms import MAX_FORM_FIELDS, read_form, read_query
from nbstream.listeners.http.page.messages_view import MemoryOptions, MessagesView
from nbstream.listeners.http.page.rendering import PageRenderer
from nbstream.listeners.http.page.requests import Answer, Page, PageRefused, PageRequest, Role, Session
from nbstream.listeners.http.page.routes import PageRoute
from nbstream.listeners.http.page.threshold_query import FIELDS, read_trial, verdict_line
from nbstream.policy.envelope import Envelope
from nbstream.policy.policy import FalsePositiveBudget, ThresholdPolicy
from nbstream.store.recent.envelopes import MessageRow, RowPosition
from nbstream.store.recent.row_search import Direction, RowFilter, RowPage
from tests.fuzz.target import FuzzTarget

_NOW = 1_800_000_000.0
_SESSION = Session(Role.TEACH, "page ann", "c" * 64)
_POLICY = ThresholdPolicy(0.2, FalsePositiveBudget(0.001), 0.9999)
_LINE = re.compile(r"verdict: \{[a-z_0-9.:, {}]+\}")
_PATHS = re.compile(r"#content|/ui/[^\s\"<>]*")
_HIDDEN = set("\0\a\x1b\u200b\u202e\u2066\u3164")
_runner = asyncio.Runner()
_renderer = PageRenderer("1")


class _Rows:
    """One message, whose texts are those of the request."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def count(self) -> int:
        return 1

    async def search(
        self, wanted: RowFilter, position: RowPosition | None = None, direction: Direction = Direction.OLDER
    ) -> RowPage:
        text = self._text
        envelope = Envelope(text, text, (text, text), 12, text, text)
        row = MessageRow("a" * 24, _NOW, "spam", 0.5, text, envelope)
        return RowPage((row,), row.position if position else None, is_cut=bool(wanted.sender))


class _Elements(HTMLParser):
    """Asserts that a page has no elements, attributes and addresses but our own."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"img", "iframe", "object", "embed", "base", "style", "svg"}
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in {"style", "srcdoc", "autofocus"}
            if name in {"href", "src", "action"}:
                assert _PATHS.fullmatch(value or "")

    def handle_data(self, data: str) -> None:
        assert not _HIDDEN & set(data)


def _check(data: bytes) -> None:
    raw_query, _, body = data.partition(b"\n")
    try:
        query = read_query(raw_query.decode("utf-8", "surrogateescape"))
        form = read_form(body)
    except PageRefused:
        return
    texts = [*query, *query.values(), *form, *(value for values in form.values() for value in values)]
    assert len(texts) <= 2 * (len(data) + 2)
    assert sum(map(len, form.values())) <= MAX_FORM_FIELDS
    for text in texts:
        text.encode()
    selection = ChangeSelection.from_fields(query)
    assert ChangeSelection.from_fields(read_query(selection.query())) == selection
    with suppress(PageRefused):
        selection.of_history(_NOW)
    trial = read_trial(query, _POLICY, (0.001, 0.01))
    assert (trial.policy is None) == bool(trial.problems)
    assert trial.problems.keys() <= set(FIELDS)
    if trial.policy:
        assert _LINE.fullmatch(verdict_line(trial.policy))
    _check_pages(PageRequest(_SESSION, "", query, form), selection, body.decode("utf-8", "surrogateescape"))


def _check_pages(request: PageRequest, selection: ChangeSelection, text: str) -> None:
    (route,) = MessagesView(_Rows(text), MemoryOptions(1, 1, envelopes=True)).routes()
    answer = _runner.run(_answer(route, request))
    assert isinstance(answer, Page)
    undo: dict[str, object] = {"wanted": selection, "problem": "", "may_undo": True, "preview": None}
    for page in (answer, Page("undo.html", undo)):
        html = _renderer.render(page, request, path=text, flash="")
        html.encode("utf-8", "replace")
        elements = _Elements()
        elements.feed(html)
        elements.close()


async def _answer(route: PageRoute, request: PageRequest) -> Answer:
    return await route.handler(request)


TARGET = FuzzTarget(
    _check,
    (
        b"sender=%40x.example&recipient=bob&verdict=spam&since=2026-01-31T12:00&until=&id=aaaa\nhello",
        b"older=1800000000.25_aaaaaaaaaaaaaaaaaaaaaaaa&newer=nan_x\n<script>alert(1)</script>",
        b"since=2h&until=9999-12-31T23:59-23:59&actor=%22%3E%3Cimg&source=page&label=ham&id=x\ncsrf=a&action=ham",
        b'since=999999d&label=both\n"><svg onload=x>{{ 7*7 }}\xe2\x80\xae',
        b"policy=default&unsure=0.2&spam=0.9&spam_budget=&reject=1&reject_budget=0.001\nid=a&id=b",
        b"unsure=1e-300&spam=.5&spam_budget=0.01&reject=\n\xff%ff%zz",
    ),
    words=(b"&", b"=", b"%", b"%00", b"%ED%A0%80", b"%E2%80%AE", b"since=", b"1e400", b"_", b"\n", b"+", b'">'),
    max_bytes=2000,
    mutations=150,
)
