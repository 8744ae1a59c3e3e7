"""Queries and forms of the page: whatever is sent is refused, or becomes a page of our own elements alone."""

from __future__ import annotations

from contextlib import suppress

from nbstream.bayes.columns import CLASSES
from nbstream.policy.envelope import RememberedEnvelope
from nbstream.store.recent.message_rows import MessageRow
from nbstream.web.admin.teaching_view import ChangeSelection
from nbstream.web.forms import MAX_FORM_FIELDS, read_form, read_query
from nbstream.web.rendering import PageRenderer
from nbstream.web.requests import Page, PageRefused, PageRequest
from tests.fuzz.page_elements import assert_own_elements
from tests.fuzz.shown_records import SESSION, TIME, show_changes, show_row
from tests.fuzz.target import FuzzTarget

_renderer = PageRenderer()


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
        selection.of_history(TIME)
    _check_pages(PageRequest(SESSION, "", query, form), selection, body.decode("utf-8", "surrogateescape"))


def _check_pages(request: PageRequest, selection: ChangeSelection, text: str) -> None:
    show_row(
        MessageRow(
            "a" * 24, TIME, "spam", 0.5, text, RememberedEnvelope(text, text, (text, text), 12, text, text)
        ),
        request,
    )
    with suppress(PageRefused):
        show_changes((), request)
    page = Page("admin/undo.html", {"wanted": selection, "class_names": CLASSES, "problem": "", "outcomes": None})
    assert_own_elements(_renderer.render(page, request, path=text))


TARGET = FuzzTarget(
    _check,
    (
        b"sender=%40x.example&recipient=bob&verdict=spam&since=2026-01-31T12:00&until=&id=aaaa\nhello",
        b"older=1800000000.25_aaaaaaaaaaaaaaaaaaaaaaaa\n<script>alert(1)</script>",
        b"since=2h&until=9999-12-31T23:59-23:59&actor=%22%3E%3Cimg&source=page&label=ham&id=x\ncsrf=a&action=ham",
        b"since=%E2%80%AE%07&before=1-2\n",
        b'since=999999d&label=both\n"><svg onload=x>{{ 7*7 }}\xe2\x80\xae',
        b"id=x\nid=a&id=b",
        b"since=.5\n\xff%ff%zz",
    ),
    words=(b"&", b"=", b"%", b"%00", b"%ED%A0%80", b"%E2%80%AE", b"since=", b"1e400", b"_", b"\n", b"+", b'">'),
    max_bytes=2000,
    mutations=150,
)
