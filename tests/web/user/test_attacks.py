"""What one user can do to another, and a stranger to both: nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.policy.sender_lists import SITE
from nbstream.store.model.keys import ModelKeys
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.web.sessions import csrf_token
from tests.harness.http_listener import LUNCH, PRIZE
from tests.harness.user_site import ANN, BOB, UserBrowser, UserSite, open_user_site
from tests.web.admin.page_listener import Response


@dataclass(frozen=True)
class Attack:
    """A site where ``held`` waits for Bob and ``checked`` was checked for him; ``browser`` is Ann's."""

    site: UserSite
    browser: UserBrowser
    held: str
    checked: str

    async def state(self) -> object:
        """Return all that may not change: Redis but for what ends by itself, the quarantine, delivered mail."""
        keys = sorted([key async for key in self.site.client.scan_iter("*") if b":web:" not in key])
        values = [await self.site.client.dump(key) for key in keys]
        return keys, values, self.site.waiting(), list(self.site.mail_server.received)


@pytest.fixture
async def attack(client: Redis, tmp_path: Path) -> AsyncIterator[Attack]:
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(open_user_site(client, tmp_path))
        await site.teach(4)
        held = await site.hold(PRIZE, BOB)
        checked = await site.check(LUNCH, BOB)
        yield Attack(site, await stack.enter_async_context(site.browser(ANN)), held, checked)


def shown_text(answer: Response) -> str:
    """Return what a page says, without the token of its forms."""
    return answer.text.partition("<main")[2]


async def test_the_mail_of_another_user_does_not_exist(attack: Attack) -> None:
    before = await attack.state()
    unknown = "b" * 24
    answers = []
    for message_id in (attack.held, attack.checked, unknown, "x", "*", f"{attack.held[:8]}*", "%2e%2e"):
        path = f"/my/messages/{message_id}"
        answers.append(await attack.browser.get(path))
        answers += [await attack.browser.post(path, {"action": action}) for action in ("spam", "ham", "release")]
        answers.append(await attack.browser.post(path, {"action": "release", "again": "yes"}))
    assert {answer.status for answer in answers} == {404}
    assert len({shown_text(answer) for answer in answers}) == 1
    assert await attack.state() == before


async def test_lists_never_show_the_mail_of_another_user(attack: Attack) -> None:
    queries = [
        "",
        "?recipient=bob@example.org",
        "?user=bob@example.org",
        "?address=bob@example.org",
        "?older=9e9_x",
    ]
    for path in ("/my/", "/my/messages", "/my/digest"):
        for query in queries:
            text = (await attack.browser.get(path + query)).text
            assert not [found for found in ("You have won", "Lunch", BOB, attack.held) if found in text]


@pytest.mark.parametrize(
    "address",
    [
        "ANN@example.org",
        "*@example.org",
        "@example.org",
        "bob@example.org,ann@example.org",
        "<bob@example.org>",
        "bob+x@example.org",
        "",
    ],
)
async def test_an_address_that_no_login_gives_is_no_session(attack: Attack, address: str) -> None:
    async with attack.site.browser(address) as browser:
        for path in ("/my/", "/my/messages", f"/my/messages/{attack.held}"):
            assert (await browser.get(path)).status == 303


async def test_a_page_of_another_site_changes_nothing(attack: Attack) -> None:
    own = await attack.site.check(LUNCH.replace(b"<l@x>", b"<own@x>"), ANN)
    before = await attack.state()
    path, form = f"/my/messages/{own}", {"action": "spam"}
    browser = attack.browser
    async with attack.site.browser(BOB) as other:
        stolen = csrf_token(other.session_token)
    answers = [
        await browser.post(path, form, Origin="https://evil.example"),
        await browser.post(path, form, Sec_Fetch_Site="cross-site"),
        await browser.post(path, form, Sec_Fetch_Site="same-site"),
        await browser.post(path, form, Origin="null"),
        await browser.ask("POST", path, form),
    ]
    for wrong in ("", "x", stolen):
        browser.csrf = wrong
        answers.append(await browser.post(path, form))
        answers.append(await browser.post("/my/digest", {"digest": "off"}))
        answers.append(await browser.post("/my/logout", {}))
    assert {answer.status for answer in answers} == {403}
    assert await attack.state() == before
    assert (await browser.get("/my/")).status == 200


@pytest.mark.parametrize(
    "sender",
    [
        "",
        "*",
        "*@*",
        "a@x.example\r\nBcc: bob@example.org",
        "<script>alert(1)</script>",
        "x" * 400 + "@x.example",
    ],
)
async def test_an_entry_of_a_list_is_an_address_or_a_domain(attack: Attack, sender: str) -> None:
    before = await attack.state()
    answers = [
        await attack.browser.post("/my/senders", {"action": action, "sender": sender})
        for action in ("allow", "block", "remove")
    ]
    assert {answer.status for answer in answers} == {400}
    assert len({shown_text(answer) for answer in answers}) == 1
    assert await attack.state() == before


async def test_nobody_changes_the_list_of_another_user_or_of_the_site(attack: Attack) -> None:
    lists = StoredSenderLists(attack.site.client, ModelKeys("default"))
    for owner in (BOB, SITE):
        form = {"action": "allow", "sender": "evil.example", "user": owner, "owner": owner, "address": owner}
        assert (await attack.browser.post(f"/my/senders?user={owner}&owner={owner}", form)).status == 303
        assert await lists.entries(owner) == []
