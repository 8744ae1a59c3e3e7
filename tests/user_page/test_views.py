"""What a user sees of his mail, and what his buttons do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.policy.sender_lists import SITE
from nbstream.store.model.keys import ModelKeys
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.user_page.texts import TEXTS
from nbstream.users.preferences import UserPreferences
from tests.letters import letters
from tests.listeners.http.http_listener import LUNCH, PRIZE
from tests.page.site import HOSTILE, words
from tests.user_page.site import ANN, BOB, UserSite, open_user_site

SPAM = next(raw for label, raw in letters(20) if label == "spam").replace(b"Subject: ", b"Subject: Special ")


@pytest.fixture
async def site(client: Redis, tmp_path: Path) -> AsyncIterator[UserSite]:
    async with open_user_site(client, tmp_path) as running:
        yield running


def test_both_languages_have_the_same_texts() -> None:
    english, german = TEXTS["en"], TEXTS["de"]
    assert english.keys() == german.keys()
    assert all(text.strip() for text in (*english.values(), *german.values()))
    assert not [name for name in english if english[name].count("{") != german[name].count("{")]


async def test_nothing_is_held_back(site: UserSite) -> None:
    async with site.browser(ANN) as browser:
        assert "Nothing is held back for you." in (await browser.get("/my/")).text
        assert "No message to you is remembered." in (await browser.get("/my/messages")).text


async def test_he_sees_what_waits_for_him_and_for_nobody_else(site: UserSite) -> None:
    await site.hold(PRIZE, ANN, BOB)
    await site.hold(LUNCH, BOB)
    async with site.browser(ANN) as browser:
        text = (await browser.get("/my/")).text
    assert "You have won" in text
    assert "winner@offers.example" in text
    assert "Lunch" not in text
    assert BOB not in text


async def test_a_verdict_for_several_is_that_of_his_own_filter(client: Redis, tmp_path: Path) -> None:
    strict = {"match": ANN, "verdict": {"unsure": 0.0001, "spam": 0.0002}}
    async with open_user_site(client, tmp_path, recipients=[strict]) as site:
        await site.teach()
        checked = await site.check(LUNCH, ANN, BOB)
        async with site.browser(ANN) as browser, site.browser(BOB) as other:
            ann, bob = [words((await each.get("/my/messages")).text) for each in (browser, other)]
            assert checked in (await browser.get("/my/messages")).text
    assert "Lunch on Friday? spam" in ann
    assert "Lunch on Friday? wanted" in bob


async def test_the_list_goes_on_page_by_page(site: UserSite) -> None:
    for n in range(30):
        await site.check(LUNCH.replace(b"Friday", b"day %d" % n).replace(b"<l@x>", b"<%d@x>" % n), ANN)
    async with site.browser(ANN) as browser:
        first = (await browser.get("/my/messages")).text
        older = first.partition('<a href="/my/messages?older=')[2].partition('"')[0]
        second = (await browser.get(f"/my/messages?older={older}")).text
        assert first.count("<article") == 25
        assert second.count("<article") == 5
        assert "The newest messages" in second
        for wrong in ("x", "1_", "nan_x", "%00"):
            assert (await browser.get(f"/my/messages?older={wrong}")).status == 200


async def test_without_envelopes_the_list_says_so(client: Redis, tmp_path: Path) -> None:
    async with open_user_site(client, tmp_path, memory={"envelope": False}) as site, site.browser(ANN) as browser:
        assert "does not remember to whom" in (await browser.get("/my/messages")).text


async def test_what_is_in_doubt_is_delivered_only_if_he_asks_for_that(site: UserSite) -> None:
    held = await site.hold(PRIZE, ANN)
    (path,) = (site.quarantine._path / "new").iterdir()
    path.rename(site.quarantine._path / "cur" / f"{path.name}:2,P")
    async with site.browser(ANN) as browser:
        await browser.post(f"/my/messages/{held}", {"action": "release"})
        assert not site.mail_server.received
        text = (await browser.get(f"/my/messages/{held}")).text
        assert "may have been delivered" in words(text)
        assert "Deliver it again" in text
        await browser.post(f"/my/messages/{held}", {"action": "release", "again": "yes"})
    assert [mail.recipients for mail in site.mail_server.received] == [[ANN]]


async def test_he_switches_his_digest(site: UserSite) -> None:
    preferences = UserPreferences(site.client, ModelKeys("default"))
    async with site.browser(ANN) as browser:
        assert "You get the digest." in (await browser.get("/my/digest")).text
        await browser.post("/my/digest", {"digest": "off"})
        assert "You do not get the digest." in (await browser.get("/my/digest")).text
        assert not await preferences.wants_digest(ANN)
        assert await preferences.wants_digest(BOB)
        await browser.post("/my/digest", {"digest": "on"})
        assert (await browser.post("/my/digest", {"digest": "maybe"})).status == 400
    assert await preferences.wants_digest(ANN)


async def test_texts_of_mail_are_texts(site: UserSite) -> None:
    raw = f"From: {HOSTILE}\nSubject: {HOSTILE}\nMessage-ID: <h@x>\n\n{HOSTILE}\n".encode()
    held, checked = await site.hold(raw, ANN), await site.check(raw, ANN, sender=HOSTILE)
    async with site.browser(ANN) as browser:
        paths = ("/my/", "/my/messages", f"/my/messages/{held}", f"/my/messages/{checked}")
        texts = [(await browser.get(path)).text for path in paths]
    for text in texts:
        assert "alert(1)" in text
        assert "<script" not in text
        assert "<img" not in text
        assert not [character for character in "\u202e\u0007" if character in text]


async def test_he_says_which_senders_he_always_and_never_wants(site: UserSite) -> None:
    lists = StoredSenderLists(site.client, ModelKeys("default"))
    async with site.browser(ANN) as browser:
        assert "There is no sender yet." in (await browser.get("/my/senders")).text
        for action, sender in (("allow", "Friend@Shop.example"), ("block", "@evil.example"), ("block", "a@x.org")):
            await browser.post("/my/senders", {"action": action, "sender": sender})
        shown = words((await browser.get("/my/senders")).text)
        assert "Always wanted friend@shop.example Remove" in shown
        assert "Never wanted a@x.org Remove evil.example Remove" in shown
        await browser.post("/my/senders", {"action": "remove", "sender": "a@x.org"})
    async with site.browser(BOB) as other:
        assert "example" not in words((await other.get("/my/senders")).text).replace(BOB, "")
    entries = [(str(entry.kind), entry.pattern.text, entry.actor) for entry in await lists.entries(ANN)]
    assert entries == [("allow", "friend@shop.example", ANN), ("block", "evil.example", ANN)]
    assert await lists.entries(BOB) == []
    assert await lists.entries(SITE) == []


async def test_what_he_says_goes_to_his_own_model_and_is_shown_to_him_alone(client: Redis, tmp_path: Path) -> None:
    rules = [{"match": "*@example.org", "name": "{address}"}]
    async with open_user_site(client, tmp_path, models=rules) as site:
        await site.teach()
        before = await client.hgetall(ModelKeys("default").totals)
        checked = await site.check(SPAM, ANN, BOB)
        async with site.browser(ANN) as browser, site.browser(BOB) as other:
            of_bob = (await other.get(f"/my/messages/{checked}")).text
            for _ in range(2):
                await browser.post(f"/my/messages/{checked}", {"action": "ham"})
            shown = words((await browser.get(f"/my/messages/{checked}")).text)

            assert "You have called this message wanted." in shown
            assert (await other.get(f"/my/messages/{checked}")).text == of_bob
        assert await site.label(checked) is None
        assert await client.hgetall(ModelKeys("default").totals) == before
        assert await client.zrange("nbstream:{default}:own", 0, -1) == [ANN.encode()]


async def test_his_corrections_of_other_messages_are_told_of(client: Redis, tmp_path: Path) -> None:
    rules = [{"match": "*@example.org", "name": "{address}"}]
    similar = SPAM.replace(b"Message-ID: <", b"Message-ID: <other")
    async with open_user_site(client, tmp_path, models=rules) as site:
        await site.teach(200)
        taught, asked = await site.check(SPAM, ANN), await site.check(similar, ANN, BOB)
        async with site.browser(ANN) as browser, site.browser(BOB) as other:
            path = f"/my/messages/{asked}"
            assert "Corrections by users here" not in (await browser.get(path)).text
            await browser.post(f"/my/messages/{taught}", {"action": "ham"})
            assert "Corrections by users here had a say in it." in (await browser.get(path)).text
            assert "Corrections by users here" not in (await other.get(path)).text
