"""The view lists: entries of the site and of a user are seen, added and removed."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.sender_lists import SITE, ListEntry, ListKind, OwnerList
from nbstream.server.http.access import Role
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.web.admin.lists_view import ListsView
from tests.harness.rows import KEYS
from tests.web.admin.page_listener import Browser, open_page

ANN = "ann@example.org"
CONFIGURED = OwnerList(
    [ListEntry(ListKind.ALLOW, SenderPattern.parse(text)) for text in ("192.0.2.0/24", "set.example")]
)


@asynccontextmanager
async def open_view(client: Redis, role: Role = Role.TEACH) -> AsyncIterator[Browser]:
    view = ListsView(StoredSenderLists(client, KEYS), lambda: CONFIGURED)
    async with open_page(client, view) as page, page.browser(role) as browser:
        yield browser


def rows(page: str) -> list[list[str]]:
    """The sender, the kind and the writer in each row of the table."""
    found = []
    for row in re.findall(r'<tr role="row"><th scope="row".*?</tr>', page, re.DOTALL):
        cells = [html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r">([^\n]*?)</t[hd]>", row)]
        found.append([cells[0], cells[1], cells[3]])
    return found


async def entries(client: Redis, owner: str) -> list[tuple[str, str, str]]:
    stored = await StoredSenderLists(client, KEYS).entries(owner)
    return [(str(entry.kind), entry.pattern.text, entry.actor) for entry in stored]


async def test_the_list_of_the_site_is_shown_with_that_of_the_settings_and_changed(client: Redis) -> None:
    async with open_view(client) as browser:
        form = {"user": "", "sender": "*@Partner.example", "kind": "block"}
        answer = await browser.post("/ui/lists/add", form)
        assert (answer.status, answer.target) == (303, "/ui/lists")

        page = (await browser.get("/ui/lists")).text
        assert "partner.example was added." in page
        assert rows(page) == [
            ["partner.example", "block", "page tester"],
            ["set.example", "allow", "the settings"],
            ["192.0.2.0/24", "allow", "the settings"],
        ]

        await browser.post("/ui/lists/remove", {"user": "", "sender": "partner.example"})
        assert await entries(client, SITE) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"sender": "partner"}, "Nothing was changed: a sender must be an address"),
        ({"sender": ""}, "Nothing was changed: a sender must be an address"),
        ({"kind": "perhaps"}, "a sender is allowed or blocked"),
        ({"user": "site"}, "A user is known by a whole address"),
        ({"user": f"{'x' * 400}@example.org"}, "A user is known by a whole address"),
        ({"csrf": "wrong"}, "this form is not valid any more"),
    ],
)
async def test_a_form_that_is_wrong_changes_nothing(client: Redis, change: dict[str, str], text: str) -> None:
    form = {"user": ANN, "sender": "a.example", "kind": "allow", **change}
    async with open_view(client) as browser:
        if "csrf" in change:
            browser.csrf = form.pop("csrf")
        answer = await browser.post("/ui/lists/add", form)

    assert answer.status in {400, 403}
    assert text in html.unescape(answer.text)
    assert not await client.keys("*lists*")
