"""Users log in with the password of their mailbox, or with a signed link."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.store.model.keys import ModelKeys
from nbstream.web.areas import USER_AREA
from nbstream.web.responses import cookie_name
from nbstream.web.users.links import LinkKeys, LinkPurpose, SignedLink
from tests.harness.user_site import ANN, BOB, PasswordTable, UserBrowser, UserSite, open_user_site
from tests.web.admin.page_listener import Response

PASSWORDS = {ANN: "secret", BOB: "sesame", "eve@evil.example": "mine", "ann+x@example.org": "plus"}


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[PasswordTable]:
    async with PasswordTable(tmp_path / "auth", PASSWORDS).running() as running:
        yield running


@pytest.fixture
async def site(client: Redis, tmp_path: Path, table: PasswordTable) -> AsyncIterator[UserSite]:
    async with open_user_site(client, tmp_path, login=f"dovecot:{table.path}") as running:
        yield running


async def log_in(browser: UserBrowser, **form: str) -> Response:
    """Send the form of the login, and take the cookie that it gives."""
    answer = await browser.post("/my/login", form)
    if answer.status == 200:
        ((_, cookie),) = answer.cookies.items()
        browser.use_session(str(cookie["value"]))
    return answer


async def test_a_password_logs_in_as_the_address_alone(site: UserSite) -> None:
    async with site.browser() as browser:
        assert (await browser.get("/my/")).target == "/my/login?to=/my/"
        answer = await log_in(browser, user=ANN, password="secret", to="/my/messages")
        assert (answer.status, 'content="0; url=/my/messages"' in answer.text) == (200, True)
        ((name, cookie),) = answer.cookies.items()
        assert name == cookie_name(USER_AREA.session_cookie, site.http.address)
        assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/my/", True, "Strict")
        shown = (await browser.get("/my/")).text
    assert ANN in shown
    assert BOB not in shown


async def test_nobody_learns_whether_it_is_the_user_or_the_password(site: UserSite) -> None:
    texts = set()
    async with site.browser() as browser:
        for user, password in [
            (ANN, "wrong"),
            ("nobody@example.org", "secret"),
            ("eve@evil.example", "mine"),
            ("ann+x@example.org", "plus"),
            ("", ""),
            (f"{ANN}\0", "secret"),
            ("x" * 1000, "secret"),
        ]:
            answer = await browser.post("/my/login", {"user": user, "password": password})
            assert (answer.status, answer.cookies) == (403, {})
            texts.add(answer.text.partition('role="alert">')[2].partition("<")[0])
    assert texts == {"Address or password is wrong."}


async def test_guessing_one_users_password_ends_after_ten_tries_from_wherever(site: UserSite) -> None:
    for n in range(10):
        async with site.browser(X_Forwarded_For=f"192.0.2.{n}") as browser:
            assert (await browser.post("/my/login", {"user": ANN, "password": f"guess {n}"})).status == 403
    async with site.browser(X_Forwarded_For="192.0.2.99") as browser:
        assert (await browser.post("/my/login", {"user": ANN.upper(), "password": "secret"})).status == 429
        assert (await browser.post("/my/login", {"user": BOB, "password": "sesame"})).status == 200


async def test_strangers_behind_one_proxy_lock_out_themselves_alone(site: UserSite) -> None:
    for n in range(10):
        async with site.browser(X_Forwarded_For=f"192.0.2.{n}") as browser:
            for tried in range(10):
                form = {"user": f"user{n}{tried}@example.org", "password": "guess"}
                assert (await browser.post("/my/login", form)).status == 403
            assert (await browser.post("/my/login", {"user": BOB, "password": "sesame"})).status == 429
    async with site.browser(X_Forwarded_For="192.0.2.99") as browser:
        assert (await log_in(browser, user=ANN, password="secret")).status == 200


@pytest.mark.parametrize(
    "spellings",
    [
        ["ANN@example.org", '"ann"@example.org', "ann@EXAMPLE.org.", '"a\\nn"@example.org', "<ann@example.org>"],
        ["ann@a.example", "ann@b.example", "Ann@", "ann+x@example.org", "ann+y@example.org"],
    ],
    ids=["of the address", "that only the mail server may take for it"],
)
async def test_another_spelling_of_a_name_gives_no_more_tries(site: UserSite, spellings: list[str]) -> None:
    answers = []
    for n in range(12):
        async with site.browser(X_Forwarded_For=f"192.0.2.{n}") as browser:
            form = {"user": spellings[n % len(spellings)], "password": "guess"}
            answers.append((await browser.post("/my/login", form)).status)
    assert answers == [403] * 10 + [429] * 2


async def test_where_the_mail_server_is_away_nobody_logs_in_and_nothing_is_counted(
    client: Redis, tmp_path: Path
) -> None:
    async with (
        open_user_site(client, tmp_path, login=f"dovecot:{tmp_path / 'none'}") as site,
        site.browser() as browser,
    ):
        answers = [await browser.post("/my/login", {"user": ANN, "password": "secret"}) for _ in range(12)]
    assert {answer.status for answer in answers} == {503}


async def link(site: UserSite, address: str, purpose: LinkPurpose = LinkPurpose.LOGIN, seconds: int = 60) -> str:
    signer = await LinkKeys(site.client, ModelKeys("default")).signer()
    return signer.sign(SignedLink(purpose, address, int(time.time()) + seconds, "a" * 24))


async def test_a_mailed_link_shows_a_button_which_logs_in(site: UserSite) -> None:
    token = await link(site, ANN)
    async with site.browser() as browser:
        page = await browser.get(f"/my/link/login?link={token}")
        assert (page.status, page.cookies) == (200, {})
        assert f'name="link" value="{token}"' in page.text
        assert (await log_in(browser, link=token)).status == 200
        assert ANN in (await browser.get("/my/")).text


async def test_another_link_logs_nobody_in(site: UserSite) -> None:
    tokens = [
        await link(site, ANN, LinkPurpose.RELEASE),
        await link(site, ANN, seconds=-1),
        await link(site, "eve@evil.example"),
        await link(site, "Ann@example.org"),
        (await link(site, ANN))[:-2] + "AA",
        "",
        "x" * 2000,
    ]
    async with site.browser() as browser:
        answers = [await browser.post("/my/login", {"link": token}) for token in tokens]
    assert {(answer.status, len(answer.cookies)) for answer in answers} == {(403, 0)}


async def test_a_logout_ends_the_session(site: UserSite) -> None:
    async with site.browser(ANN) as browser:
        token = browser.session_token
        assert (await browser.get("/my/")).status == 200
        assert (await browser.post("/my/logout", {})).target == "/my/login"
        browser.use_session(token)
        assert (await browser.get("/my/")).target == "/my/login?to=/my/"


async def test_a_session_ends_where_the_settings_let_the_user_in_no_more(site: UserSite) -> None:
    async with site.browser("ann@former.example") as browser:
        assert (await browser.get("/my/")).status == 303


async def test_a_link_from_elsewhere_chooses_no_other_site_after_the_login(site: UserSite) -> None:
    async with site.browser() as browser:
        for target in (
            "https://evil.example/",
            "//evil.example",
            "/ui/",
            "/my/\r\nSet-Cookie: x=1",
            "/my/../ui/",
            "/my/../../evil.example",
            "/my/messages/%2E./../evil.example",
        ):
            form = {"user": ANN, "password": "secret", "to": target}
            text = (await browser.post("/my/login", form)).text
            assert "evil.example" not in text
            assert 'url=/my/"' in text
