"""The view of senders: entries of the site and of a user are seen, added and removed."""

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
from nbstream.web.areas import PREFIX
from nbstream.web.lists_view import ListsView
from tests.harness.admin_site import words
from tests.harness.rows import KEYS
from tests.web.admin.page_listener import Browser, open_page

ANN = "ann@example.org"
CONFIGURED = OwnerList(
    [ListEntry(ListKind.ALLOW, SenderPattern.parse(text)) for text in ("192.0.2.0/24", "set.example")]
)


@asynccontextmanager
async def open_view(client: Redis, role: Role = Role.TEACH) -> AsyncIterator[Browser]:
    view = ListsView(PREFIX, StoredSenderLists(client, KEYS), lambda: CONFIGURED)
    async with open_page(client, view) as page, page.browser(role) as browser:
        yield browser


def rows(page: str) -> list[str]:
    """The kind, the sender and the writer of each entry, without the day."""
    found = re.findall(r"<li>\n(.*?)</li>", page.partition("<main")[2], re.DOTALL)
    return [re.sub(r" \d{4}-\d{2}-\d{2}| Remove", "", words(each)) for each in found]


async def entries(client: Redis, owner: str) -> list[tuple[str, str, str]]:
    stored = await StoredSenderLists(client, KEYS).entries(owner)
    return [(str(entry.kind), entry.pattern.text, entry.actor) for entry in stored]


async def test_the_list_of_the_site_is_shown_with_that_of_the_settings_and_changed(client: Redis) -> None:
    async with open_view(client) as browser:
        form = {"user": "", "sender": "*@Partner.example", "action": "block"}
        answer = await browser.post("/ui/senders", form)
        assert (answer.status, answer.target) == (303, "/ui/senders")

        page = (await browser.get("/ui/senders")).text
        assert "The sender was added." in page
        assert rows(page) == [
            "Never wanted partner.example page tester",
            "Always wanted set.example the settings",
            "Always wanted 192.0.2.0/24 the settings",
        ]

        await browser.post("/ui/senders", {"user": "", "sender": "partner.example", "action": "remove"})
        assert await entries(client, SITE) == []


async def test_the_list_of_a_user_is_another_one(client: Redis) -> None:
    async with open_view(client) as browser:
        form = {"user": "Ann@Example.org", "sender": "192.0.2.0/28", "action": "allow"}
        answer = await browser.post("/ui/senders", form)
        assert answer.target == "/ui/senders?user=ann%40example.org"
        assert rows((await browser.get(answer.target)).text) == ["Always wanted 192.0.2.0/28 page tester"]
    assert await entries(client, ANN) == [("allow", "192.0.2.0/28", "page tester")]
    assert await entries(client, SITE) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"sender": "partner"}, "Nothing was changed: a sender must be an address"),
        ({"sender": ""}, "Nothing was changed: a sender must be an address"),
        ({"action": "perhaps"}, "a sender is allowed, blocked or removed"),
        ({"user": "site"}, "A user is known by a whole address"),
        ({"user": f"{'x' * 400}@example.org"}, "A user is known by a whole address"),
        ({"csrf": "wrong"}, "this form is not valid any more"),
    ],
)
async def test_a_form_that_is_wrong_changes_nothing(client: Redis, change: dict[str, str], text: str) -> None:
    form = {"user": ANN, "sender": "a.example", "action": "allow", **change}
    async with open_view(client) as browser:
        if "csrf" in change:
            browser.csrf = form.pop("csrf")
        answer = await browser.post("/ui/senders", form)

    assert answer.status in {400, 403}
    assert text in html.unescape(answer.text)
    assert not await client.keys("*lists*")


async def test_who_may_only_read_sees_no_form(client: Redis) -> None:
    async with open_view(client, Role.READ) as browser:
        page = (await browser.get("/ui/senders")).text
        assert "<button name" not in page
        assert (await browser.post("/ui/senders", {"sender": "a.example", "action": "block"})).status == 403
