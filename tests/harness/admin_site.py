"""The whole page on a real HTTP listener with a real model, and what tests do with it."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import aiohttp
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES
from nbstream.delivery.next_hop import Envelope, SmtpPath
from nbstream.delivery.quarantine import Quarantine, QuarantineNote
from nbstream.mail.message import Message
from nbstream.server.http.access import Role
from nbstream.store.logins import PageSessionStore
from nbstream.store.model.keys import ModelKeys
from tests.harness.http_listener import RunningHttpListener, open_http
from tests.harness.samples import samples
from tests.harness.waiting import DEADLINE_SECONDS
from tests.web.admin.page_listener import Browser

HOSTILE = "<script>alert(1)</script>{{7*7}}{% raw %}\u202e\u0007\"'><img src=x onerror=alert(2)>"
"""A text that tries to be HTML, a template, an attribute, and to change how what stands around it is read."""


@dataclass(frozen=True)
class Site:
    """A running listener, its quarantine, and a client of its Redis."""

    http: RunningHttpListener
    waiting: Quarantine
    client: Redis

    @asynccontextmanager
    async def browser(self, role: Role = Role.TEACH, name: str = "page ann") -> AsyncIterator[Browser]:
        """Open a browser of somebody who has logged in."""
        jar = aiohttp.CookieJar(unsafe=True)
        timeout = aiohttp.ClientTimeout(DEADLINE_SECONDS)
        async with aiohttp.ClientSession(cookie_jar=jar, timeout=timeout) as session:
            browser = Browser(session, self.http.address)
            store = PageSessionStore(self.client, ModelKeys("default"))
            browser.use_session(await store.create_session(role, name))
            yield browser

    async def check(self, raw: bytes) -> str:
        """Check a message, and return its id once it is remembered."""
        message_id = (await self.http.ask("/v1/check", raw)).json["id"]
        await self.http.memory.wait_until_written()
        return str(message_id)

    async def teach(self, count: int = 40) -> None:
        """Teach messages of both classes."""
        learn = self.http.spam_filter.learn
        await asyncio.gather(*(learn(Message.parse(raw), label, "test") for label, raw in samples(count)))

    async def quarantine(
        self,
        raw: bytes,
        *recipients: str,
        message_id: str | None = None,
        sender: str = "from@example.org",
        probability: float = 0.97,
    ) -> str:
        """Put a message into the quarantine, and return its id."""
        message_id = message_id or Message.parse(raw).key
        envelope = Envelope(SmtpPath(sender), tuple(map(SmtpPath, recipients or ("to@example.net",))))
        note = QuarantineNote(message_id, "spam", probability, "*@held.example", envelope)
        assert await self.waiting.write([(note, b"X-Nbstream: spam\n", raw)]) is None
        return message_id


@asynccontextmanager
async def open_site(
    client: Redis,
    folder: Path,
    *,
    actions: Mapping[str, str] | None = None,
    classes: Sequence[str] = CLASSES,
    private_tokens: bool = False,
    **relay: Any,
) -> AsyncIterator[Site]:
    """Run a listener with the page; ``relay`` are values of that section of the configuration."""

    def change(values: dict[str, Any]) -> None:
        values["actions"] = dict(actions or {})
        values["model"] |= {"classes": list(classes), "private_tokens": private_tokens}
        values["relay"] |= relay

    async with open_http(client, folder, change=change) as http:
        yield Site(http, Quarantine(folder / "Quarantine"), client)


class _Markup(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def assert_harmless(page: str) -> None:
    """Assert that a page which shows ``HOSTILE`` shows it as a text, and is nothing more because of it."""
    markup = _Markup()
    markup.feed(page)
    for tag, attributes in markup.elements:
        assert tag not in {"img", "iframe", "style", "object", "base"}
        assert tag != "script" or str(attributes["src"]).startswith("/ui/static/")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert "{{7*7}}" in page
    assert "alert(1)" in page
    assert not [character for character in "\u202e\u0007" if character in page]


def words(page: str) -> str:
    """Return what a reader sees of a page: no tags, and white space as one space."""
    body = page.partition("<main")[2] or page
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def buttons(page: str) -> list[str]:
    """Return the texts of the buttons in the content of a page."""
    return re.findall(r"<button[^>]*>(.*?)</button>", page.partition("<main")[2])
