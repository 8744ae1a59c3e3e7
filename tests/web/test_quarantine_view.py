"""The view of the quarantine, with real files and a real next hop."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiosmtpd.smtp import SMTP, Envelope, Session
from redis.asyncio import Redis

from nbstream.server.http.access import Role
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.web import quarantine, quarantine_view
from tests.harness.admin_site import HOSTILE, Site, assert_harmless, buttons, open_site, words
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples
from tests.harness.sink import Sink, open_sink
from tests.web.admin.page_listener import Browser

PATH = "/ui/quarantine"
LETTERS = [raw for _, raw in samples(12, seed=3)]


@pytest.fixture
async def sink() -> Sink:
    return Sink()


@pytest.fixture
async def site(client: Redis, tmp_path: Path, sink: Sink) -> AsyncIterator[Site]:
    async with (
        open_sink(sink) as port,
        open_site(client, tmp_path, next_hop=f"smtp://127.0.0.1:{port}") as running,
    ):
        yield running


async def send(browser: Browser, action: str, *ids: str, **form: str) -> str:
    answer = await browser.post(PATH, {"action": action, "id": ids, **form})
    assert answer.status == 200, answer.text
    return answer.text


def waiting_ids(site: Site) -> set[str]:
    return {message.id for message in site.waiting.messages()}


def doubt(folder: Path) -> None:
    """Leave the files as a release that was killed does."""
    for file in (folder / "Quarantine/new").iterdir():
        file.rename(folder / "Quarantine/cur" / f"{file.name}:2,P")


async def test_the_list_says_what_each_message_is(site: Site) -> None:
    message_id = await site.quarantine(LETTERS[0], "a@held.example", "b@held.example")

    async with site.browser() as browser:
        page = await browser.get(PATH)

    shown = words(page.text)
    assert "1 message in the quarantine" in shown
    assert "from@example.org → a@held.example and 1 more spam 0.970" in shown
    assert f'href="/ui/messages/{message_id}"' in page.text
    assert buttons(page.text) == ["Search", "Release as ham", "Delete"]


async def test_many_messages_are_listed_page_by_page(site: Site, tmp_path: Path) -> None:
    await site.quarantine(LETTERS[0])
    (file,) = (tmp_path / "Quarantine/new").iterdir()
    content = file.read_bytes()
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    ids = [f"{a}{b}{c}".ljust(24, "a") for a in alphabet[:3] for b in alphabet for c in alphabet[:4]]
    for number, message_id in enumerate(ids):  # some share their second
        (file.parent / f"{1_700_000_000 + number // 3}.M1P1Q{number}R0.host,I={message_id}").write_bytes(content)
    file.unlink()

    seen: list[str] = []
    path = PATH
    async with site.browser() as browser:
        for _ in range(len(ids) // 50 + 1):
            page = (await browser.get(path)).text
            seen += re.findall(r'type="checkbox" name="id" value="([a-z]{24})"', page)
            following = re.search(r'href="([^"]*)" rel="next"', page)
            if not following:
                break
            path = following[1]

    assert f"{len(ids):,} messages in the quarantine" in words(page)
    assert len(seen) == len(ids)
    assert set(seen) == set(ids)


async def follow(browser: Browser, path: str) -> list[list[str]]:
    """The ids on a page of the list and on all that follow it."""
    pages = []
    while path:
        page = (await browser.get(path)).text
        pages.append(re.findall(r'href="/ui/messages/([a-z2-7]{24})"', page))
        following = re.search(r'href="([^"]*)" rel="next"', page)
        path = html.unescape(following[1]) if following else ""
    return pages


async def test_those_that_are_least_like_spam_come_first_where_that_is_asked(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine_view, "_ROWS", 5)
    ids = [
        await site.quarantine(raw, probability=probability)
        for raw, probability in zip(LETTERS, (0.99, 1e-05, 0.97, 0.97, 0.91), strict=False)
    ]
    damaged = await site.quarantine(LETTERS[5])
    next((tmp_path / "Quarantine/new").glob(f"*{damaged}")).write_bytes(b"Subject: x\n\nsomebody wrote this\n")

    async with site.browser() as browser:
        pages = await follow(browser, f"{PATH}?order=least-spam")

    ((first, second, third, fourth, last),) = pages
    assert (first, second, last) == (ids[1], ids[4], ids[0])
    assert {third, fourth} == {ids[2], ids[3]}
    assert damaged not in pages[0]


async def test_a_filter_finds_whom_it_is_from_and_for_and_says_how_far_it_looked(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {
        name: await site.quarantine(raw, f"{name}@held.example", "all@y.example", sender=f"{name}@x.example")
        for name, raw in zip(("ann", "ben", "cat"), LETTERS, strict=False)
    }

    async with site.browser() as browser:
        assert await follow(browser, f"{PATH}?sender=ANN@x.example") == [[ids["ann"]]]
        assert await follow(browser, f"{PATH}?recipient=ben@held.example") == [[ids["ben"]]]
        assert set((await follow(browser, f"{PATH}?recipient=y.example"))[0]) == set(ids.values())
        nothing = words((await browser.get(f"{PATH}?sender=ann@x.example&recipient=ben@held.example")).text)
        refused = words((await browser.get(f"{PATH}?sender=*@x.example")).text)
        monkeypatch.setattr(quarantine, "MAX_READ", 1)
        page = words((await browser.get(f"{PATH}?recipient=y.example&order=least-spam")).text)
        one_by_one = await follow(browser, f"{PATH}?sender=ann@x.example")

    assert "No message matches. Whole addresses and domains are found" in nothing
    assert "*@x.example is not looked for" in refused
    assert "messages were looked at, back to" in page
    assert sorted(one_by_one) == [[], [], [ids["ann"]]]


async def test_several_messages_are_released_and_each_has_its_result(site: Site, sink: Sink) -> None:
    sink.refuse = {"refused@x": "550 5.1.1 <b>no such user</b>"}
    good = await site.quarantine(LETTERS[0], "a@x", "b@x")
    refused = await site.quarantine(LETTERS[1], "refused@x")

    async with site.browser() as browser:
        page = await send(browser, "release", good, refused, "a" * 24)

    rows = {
        row[1]: words(row[0])
        for row in re.findall(r'<tr class="(?:done|failed)">(.*?messages/([a-z2-7]{24}).*?)</tr>', page, re.DOTALL)
        for row in [(row[0], row[1])]
    }
    assert "done : The message was delivered. The message was learned as ham." in rows[good]
    assert "not done : next hop: 550 5.1.1 <b>no such user</b>" in rows[refused]
    assert "not in the quarantine" in rows["a" * 24]
    assert [(sender, to) for sender, to, _ in sink.taken] == [("from@example.org", ["a@x", "b@x"])]
    assert waiting_ids(site) == {refused}
    record = (await site.http.ask(f"/v1/messages/{good}")).json
    assert (record["learned"]["label"], record["learned"]["source"], record["learned"]["actor"]) == (
        "ham",
        "page",
        "page ann",
    )


async def test_what_was_done_is_said_where_redis_goes_away_after_it(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    class LastSink(Sink):
        async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
            own_redis.stop()
            return await super().handle_DATA(server, session, envelope)

    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1))
    try:
        async with (
            open_sink(LastSink()) as port,
            open_site(client, tmp_path, next_hop=f"smtp://127.0.0.1:{port}") as site,
            site.browser() as browser,
        ):
            results = await send(browser, "release", await site.quarantine(LETTERS[0]))
    finally:
        await client.aclose()

    assert "done : The message was delivered." in words(results)


async def test_a_deletion_asks_first_and_then_deletes_what_was_asked(site: Site) -> None:
    ids = [await site.quarantine(raw) for raw in LETTERS[:3]]

    async with site.browser() as browser:
        question = await send(browser, "delete", *ids[:2])
        assert waiting_ids(site) == set(ids)
        asked = re.findall(r'name="id" value="([a-z2-7]{24})"', question)
        results = await send(browser, "delete", *asked, confirmed="yes")

    assert "Nothing is learned" in words(question)
    assert buttons(question) == ["Delete 2 messages"]
    assert set(asked) == set(ids[:2])
    assert words(results).count("deleted") == 2
    assert waiting_ids(site) == {ids[2]}


async def test_what_may_have_been_delivered_is_released_only_when_that_is_said(
    site: Site, sink: Sink, tmp_path: Path
) -> None:
    message_id = await site.quarantine(LETTERS[0])
    doubt(tmp_path)

    async with site.browser() as browser:
        listed = words((await browser.get(PATH)).text)
        refused = await send(browser, "release", message_id)
        assert sink.taken == []
        done = await send(browser, "release", message_id, again="yes")

    assert "may have been delivered" in listed
    assert "may get these messages twice" in words(refused)
    assert buttons(refused) == ["Deliver all the same (1)"]
    assert "The message was delivered." in words(done)
    assert len(sink.taken) == 1


@pytest.mark.parametrize(("action", "became"), [("release", "released"), ("delete", "deleted")])
async def test_what_became_of_a_message_is_said_in_the_list_and_of_the_message(
    site: Site, action: str, became: str
) -> None:
    message_id = await site.check(LETTERS[0])
    await site.quarantine(LETTERS[0], message_id=message_id)

    async with site.browser() as browser:
        before = words((await browser.get("/ui/messages")).text)
        await send(browser, action, message_id, confirmed="yes")
        listed = words((await browser.get("/ui/messages")).text)
        shown = words((await browser.get(f"/ui/messages/{message_id}")).text)
        checked_again = await site.check(LETTERS[0])
        listed_again = words((await browser.get("/ui/messages")).text)

    assert (became in before, became in listed) == (False, True)
    assert re.search(rf"[-0-9: ]+: {became} from the quarantine, page ann", shown)
    assert (checked_again, became in listed_again) == (message_id, True)


async def test_no_text_of_a_message_or_its_envelope_is_more_than_text(site: Site) -> None:
    body = f"<html><body onload=alert(3)><iframe src=http://x/></iframe>&lt;script&gt;{HOSTILE}".encode()
    fields = b"From: %s\nSubject: %s\nContent-Type: text/html; charset=utf-8\n\n" % (
        HOSTILE.encode(),
        HOSTILE.encode(),
    )
    message_id = await site.quarantine(fields + body, f"{HOSTILE}@x", sender=f"{HOSTILE}@x")

    async with site.browser() as browser:
        pages = [(await browser.get(path)).text for path in (PATH, f"/ui/messages/{message_id}")]
        pages.append(await send(browser, "delete", message_id))

    for page in pages:
        assert_harmless(page)


async def test_who_may_only_read_looks_and_changes_nothing(site: Site, sink: Sink) -> None:
    message_id = await site.quarantine(LETTERS[0])

    async with site.browser(Role.READ) as browser:
        pages = [await browser.get(path) for path in (PATH, f"/ui/messages/{message_id}")]
        refused = [
            await browser.post(PATH, {"action": action, "id": message_id, "confirmed": "yes"})
            for action in ("release", "delete")
        ]

    assert [(page.status, buttons(page.text)) for page in pages] == [(200, ["Search"]), (200, [])]
    assert [answer.status for answer in refused] == [403, 403]
    assert (waiting_ids(site), sink.taken) == ({message_id}, [])


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"action": "release"}, "no message was selected"),
        ({"action": "release", "id": ["../../etc/passwd", "A" * 24]}, "no message was selected"),
        (
            {
                "action": "release",
                "id": [a * 12 + b * 12 for a in "abcdefghijk" for b in "abcdefghijk"],
            },
            "at most 100",
        ),
        ({"action": "format", "id": "a" * 24}, "has no such action"),
        ({"id": "a" * 24}, "has no such action"),
    ],
)
async def test_a_wrong_form_is_refused_in_words(site: Site, form: dict[str, str | list[str]], why: str) -> None:
    async with site.browser() as browser:
        answer = await browser.post(PATH, form)
    assert (answer.status, why in words(answer.text)) == (400, True)
