"""The page over HTTP: routes, roles, forms, answers, and what browsers are told not to do."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Iterable
from http import HTTPStatus
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.server.http.access import Role
from nbstream.web.forms import FORM_TYPE
from nbstream.web.rendering import PageRenderer
from nbstream.web.requests import Answer, Page, PageRefused, PageRequest, PageRoute, Redirect, View
from nbstream.web.responses import choose_language
from nbstream.web.sessions import sign
from tests.harness.http_listener import open_http, rest
from tests.harness.waiting import until
from tests.web.admin.page_listener import PageListener, open_page


class EchoView(View):
    """Answers with what it was asked; ``requests`` has all that reached it."""

    def __init__(self) -> None:
        self.requests: list[PageRequest] = []

    def routes(self) -> Iterable[PageRoute]:
        return (
            PageRoute("GET", "/ui/", self._echo),
            PageRoute("GET", "/ui/echo/{id}", self._echo),
            PageRoute("POST", "/ui/echo", self._change),
            PageRoute("GET", "/ui/refused", self._refuse),
            PageRoute("GET", "/ui/away", self._miss_redis),
            PageRoute("GET", "/ui/fault", self._fail),
            PageRoute("GET", "/ui/open/{id}", self._echo, is_open=True),
        )

    async def _echo(self, request: PageRequest) -> Answer:
        self.requests.append(request)
        return Page("error.html", {"status": 404, "detail": request.path_id})

    async def _change(self, request: PageRequest) -> Answer:
        self.requests.append(request)
        return Redirect("/ui/", flash="<b>Done</b>")

    async def _refuse(self, _: PageRequest) -> Answer:
        raise PageRefused(404, "there is <nothing>")

    async def _miss_redis(self, _: PageRequest) -> Answer:
        raise StoreUnavailable("Redis: at redis.internal")

    async def _fail(self, _: PageRequest) -> Answer:
        raise RuntimeError("a secret")


@pytest.fixture
def view() -> EchoView:
    return EchoView()


@pytest.fixture
async def page(client: Redis, view: EchoView) -> AsyncIterator[PageListener]:
    async with open_page(client, view) as running:
        yield running


async def test_who_has_not_logged_in_is_sent_to_the_login_and_then_to_the_page(
    page: PageListener, view: EchoView
) -> None:
    async with page.browser() as browser:
        answer = await browser.get("/ui/echo/a?x=1")
        assert (answer.status, answer.target) == (303, "/ui/login?to=/ui/echo/a%3Fx%3D1")
        for path in ("/ui/echo/a?x=" + "%00" * 200, "/ui/echo/a;b"):  # not followed after the login
            assert (await browser.get(path)).target == "/ui/login?to=/ui/"
        assert (await browser.get("/ui/echo/a", Accept="*/*")).status == 403
        assert (await browser.post("/ui/echo", {})).status == 403
    assert view.requests == []


async def test_pages_are_shown_though_their_templates_could_not_be_compiled_in_advance(
    page: PageListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: PageRenderer) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(PageRenderer, "compile_templates", fail)
    async with page.browser(Role.READ) as browser:
        for _ in range(2):
            assert (await browser.get("/ui/")).status == HTTPStatus.OK


async def test_to_read_is_not_to_change(page: PageListener, view: EchoView) -> None:
    async with page.browser(Role.READ) as browser:
        assert (await browser.post("/ui/echo", {"a": "1"})).status == 403
        assert view.requests == []
        assert (await browser.get("/ui/")).status == 200
    async with page.browser(Role.TEACH) as browser:
        assert (await browser.post("/ui/echo", {"a": ["1", "2"], "b": ""})).status == 303
    assert view.requests[-1].form == {"csrf": [browser.csrf], "a": ["1", "2"], "b": [""]}
    assert view.requests[-1].form_value("a") == "1"


@pytest.mark.parametrize("csrf", ["", "0" * 64, "of another session", "\udc80"])
async def test_a_form_needs_the_token_of_its_session(page: PageListener, view: EchoView, csrf: str) -> None:
    async with page.browser(Role.TEACH) as browser, page.browser(Role.TEACH) as other:
        browser.csrf = other.csrf if csrf == "of another session" else csrf
        body = f"a=1&csrf={browser.csrf}".encode("utf-8", "surrogateescape")
        fields = {"Content_Type": FORM_TYPE, "Origin": f"http://{page.address}"}
        assert (await browser.ask("POST", "/ui/echo", body, **fields)).status == 403
        assert (await browser.ask("POST", "/ui/echo", b"a=1", **fields)).status == 403
    assert view.requests == []


@pytest.mark.parametrize(
    "fields",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
async def test_another_site_can_ask_for_nothing(
    page: PageListener, view: EchoView, fields: dict[str, str]
) -> None:
    async with page.browser(Role.TEACH) as browser:
        assert (await browser.post("/ui/echo", {}, **fields)).status == 403
        if "Origin" in fields:
            assert (await browser.get("/ui/", **fields)).status == 403
    assert view.requests == []


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        ("csrf={}&a=" + "x" * 65_000, FORM_TYPE, 303),
        ("csrf={}&a=" + "x" * 70_000, FORM_TYPE, 413),
        ("csrf={}" + "&a=1" * 999, FORM_TYPE, 303),
        ("csrf={}" + "&a=1" * 1000, FORM_TYPE, 400),
        ("csrf={}", "text/plain", 415),
        ("csrf={}", "multipart/form-data; boundary=x", 415),
        ("", FORM_TYPE, 400),
    ],
    ids=range(7),
)
async def test_a_form_is_bounded(page: PageListener, body: str, content_type: str, status: int) -> None:
    async with page.browser(Role.TEACH) as browser:
        fields = {"Content_Type": content_type, "Origin": f"http://{page.address}"}
        text = body.replace("{}", browser.csrf)
        assert (await browser.ask("POST", "/ui/echo", text.encode(), **fields)).status == status


async def test_what_was_done_is_shown_once_and_only_to_its_session(page: PageListener) -> None:
    async with page.browser(Role.TEACH) as browser:
        done = await browser.post("/ui/echo", {})
        assert (done.status, done.target) == (303, "/ui/")
        flash = done.cookies[page.cookie("nbstream_flash")]
        async with page.browser(Role.TEACH) as other:
            assert (
                "Done"
                not in (await other.get("/ui/", Cookie=f"{page.cookie('nbstream_flash')}={flash['value']}")).text
            )
        assert "&lt;b&gt;Done&lt;/b&gt;" in (await browser.get("/ui/")).text
        assert "Done" not in (await browser.get("/ui/")).text
    assert (flash["httponly"], flash["samesite"], flash["path"]) == (True, "Strict", "/ui/")


@pytest.mark.parametrize(
    "flash", [sign("", "Log in elsewhere"), f"A.{hmac.digest(b'', b'cookie A', 'sha256').hex()}"]
)
async def test_an_open_page_shows_nothing_that_a_cookie_says(page: PageListener, flash: str) -> None:
    async with page.browser() as browser:
        shown = await browser.get("/ui/open/x", Cookie=f"{page.cookie('nbstream_flash')}={flash}")
    assert (shown.status, "elsewhere" in shown.text) == (200, False)


class SlowView(View):
    """Answers when it may."""

    def __init__(self) -> None:
        self.running = 0
        self.may_answer = asyncio.Event()

    def routes(self) -> Iterable[PageRoute]:
        return (
            PageRoute("GET", "/ui/", self._answer),
            PageRoute("GET", "/ui/open/{id}", self._answer, is_open=True),
        )

    async def _answer(self, _: PageRequest) -> Answer:
        self.running += 1
        await self.may_answer.wait()
        return Page("error.html", {"status": 404, "detail": ""})


async def test_those_who_open_pages_without_a_login_are_not_one_session(client: Redis) -> None:
    slow = SlowView()
    async with open_page(client, slow) as page, page.browser() as many:
        asked = [asyncio.create_task(many.get("/ui/open/x")) for _ in range(20)]
        await until(lambda: slow.running == 20 or any(each.done() for each in asked))
        slow.may_answer.set()
        assert [(await each).status for each in asked] == [200] * 20


async def test_a_session_keeps_the_others_waiting_for_few_requests(client: Redis) -> None:
    slow = SlowView()
    async with open_page(client, slow) as page, page.browser(Role.READ) as many, page.browser(Role.READ) as other:
        waiting = [asyncio.create_task(many.get("/ui/")) for _ in range(8)]
        await until(lambda: slow.running == 8)
        refused = await many.get("/ui/")
        waiting.append(asyncio.create_task(other.get("/ui/")))
        await until(lambda: slow.running == 9)
        slow.may_answer.set()
        statuses = [(await each).status for each in waiting]
        again = await many.get("/ui/")
    assert (refused.status, "Retry-After" in refused.headers) == (503, True)
    assert statuses == [200] * 9
    assert again.status == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "told"),
    [
        ("GET", "/ui/nothing", 404, "There is no such page"),
        ("PUT", "/ui/", 405, "This request cannot be answered"),
        ("GET", "/ui/logout", 405, "This request cannot be answered"),
        ("GET", "/ui/refused", 404, "There is &lt;nothing&gt;"),
        ("GET", "/ui/away", 503, "Redis cannot be reached"),
        ("GET", "/ui/fault", 500, "the log says why"),
        ("GET", "/ui/echo/a?" + "a&" * 200, 400, "100 fields"),
    ],
)
async def test_a_refusal_is_a_page_that_tells_nothing_of_the_inside(
    page: PageListener, method: str, path: str, status: int, told: str
) -> None:
    async with page.browser(Role.TEACH) as browser:
        answer = await browser.ask(method, path)
    assert (answer.status, told in answer.text) == (status, True)
    assert answer.headers["Content-Type"].startswith("text/html")
    assert ("Allow" in answer.headers) is (status == 405)
    assert ("Retry-After" in answer.headers) is (status == 503)
    assert "secret" not in answer.text
    assert "redis.internal" not in answer.text
    assert HTTPStatus(status).phrase not in answer.text


@pytest.mark.parametrize(
    ("path", "is_stored"),
    [
        ("/ui/", False),
        ("/ui/fault", False),
        ("/ui/nothing", False),
        ("/ui/login", False),
        ("/ui/static/page.css", True),
        ("/ui/static/nothing", False),
        ("/ui", False),
    ],
)
async def test_every_answer_says_what_a_browser_must_not_do(
    page: PageListener, path: str, is_stored: bool
) -> None:
    async with page.browser(Role.TEACH) as browser:
        headers = (await browser.get(path)).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Server"] == "nbstream"
    assert headers["Cache-Control"] == ("no-cache" if is_stored else "no-store")
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "../server.py",
        "%2e%2e%2fserver.py",
        "//etc/passwd",
        "page.css/..",
        "PAGE.CSS",
        "..\\server.py",
    ],
)
async def test_there_is_no_way_to_other_files(page: PageListener, name: str) -> None:
    async with page.browser(Role.TEACH) as browser:
        answer = await browser.get(f"/ui/static/{name}")
    assert answer.status == 404
    assert "import" not in answer.text


async def test_a_browser_asks_for_a_static_file_again_by_its_tag(page: PageListener) -> None:
    async with page.browser() as browser:
        first = await browser.get("/ui/static/page.css")
        again = await browser.get("/ui/static/page.css", If_None_Match=first.headers["ETag"])
    assert (first.status, first.headers["Content-Type"]) == (200, "text/css")
    assert (again.status, again.text) == (304, "")


@pytest.mark.parametrize(
    "path", ["/ui", "/ui/nothing", "/ui/echo/a", "/ui/logout", "/ui/login", "/ui/static/page.css"]
)
@pytest.mark.parametrize("origin", ["same-origin", "cross-site"])
async def test_the_body_of_a_refused_form_is_no_request(
    page: PageListener, view: EchoView, path: str, origin: str
) -> None:
    async with page.browser(Role.TEACH) as browser:
        fields = f"Host: {page.address}\r\nCookie: {page.cookie('nbstream_session')}={browser.session_token}\r\n"
        hidden = f"GET /ui/ HTTP/1.1\r\n{fields}\r\n"
        head = f"POST {path} HTTP/1.1\r\n{fields}Sec-Fetch-Site: {origin}\r\nContent-Length: {len(hidden)}\r\n\r\n"
        last = f"GET /ui/login HTTP/1.1\r\n{fields}Connection: close\r\n\r\n"
        reader, writer = await asyncio.open_connection(*page.address.split(":"))
        writer.write((head + hidden + last).encode())
        answers = (await rest(reader)).split(b"HTTP/1.1 ")[1:]
        writer.close()
        await writer.wait_closed()
    assert view.requests == []
    assert int(answers[0].split()[0]) in {303, 403, 404, 405, 415}
    assert len(answers) <= 2


async def test_requests_of_web_pages_to_other_paths_stay_refused(client: Redis, tmp_path: Path) -> None:
    async with open_http(client, tmp_path) as http:
        for origin in (f"http://{http.address}", "http://evil.example"):
            for path in ("/v1/model", "/stat", "/uix"):
                answer = await http.ask(path, Origin=origin)
                assert (answer.status, "requests of web pages" in str(answer.body)) == (403, True)
        assert (await http.ask("/ui/login", Origin=f"http://{http.address}")).status == 200
        assert (await http.ask("/ui/login", Origin="http://evil.example")).status == 403


@pytest.mark.parametrize(
    ("wanted", "language"),
    [
        ("de", "de"),
        ("de-AT, en;q=0.8", "de"),
        ("fr, en;q=0.5, de;q=0.9", "de"),
        ("de;q=0", "en"),
        ("de;q=much, \x00,,;;q=1", "de"),
        ("x" * 10_000 + ", de", "en"),
    ],
)
def test_the_language_is_the_one_that_the_browser_wants_most(wanted: str, language: str) -> None:
    assert choose_language({"Accept-Language": wanted}, ("en", "de")) == language
