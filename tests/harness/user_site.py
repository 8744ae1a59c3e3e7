"""The self-service page on a real HTTP listener with a real model, Redis, quarantine and mail server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from redis.asyncio import Redis
from yarl import URL

from nbstream.delivery.next_hop import Envelope, SmtpPath
from nbstream.delivery.quarantine import Quarantine, QuarantineNote
from nbstream.mail.message import Message
from nbstream.policy.sender_lists import Sender
from nbstream.server.message_service import MessageHandler
from nbstream.store.logins import USER_ROLE, PageSessionStore
from nbstream.store.model.keys import ModelKeys
from nbstream.web.areas import USER_AREA
from nbstream.web.responses import cookie_name
from nbstream.web.sessions import csrf_token
from tests.harness.http_listener import RunningHttpListener, open_http
from tests.harness.mail_server import MailServer, open_mail_server
from tests.harness.samples import samples
from tests.harness.waiting import DEADLINE_SECONDS
from tests.web.admin.page_listener import Browser

ANN, BOB = "ann@example.org", "bob@example.org"


class UserBrowser(Browser):
    """A browser of somebody who uses the self-service page."""

    def use_session(self, token: str) -> None:
        """Take the cookie of a session."""
        name = cookie_name(USER_AREA.session_cookie, self._address)
        self._session.cookie_jar.update_cookies({name: token}, URL(f"http://{self._address}/my/"))
        self.session_token = token
        self.csrf = csrf_token(token)


@dataclass(frozen=True)
class UserSite:
    """A running listener, its quarantine, the mail server behind it, and a client of its Redis."""

    http: RunningHttpListener
    quarantine: Quarantine
    mail_server: MailServer
    client: Redis

    @asynccontextmanager
    async def browser(self, address: str | None = None, **fields: str) -> AsyncIterator[UserBrowser]:
        """Open a browser, which has logged in with this address if there is one."""
        jar = aiohttp.CookieJar(unsafe=True)
        timeout = aiohttp.ClientTimeout(DEADLINE_SECONDS)
        async with aiohttp.ClientSession(cookie_jar=jar, timeout=timeout) as session:
            browser = UserBrowser(session, self.http.address, **fields)
            if address is not None:
                browser.use_session(
                    await PageSessionStore(self.client, ModelKeys("default")).create_session(USER_ROLE, address)
                )
            yield browser

    async def teach(self, count: int = 40) -> None:
        """Teach messages of both classes."""
        learn = self.http.spam_filter.learn
        await asyncio.gather(*(learn(Message.parse(raw), label, "test") for label, raw in samples(count)))

    async def check(
        self, raw: bytes, *recipients: str, sender: str = "from@shop.example", client: str = ""
    ) -> str:
        """Check a message to these recipients, and return its id once it is remembered."""
        handler = MessageHandler("test", self.http.runtime, self.http.metrics.delivery)
        check, _ = await handler.check(Message.parse(raw), recipients, Sender(sender, client))
        await self.http.memory.wait_until_written()
        return check.id

    async def hold(self, raw: bytes, *recipients: str, verdict: str = "spam", probability: float = 0.97) -> str:
        """Put a message to these recipients into the quarantine, and return its id."""
        message_id = Message.parse(raw).key
        envelope = Envelope(SmtpPath("from@shop.example"), tuple(map(SmtpPath, recipients)))
        note = QuarantineNote(message_id, verdict, probability, "default", envelope)
        assert await self.quarantine.write([(note, b"X-Nbstream: spam\n", raw)]) is None
        return message_id

    def waiting(self) -> Sequence[str]:
        """Return the ids of what waits in the quarantine."""
        return [message.id for message in self.quarantine.messages()]

    async def label(self, message_id: str) -> tuple[str, str, str] | None:
        """Return what a message is learned as, by which way and by whom."""
        entry = await self.http.spam_filter.parts.model.entry(message_id)
        return (entry.label, entry.source, entry.actor) if entry else None


@asynccontextmanager
async def open_user_site(
    client: Redis, folder: Path, *, login: str | None = None, **values: Any
) -> AsyncIterator[UserSite]:
    """Run a listener with the self-service page; ``values`` are sections of the settings."""
    async with open_mail_server() as mail_server:

        def change(settings: dict[str, Any]) -> None:
            settings["relay"] = {"next_hop": f"smtp://{mail_server.host}:{mail_server.port}"}
            settings["user_page"] = {"users": ["*@example.org"], "login": login}
            settings.update(values)

        async with open_http(client, folder, change=change) as http:
            yield UserSite(http, Quarantine(folder / "Quarantine"), mail_server, client)


class PasswordTable:
    """A Dovecot auth service that knows these passwords; ``asked`` are the names that it was asked for."""

    def __init__(self, path: Path, passwords: dict[str, str]) -> None:
        self.path = path
        self.passwords = passwords
        self.asked: list[str] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[PasswordTable]:
        """Serve until the end of the block."""
        async with await asyncio.start_unix_server(self._serve, self.path):
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"VERSION\t1\t2\nMECH\tPLAIN\nDONE\n")
        for _ in range(2):
            await reader.readline()
        response = (await reader.readline()).rpartition(b"resp=")[2]
        if not response:  # the client wanted to know whether somebody answers
            writer.close()
            return
        _, name, password = base64.b64decode(response).decode().split("\0")
        self.asked.append(name)
        is_right = self.passwords.get(name) == password
        writer.write(f"OK\t1\tuser={name}\n".encode() if is_right else b"FAIL\t1\tuser=x\n")
        writer.close()
