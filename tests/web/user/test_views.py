"""What a user sees of his mail, and what his buttons do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.delivery import quarantine
from nbstream.delivery.quarantine import QuarantineFile, QuarantineNote
from nbstream.mail.message import Message
from nbstream.policy.sender_lists import SITE
from nbstream.store.model.keys import ModelKeys
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.web.texts import TEXTS
from nbstream.web.users.preferences import UserPreferences
from tests.harness.admin_site import words
from tests.harness.http_listener import LUNCH, PRIZE
from tests.harness.samples import samples
from tests.harness.user_site import ANN, BOB, UserSite, open_user_site

SPAM = next(raw for label, raw in samples(20) if label == "spam").replace(b"Subject: ", b"Subject: Special ")


@pytest.fixture
async def site(client: Redis, tmp_path: Path) -> AsyncIterator[UserSite]:
    async with open_user_site(client, tmp_path) as running:
        yield running


def test_both_languages_have_the_same_texts() -> None:
    english, german = TEXTS["en"], TEXTS["de"]
    assert english.keys() == german.keys()
    assert all(text.strip() for text in (*english.values(), *german.values()))
    assert not [name for name in english if english[name].count("{") != german[name].count("{")]


async def test_a_verdict_for_several_is_that_of_his_own_filter(client: Redis, tmp_path: Path) -> None:
    strict = {"match": ANN, "verdict": {"unsure": 0.0001, "spam": 0.0002}}
    async with open_user_site(client, tmp_path, recipients=[strict]) as site:
        await site.teach()
        checked = await site.check(LUNCH, ANN, BOB)
        async with site.browser(ANN) as browser, site.browser(BOB) as other:
            ann, bob = [words((await each.get("/my/messages")).text) for each in (browser, other)]
            assert checked in (await browser.get("/my/messages")).text
    assert "spam This is not spam" in ann
    assert "wanted This is spam" in bob


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("allow", "wanted Why? Its sender is on a list of allowed senders. It"),
        ("block", "spam Why? Its sender is on a list of blocked senders. It"),
    ],
)
async def test_that_a_list_decided_is_said(client: Redis, tmp_path: Path, kind: str, said: str) -> None:
    async with open_user_site(client, tmp_path, lists={kind: ["192.0.2.0/24"]}) as site:
        await site.teach()
        checked = await site.check(SPAM, ANN, client="192.0.2.1")
        async with site.browser(ANN) as browser:
            assert said in words((await browser.get(f"/my/messages/{checked}")).text)


async def test_of_a_full_quarantine_only_the_files_of_the_user_are_opened(
    site: UserSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has much in the quarantine neither hides the mail of others nor makes them wait."""
    own = await site.hold(SPAM, ANN)
    await site.hold(PRIZE, BOB)
    ((of_bob, name),) = [
        (path, path.name) for path in (tmp_path / "Quarantine" / "new").iterdir() if own not in path.name
    ]
    at, rest = name.split(".", 1)
    for n in range(1, 2500):
        of_bob.with_name(f"{int(at) + n}.{rest}").hardlink_to(of_bob)
    opened: list[str] = []
    read_note = quarantine.read_note

    def counting_read_note(file: QuarantineFile) -> QuarantineNote:
        opened.append(file.id)
        return read_note(file)

    async with site.browser(ANN) as browser:
        assert own in (await browser.get("/my/")).text
        await site.hold(SPAM.replace(b"Special", b"Newer"), ANN)
        monkeypatch.setattr(quarantine, "read_note", counting_read_note)
        assert "Newer" in (await browser.get("/my/")).text
        assert opened.count(own) == 1
        assert len(opened) == 3  # the new file once more, to learn whom it waits for
        async with site.browser(BOB) as other:
            assert (await other.get("/my/")).text.count("<article") == 1


async def test_he_switches_his_digest(site: UserSite) -> None:
    preferences = UserPreferences(site.client, ModelKeys("default"))
    async with site.browser(ANN) as browser:
        assert "You get a mail about new messages in quarantine." in (await browser.get("/my/digest")).text
        await browser.post("/my/digest", {"digest": "off"})
        assert "You get no mail about messages in quarantine." in (await browser.get("/my/digest")).text
        assert not await preferences.wants_digest(ANN)
        assert await preferences.wants_digest(BOB)
        await browser.post("/my/digest", {"digest": "on"})
        assert (await browser.post("/my/digest", {"digest": "maybe"})).status == 400
    assert await preferences.wants_digest(ANN)


async def test_he_says_which_senders_he_always_and_never_wants(site: UserSite) -> None:
    lists = StoredSenderLists(site.client, ModelKeys("default"))
    async with site.browser(ANN) as browser:
        assert "There is no sender yet." in (await browser.get("/my/senders")).text
        for action, sender in (("allow", "Friend@Shop.example"), ("block", "@evil.example"), ("block", "a@x.org")):
            await browser.post("/my/senders", {"action": action, "sender": sender})
        shown = words((await browser.get("/my/senders")).text)
        assert "Always wanted friend@shop.example Remove" in shown
        assert "Never wanted a@x.org Remove" in shown
        assert "Never wanted evil.example Remove" in shown
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

            assert "you called it wanted" in shown
            assert (await other.get(f"/my/messages/{checked}")).text == of_bob
        assert await site.label(checked) is None
        assert await client.hgetall(ModelKeys("default").totals) == before
        assert await client.zrange("nbstream:{default}:own", 0, -1) == [ANN.encode()]


async def test_what_is_remembered_of_a_message_and_cannot_be_read_hides_no_other_message(
    site: UserSite, client: Redis
) -> None:
    await site.teach()
    await site.hold(SPAM, ANN)
    await site.check(SPAM, ANN)
    await client.set(ModelKeys("default").checked(Message.parse(SPAM).key), b"x")

    async with site.browser(ANN) as browser:
        assert (await browser.get("/my/")).status == 200
