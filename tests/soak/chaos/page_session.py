"""Somebody who uses the pages of the hosts without scripts: one session, which all hosts know.

Rules: a session that Redis has lost ends, and another link begins a new one. What the page says of a lesson is
what its next page would show: the text in the cookie that the answer sets.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlencode, urlsplit

from nbstream.web.sessions import csrf_token
from tests.soak.chaos.http_client import HttpHead, ask
from tests.soak.chaos.journal import FeedbackOutcome, Journal
from tests.soak.chaos.site import Host

VIEWS = (
    "/ui/",
    "/ui/messages",
    "/ui/thresholds",
    "/ui/teaching",
    "/ui/undo",
    "/ui/quarantine",
    "/ui/senders",
)
_LINK = re.compile(r'href="(/ui/[^"]*)"')
_HIDDEN_FIELD = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')
_UNDO_FORM = re.compile(r'<form method="post" action="/ui/undo".*?</form>', re.DOTALL)
_REINFORCE_FORM = re.compile(
    r'name="action" value="(reinforce-\w+)">\s*<input type="hidden" name="version" value="(\w+)"'
)
_HELD_MAIL = re.compile(r'name="id" value="(\w{24})".*?m(\d+)\.\d+@sender\.example', re.DOTALL)
_EXPECTED = {200, 303, 403, 404, 503}
"""Pages, redirects, the login where the session has gone, messages that are gone, and Redis away."""

# How the sentences of the page begin
_CHANGES = (
    "The message was learned as ",
    "The message was relearned as ",
    "You reinforced ",
    "The lesson was taken back: ",
)
_SAME = (
    "Nothing was learned: ",
    "Nothing was taken back: ",
    # What was learned automatically is no part of what people taught, nor of its history.
    "What was learned automatically was taken back: ",
)
_NOTHING_DONE = ("Nothing was changed: somebody has taught this message meanwhile.",)
_RELEASED = "The message was delivered. "
_GONE = "This message is not in the quarantine: "

Answer = tuple[FeedbackOutcome, str]


class PageSession:
    """A session; it is begun by a link when somebody asks without one."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._token = ""

    @property
    def is_open(self) -> bool:
        return bool(self._token)

    async def log_in(self, host: Host, link: str) -> None:
        """Begin a session with the link that ``nbstream ui`` has printed; it may fail."""
        token = parse_qs(urlsplit(link).query)["link"][0]
        head, _ = await self._post(host, "/ui/login", {"link": token})
        self._token = _cookies(head).get("nbstream_session", "")

    async def log_out(self, host: Host) -> None:
        """End the session for all hosts; it may fail, and then goes on."""
        head, _ = await self._post(host, "/ui/logout", {})
        if head.status == 303:
            self._token = ""

    async def read(self, host: Host, path: str) -> tuple[int, str]:
        """Return the status and the text of a page."""
        head, content = await ask(host.ports.http, "GET", path, fields=self._fields())
        return self._noted(host, path, head).status, content.decode()

    async def teach(self, host: Host, key: str, label: str | None) -> Answer:
        """Press the button of a label, or the one that takes the lesson back."""
        return await self._teach(host, key, {"action": label or "unlearn"})

    async def reinforce(self, host: Host, key: str, action: str, version: str) -> Answer:
        """Press the button that ``reinforcing_button`` has found."""
        return await self._teach(host, key, {"action": action, "version": version})

    async def reinforcing_button(self, host: Host, key: str) -> tuple[str, str] | None:
        """Return the action and the version of the button to reinforce, None where the page has none."""
        _, text = await self.read(host, f"/ui/messages/{key}")
        found = _REINFORCE_FORM.search(text)
        return (found[1], found[2]) if found else None

    async def undo(self, host: Host, key: str) -> Answer:
        """Take back all that was taught of a message, as the preview says."""
        _, text = await self.read(host, f"/ui/undo?id={key}")
        form = _UNDO_FORM.search(text)
        if form is None:
            return FeedbackOutcome.NOT_SENT, "there is no button"
        fields = {name: html.unescape(value) for name, value in _HIDDEN_FIELD.findall(form[0]) if name != "csrf"}
        head, _ = await self._post(host, "/ui/undo", fields)
        said = self._said(head)
        if head.status != 303 or "stays" in said:
            return FeedbackOutcome.UNKNOWN, f"{head.status} {said}"
        return FeedbackOutcome.DONE, said

    async def held_mails(self, host: Host) -> Mapping[str, int]:
        """Return the ids of quarantined messages, with their numbers."""
        _, text = await self.read(host, "/ui/quarantine")
        rows = text.split("<tr")
        return {found[1]: int(found[2]) for found in map(_HELD_MAIL.search, rows) if found}

    async def release(self, host: Host, key: str) -> Answer:
        """Release a message: it is taught as ham, and delivered."""
        head, _ = await self._post(host, f"/ui/messages/{key}", {"action": "release"})
        said = self._said(head)
        if said.startswith(_GONE):
            return FeedbackOutcome.NOT_SENT, said
        return (FeedbackOutcome.DONE if said.startswith(_RELEASED) else FeedbackOutcome.UNKNOWN), said

    async def _teach(self, host: Host, key: str, form: Mapping[str, str]) -> Answer:
        path = f"/ui/messages/{key}"
        head, _ = await self._post(host, path, form)
        said = self._said(head)
        if head.status != 303 or not said:
            return FeedbackOutcome.UNKNOWN, f"{head.status} {said}"
        if head.field("location") != path:
            self._journal.add_problem(f"the answer for {key} leads to {head.field('location')}")
        if said.startswith(_NOTHING_DONE):
            return FeedbackOutcome.NOT_SENT, said
        if not said.startswith((*_CHANGES, *_SAME)):
            self._journal.add_problem(f"the answer for {key} is: {said}")
        return (FeedbackOutcome.SAME if said.startswith(_SAME) else FeedbackOutcome.CHANGED), said

    async def _post(self, host: Host, path: str, form: Mapping[str, str]) -> tuple[HttpHead, bytes]:
        fields = {**self._fields(), "Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode({"csrf": csrf_token(self._token), **form}).encode()
        head, content = await ask(host.ports.http, "POST", path, body, fields)
        return self._noted(host, path, head), content

    def _noted(self, host: Host, path: str, head: HttpHead) -> HttpHead:
        """Write down what kind of answer this is; without a session, forget the one that was."""
        self._journal.pages[head.status] += 1
        if head.status not in _EXPECTED:
            self._journal.add_problem(f"the page {path} of host {host.name} was answered with {head.status}")
        if head.field("x-login") or head.field("location").startswith("/ui/login"):
            self._token = ""
        return head

    def _said(self, head: HttpHead) -> str:
        """Return what the next page would say at its top."""
        packed = _cookies(head).get("nbstream_flash", "").partition(".")[0]
        return base64.urlsafe_b64decode(packed).decode()

    def _fields(self) -> Mapping[str, str]:
        return {"Cookie": f"nbstream_session={self._token}", "Sec-Fetch-Site": "same-origin"}


def links_in(text: str) -> set[str]:
    """Return where the links of a page lead, but for its static files."""
    return {html.unescape(path) for path in _LINK.findall(text) if not path.startswith("/ui/static/")}


def _cookies(head: HttpHead) -> Mapping[str, str]:
    """Return the cookies that an answer sets."""
    cookies: SimpleCookie = SimpleCookie()
    for name, value in head.fields:
        if name == "set-cookie":
            cookies.load(value)
    return {name: morsel.value for name, morsel in cookies.items()}
