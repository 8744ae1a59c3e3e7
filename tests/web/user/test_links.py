"""The pages behind the links of a digest, on a real listener with a real quarantine."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from redis.asyncio import Redis

from nbstream.delivery import quarantine
from nbstream.delivery.next_hop import Envelope, SmtpPath
from nbstream.delivery.quarantine import Quarantine, QuarantineNote
from nbstream.mail.message import Message
from nbstream.store.model.keys import ModelKeys
from nbstream.web.texts import TEXTS
from nbstream.web.users.links import LinkKeys, LinkPurpose, LinkSigner, SignedLink, link_path
from nbstream.web.users.preferences import UserPreferences
from tests.harness.digest_site import ANN, BOB, SECTION
from tests.harness.http_listener import PRIZE, Answer, RunningHttpListener, open_http

ID = Message.parse(PRIZE).key
KEYS = ModelKeys("default")
RELEASE, HAM, DIGEST = LinkPurpose.RELEASE, LinkPurpose.HAM, LinkPurpose.DIGEST


@dataclass(frozen=True)
class Site:
    """The listener, its quarantine and its Redis."""

    http: RunningHttpListener
    waiting: Quarantine
    folder: Path
    client: Redis
    signer: LinkSigner

    def token(self, purpose: LinkPurpose, address: str = ANN, message_id: str = ID, seconds: int = 3600) -> str:
        return self.signer.sign(SignedLink(purpose, address, int(time.time()) + seconds, message_id))

    async def get(self, purpose: LinkPurpose, token: str, languages: str = "") -> Answer:
        return await self.http.ask(f"{link_path(purpose)}?link={token}", Accept_Language=languages)

    async def post(self, purpose: LinkPurpose, form: Mapping[str, str], **fields: str) -> Answer:
        return await self.http.ask(
            link_path(purpose),
            urlencode(form).encode(),
            **{
                "Content_Type": "application/x-www-form-urlencoded",
                "Origin": f"http://{self.http.address}",
                **fields,
            },
        )

    async def hold(self, *recipients: str, raw: bytes = PRIZE) -> str:
        message_id = Message.parse(raw).key
        envelope = Envelope(SmtpPath("from@example.net"), tuple(map(SmtpPath, recipients or (ANN,))))
        note = QuarantineNote(message_id, "spam", 0.97, "", envelope)
        assert await self.waiting.write([(note, b"", raw)]) is None
        return message_id

    @property
    def delivered(self) -> list[str]:
        return [path.read_text("latin-1") for path in (self.folder / "Maildir" / "new").glob("*")]

    @property
    def waits_for(self) -> list[list[str]]:
        notes = map(quarantine.read_note, self.waiting.messages())
        return [[path.address for path in note.envelope.recipients] for note in notes]

    async def taught(self) -> int:
        return len(await self.client.keys("*ledger*"))


@asynccontextmanager
async def open_site(client: Redis, folder: Path, **section: Any) -> AsyncIterator[Site]:
    def change(values: dict[str, Any]) -> None:
        values["digest"] = {**SECTION, **section}

    async with open_http(client, folder, change=change) as http:
        signer = await LinkKeys(client, KEYS).signer()
        yield Site(http, Quarantine(folder / "Quarantine"), folder, client, signer)


@pytest.fixture
async def site(client: Redis, tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(client, tmp_path) as opened:
        yield opened


def fields_of(answer: Answer) -> dict[str, str]:
    """The hidden fields of the form of a page."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', answer.body.decode()))


def text_of(answer: Answer) -> str:
    found = re.search(r'<p role="status">(.*?)</p>', answer.body.decode())
    assert found
    return found[1]


# A link shows before it does.


@pytest.mark.parametrize("purpose", [RELEASE, HAM])
async def test_to_open_a_link_changes_nothing(site: Site, purpose: LinkPurpose) -> None:
    await site.hold()
    token = site.token(purpose)
    for method in ("GET", "HEAD", "GET"):
        answer = await site.http.ask(f"{link_path(purpose)}?link={token}", method=method)
        assert answer.status == 200
    page = answer.body.decode()
    assert "Prize Office &lt;winner@offers.example&gt;" in page
    assert "You have won" in page
    assert fields_of(answer) == {"link": token}
    assert (site.waits_for, site.delivered, await site.taught()) == ([[ANN]], [], 0)


