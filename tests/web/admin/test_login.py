"""Logging in to the page, and all that is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack

import pytest
from redis.asyncio import Redis

from nbstream.server.http import access as http_passwords
from nbstream.server.http.access import Passwords, Role, is_equal
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.web.admin.login import login_name
from nbstream.web.requests import Answer, Page, PageRequest, PageRoute, Redirect, View
from nbstream.web.responses import cookie_name
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until
from tests.web.admin.page_listener import Browser, PageListener, Response, open_page

PASSWORDS = Passwords("for reading", "for teaching")


class WhoView(View):
    """Tells who asks."""

    def routes(self) -> Iterable[PageRoute]:
        return PageRoute("GET", "/ui/", self._tell), PageRoute("POST", "/ui/change", self._change)

    async def _tell(self, request: PageRequest) -> Answer:
        session = request.session
        return Page("error.html", {"status": 403, "detail": f"{session.name} may {session.role}"})

    async def _change(self, _: PageRequest) -> Answer:
        return Redirect("/ui/")


@pytest.fixture
async def page(client: Redis) -> AsyncIterator[PageListener]:
    async with open_page(client, WhoView(), passwords=PASSWORDS) as running:
        yield running


async def log_in(browser: Browser, **form: str) -> Response:
    """Send the form of the login, and take the cookie that it gives."""
    answer = await browser.post("/ui/login", form)
    if answer.status == 200:
        ((name, cookie),) = answer.cookies.items()
        assert name.startswith("nbstream_session_")
        browser.use_session(str(cookie["value"]))
    return answer


async def test_a_link_logs_in_once_and_only_by_its_button(page: PageListener) -> None:
    link = await page.store.create_link("read", "user ann")
    async with page.browser() as browser, page.browser() as other:
        for _ in range(3):  # a preview fetches it
            assert f'value="{link}"' in (await browser.get(f"/ui/login?link={link}")).text
        answer = await log_in(browser, link=link)
        assert (answer.status, '<meta http-equiv="refresh" content="0; url=/ui/">' in answer.text) == (200, True)
        shown = (await browser.get("/ui/")).text
        again = await log_in(other, link=link)
        assert (again.status, "used before" in again.text) == (403, True)
        assert again.cookies == {}
    assert "<p>page user ann may " in shown
    assert "may read" in shown


async def test_links_that_are_none_keep_nobody_from_a_password(page: PageListener) -> None:
    link = await page.store.create_link("read", "user ann")
    async with page.browser() as browser:
        junk = [(await browser.post("/ui/login", {"link": "x"})).status for _ in range(60)]
        assert (await browser.post("/ui/login", {"link": link})).status == 429
        assert (await browser.post("/ui/login", {"password": "for teaching"})).status == 200
    assert set(junk) == {403}
    assert await page.store.use_link(link)


async def test_the_cookie_is_for_the_page_alone(page: PageListener) -> None:
    async with page.browser() as browser:
        plain = await log_in(browser, link=await page.store.create_link("read", "ann"))
    async with page.browser(X_Forwarded_Proto="https") as browser:
        behind_tls = await log_in(browser, link=await page.store.create_link("read", "ann"))
    async with page.browser(Sec_Fetch_Site="same-origin", Origin="https://mail.example") as browser:
        behind_silent_proxy = await log_in(browser, link=await page.store.create_link("read", "ann"))
    for answer, is_secure in ((plain, False), (behind_tls, True), (behind_silent_proxy, True)):
        cookie = answer.cookies[page.cookie("nbstream_session")]
        assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", "/ui/")
        assert cookie["max-age"] == str(12 * 3600)
        assert cookie["domain"] == ""
        assert bool(cookie["secure"]) is is_secure


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("127.0.0.1:11334", "x_11334"),
        ("[::1]:80", "x_80"),
        ("mail.example", "x"),
        ("mail.example:1=2; y", "x"),
        ("mail.example:" + "1" * 6, "x"),
        ("", "x"),
    ],
)
def test_the_name_of_a_cookie_has_the_port_that_the_browser_uses(host: str, name: str) -> None:
    assert cookie_name("x", host) == name


@pytest.mark.parametrize(
    ("passwords", "offered", "role"),
    [
        (PASSWORDS, "for reading", "read"),
        (PASSWORDS, "for teaching", "teach"),
        (PASSWORDS, "", None),
        (Passwords("only"), "only", "teach"),
        (Passwords(), "", None),
        (Passwords(), "None", None),
        (Passwords("p\u00e4ss"), "p\u00e4ss", "teach"),
    ],
)
async def test_a_password_gives_its_role(
    client: Redis, passwords: Passwords, offered: str, role: str | None
) -> None:
    async with open_page(client, WhoView(), passwords=passwords) as page, page.browser() as browser:
        answer = await log_in(browser, password=offered, name="Ann Smith")
        if role is None:
            assert (answer.status, answer.cookies) == (403, {})
        else:
            assert answer.status == 200
            assert f"may {role}" in (await browser.get("/ui/")).text
            assert "<p>page Ann-Smith may " in (await browser.get("/ui/")).text


def test_all_passwords_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(offered: str, secret: str) -> bool:
        compared.append(secret)
        return is_equal(offered, secret)

    monkeypatch.setattr(http_passwords, "is_equal", compare)
    for offered in ("for teaching", "for reading", "neither"):
        PASSWORDS.role_of(offered)
    assert compared == ["for reading", "for teaching"] * 3


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("Ann", "Ann"),
        ("user root", "user-root"),
        ("a\x1b[31m\u202eb", "a-[31m-b"),
        ("x" * 1000, "x" * 100),
        ("\x00", "192.0.2.1"),
        ("", "192.0.2.1"),
    ],
)
def test_who_types_a_name_is_called_by_it(typed: str, name: str) -> None:
    assert login_name(typed, "192.0.2.1") == name


@pytest.mark.parametrize(
    ("changed", "statuses"),
    [
        (PASSWORDS, [200, 200, 200]),
        (Passwords("for reading", "changed"), [200, 303, 200]),
        (Passwords("changed", "for teaching"), [303, 200, 200]),
        (Passwords("for reading"), [303, 303, 200]),  # which is for teaching now
        (Passwords(), [303, 303, 200]),
    ],
    ids=range(5),
)
async def test_a_session_ends_with_the_password_that_it_began_with(
    client: Redis, changed: Passwords, statuses: list[int]
) -> None:
    async with AsyncExitStack() as stack:
        page = await stack.enter_async_context(open_page(client, WhoView(), passwords=PASSWORDS))
        sessions = [await stack.enter_async_context(page.browser()) for _ in range(3)]
        await log_in(sessions[0], password="for reading")
        await log_in(sessions[1], password="for teaching")
        await log_in(sessions[2], link=await page.store.create_link("teach", "ann"))
        restarted = await stack.enter_async_context(open_page(client, WhoView(), passwords=changed))
        shown = []
        for each in sessions:
            browser = await stack.enter_async_context(restarted.browser())
            browser.use_session(each.session_token)
            shown.append((await browser.get("/ui/")).status)
        stored = str([await client.get(key) for key in await client.keys("*session*")])
    assert shown == statuses
    assert not [secret for secret in ("for reading", "for teaching") if secret in stored]


async def test_a_session_is_the_same_for_all_workers(client: Redis) -> None:
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(open_page(client, WhoView())) for _ in range(2)]
        browsers = [await stack.enter_async_context(worker.browser()) for worker in workers]
        await log_in(browsers[0], link=await workers[1].store.create_link("teach", "ann"))
        browsers[1].use_session(browsers[0].session_token)
        assert [(await browser.get("/ui/")).status for browser in browsers] == [200, 200]

        left = await browsers[1].post("/ui/logout", {})

        assert (left.status, left.target) == (303, "/ui/login")
        assert left.cookies[workers[1].cookie("nbstream_session")]["max-age"] == "0"
        assert [(await browser.get("/ui/")).status for browser in browsers] == [303, 303]
        refused = await browsers[0].post("/ui/change", {})
        assert (refused.status, "Your session has ended. Nothing was changed." in refused.text) == (403, True)


async def test_who_has_no_session_is_not_told_that_one_has_ended(page: PageListener) -> None:
    async with page.browser() as browser:
        refused = await browser.post("/ui/change", {})

    assert (refused.status, "Log in first. Nothing was changed." in refused.text) == (403, True)


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("/ui/messages/abc?x=1&y=%20", "/ui/messages/abc?x=1&amp;y=%20"),
        ("", "/ui/"),
        ("//evil.example/ui/", "/ui/"),
        ("/ui/\\evil.example", "/ui/"),
        ("/ui/;url=https://evil.example", "/ui/"),
        ('/ui/"><script>', "/ui/"),
        ("/ui/" + "a" * 501, "/ui/"),
        ("/ui/../evil", "/ui/"),
        ("/ui/x/./../../evil", "/ui/"),
        ("/ui/%2e%2E/evil", "/ui/"),
        ("/ui//evil.example", "/ui/"),
    ],
)
async def test_a_login_leads_nowhere_else(page: PageListener, asked: str, shown: str) -> None:
    async with page.browser() as browser:
        link = await page.store.create_link("read", "ann")
        answer = await log_in(browser, link=link, to=asked)
    assert f'content="0; url={shown}"' in answer.text


async def test_a_name_that_was_pointed_to_this_machine_gets_nothing(page: PageListener) -> None:
    """A page of another site may make this host its own (DNS rebinding), but has no cookie and no secret."""
    async with page.browser(Host="evil.example", Origin="http://evil.example") as browser:
        assert (await browser.get("/ui/")).status == 303
        assert (await browser.get("/ui/", Accept="*/*")).status == 403
        assert (await browser.post("/ui/change", {})).status == 403
        guesses = [await browser.post("/ui/login", {"password": str(number)}) for number in range(11)]
    assert [answer.status for answer in guesses] == [403] * 10 + [429]
    async with page.browser(Role.TEACH, Origin="http://evil.example") as browser:
        assert (await browser.post("/ui/change", {}, Origin="http://evil.example")).status == 403


@pytest.mark.parametrize("fields", [{"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}])
async def test_nobody_is_logged_in_by_another_site(page: PageListener, fields: dict[str, str]) -> None:
    link = await page.store.create_link("teach", "ann")
    async with page.browser() as browser:
        assert (await browser.post("/ui/login", {"link": link}, **fields)).status == 403
        assert (await log_in(browser, link=link)).status == 200


async def test_nothing_secret_is_logged_or_answered(page: PageListener, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    link = await page.store.create_link("teach", "user ann")
    async with page.browser() as browser:
        answers = [
            await browser.post("/ui/login", {"password": "a guess"}),
            await log_in(browser, password="for teaching"),
            await log_in(browser, link=link),
            await browser.post("/ui/login", {"link": link}),
            await browser.get("/ui/"),
            await browser.get("/ui/nothing"),
        ]
        secrets = ["a guess", "for teaching", "for reading", link, browser.session_token]
    told = [caplog.text, *[str(vars(record).get("fields")) for record in caplog.records]]
    told += [answer.text for answer in answers]
    assert not [secret for secret in secrets for text in told if secret in text]
    refused = [vars(record)["fields"] for record in caplog.records if record.levelname == "WARNING"]
    assert refused == [
        {"peer": "127.0.0.1", "path": "/ui/login", "password": "wrong"},
        {"peer": "127.0.0.1", "path": "/ui/login", "password": "none"},
    ]
    assert "for teaching" not in repr(PASSWORDS)


@pytest.fixture
async def own_client(own_redis: RedisServer) -> AsyncIterator[Redis]:
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1))
    yield client
    await client.aclose()


@pytest.mark.parametrize("is_hanging", [False, True], ids=["stopped", "hanging"])
async def test_without_redis_nobody_reads_and_nobody_comes(
    own_redis: RedisServer, own_client: Redis, is_hanging: bool
) -> None:
    async with AsyncExitStack() as stack:
        page = await stack.enter_async_context(open_page(own_client, WhoView(), passwords=PASSWORDS))
        browser = await stack.enter_async_context(page.browser(Role.TEACH))

        if is_hanging:
            own_redis.hang()
            stack.callback(own_redis.go_on)
        else:
            own_redis.stop()

        away = await browser.get("/ui/")
        assert (away.status, "Redis cannot be reached" in away.text) == (503, True)
        assert (await browser.post("/ui/change", {})).status == 503
        assert (await browser.post("/ui/logout", {})).status == 503
        refused = await browser.post("/ui/login", {"password": "for teaching"})
        assert (refused.status, refused.cookies) == (503, {})

        if is_hanging:
            own_redis.go_on()
        else:
            own_redis.start()
            browser.use_session(await page.store.create_session("teach", "again"))

        async def is_as_before() -> bool:
            return (await browser.post("/ui/change", {})).status == 303

        await until(is_as_before)