async def test_the_form_of_the_page_delivers_to_this_user_alone(site: Site) -> None:
    await site.hold(BOB, ANN)
    form = fields_of(await site.get(RELEASE, site.token(RELEASE)))
    first, second = [await site.post(RELEASE, form) for _ in range(2)]
    assert (first.status, text_of(first)) == (200, "The message was delivered to you.")
    assert (second.status, text_of(second)) == (410, TEXTS["en"]["released_gone"])
    (mail,) = site.delivered
    assert "X-Envelope-To: ann@example.org\n" in mail
    assert BOB not in mail
    assert (site.waits_for, await site.taught()) == ([[BOB]], 1)


async def test_the_digest_is_switched_off_and_on_again(site: Site) -> None:
    preferences = UserPreferences(site.client, KEYS)
    token = site.token(DIGEST, message_id="")
    for wanted in (False, True):
        form = fields_of(await site.get(DIGEST, token))
        assert await preferences.wants_digest(ANN) is not wanted
        for _ in range(2):
            assert (await site.post(DIGEST, form)).status == 200
            assert await preferences.wants_digest(ANN) is wanted
    assert await preferences.wants_digest(BOB)


async def test_what_cannot_be_learned_now_is_said_and_counted(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbstream.filter.message_counts.MAX_COUNT", 1 << 40)
    await client.hset(KEYS.counts("ham"), "body:prize", 1 << 41)
    async with open_site(client, tmp_path) as site:
        await site.hold()
        answer = await site.post(HAM, {"link": site.token(HAM)})
        assert (answer.status, text_of(answer)) == (503, TEXTS["en"]["released_later"])
        assert site.http.metric("nbstream_digest_links_total", purpose="ham", outcome="later") == 1


# Whose link it is, and for what.


@pytest.mark.parametrize("purpose", [RELEASE, HAM, DIGEST])
async def test_every_link_that_is_not_good_gets_one_answer(site: Site, purpose: LinkPurpose) -> None:
    await site.hold()
    good = site.token(purpose)
    altered = good[:40] + ("A" if good[40] != "A" else "B") + good[41:]
    others = [site.token(other) for other in LinkPurpose if other is not purpose]
    foreign = LinkSigner(b"x" * 32).sign(SignedLink(purpose, ANN, int(time.time()) + 60, ID))
    tokens = ["", "x", altered, site.token(purpose, seconds=-1), foreign, *others]
    answers = [await site.get(purpose, token) for token in tokens]
    answers += [await site.post(purpose, {"link": token, "digest": "off"}) for token in tokens]
    assert {(answer.status, answer.body) for answer in answers} == {(403, answers[0].body)}
    assert text_of(answers[0]) == TEXTS["en"]["link_invalid"]
    assert (site.waits_for, site.delivered, await site.taught()) == ([[ANN]], [], 0)
    assert await UserPreferences(site.client, KEYS).wants_digest(ANN)
    assert site.http.metric("nbstream_digest_links_total", purpose=purpose, outcome="invalid") == len(answers)


# What a browser, and what others, make of it.


async def test_nothing_is_stored_framed_or_loaded_from_elsewhere(site: Site) -> None:
    await site.hold()
    answer = await site.get(RELEASE, site.token(RELEASE))
    assert answer.headers["Cache-Control"] == "no-store"
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Referrer-Policy"] == "same-origin"
    (style,) = re.findall(r'<link rel="stylesheet" href="([^"]+)">', answer.body.decode())
    sheet = await site.http.ask(style)
    assert (sheet.status, sheet.headers["Content-Type"]) == (200, "text/css")
    assert b"url(" not in sheet.body


@pytest.mark.parametrize(
    ("own", "languages", "shown"),
    [("en", "", "en"), ("en", "de-DE,de;q=0.9", "de"), ("de", "", "de"), ("de", "en", "en")],
)
async def test_the_language_is_that_of_the_browser_or_of_the_digest(
    client: Redis, tmp_path: Path, own: str, languages: str, shown: str
) -> None:
    async with open_site(client, tmp_path, language=own) as site:
        answer = await site.get(RELEASE, site.token(RELEASE), languages)
        assert f'<html lang="{shown}">' in answer.body.decode()
        assert text_of(answer) == TEXTS[shown]["released_gone"]


async def test_what_is_no_form_or_too_large_is_refused(site: Site) -> None:
    form = {"link": site.token(RELEASE)}
    assert (await site.post(RELEASE, form, Content_Type="text/plain")).status == 415
    assert (await site.post(RELEASE, {"link": "x" * (65 << 10)})).status == 413
