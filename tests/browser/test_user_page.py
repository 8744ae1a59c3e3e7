"""The self-service page in a real Chromium: without scripts, on a telephone, in the dark, by a screen reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenVisitor
from tests.browser.site import Site, check, open_site, teach
from tests.browser.user_site import SETTINGS, log_user_in, mailed_link
from tests.browser.visitor import Look, Visitor

YOU = "you@example.net"
PHONE = 320

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, redis_binary: Path) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("users"), SETTINGS) as running:
        teach(running, 200)
        check(running)
        yield running


def faults(visitor: Visitor, path: str) -> list[str]:
    """What is wrong with a page, as this visitor sees it and as a screen reader does."""
    visitor.go(path)
    headings = visitor.page.get_by_role("heading", level=1).count()
    return [
        *([f"{headings} main headings"] if headings != 1 else []),
        *visitor.grave_violations(),
        *visitor.overflowing(),
        *visitor.take_problems(),
    ]


@pytest.mark.parametrize("look", [Look(PHONE, "dark", language="de"), Look()], ids=str)
def test_every_view_can_be_read_by_all(site: Site, visit: OpenVisitor, look: Look) -> None:
    visitor = visit(site.origin, look)
    found = {"/my/login": faults(visitor, "/my/login")}
    log_user_in(site, visitor, YOU)
    message = f"/my/messages/{site.message_ids()[0]}"
    for path in ("/my/", "/my/messages", message, "/my/senders", "/my/digest"):
        found[path] = faults(visitor, path)
    assert not {path: listed for path, listed in found.items() if listed}


def test_a_user_without_scripts_gets_his_message_and_says_what_it_is(site: Site, visit: OpenVisitor) -> None:
    visitor = visit(site.origin, Look(PHONE, scripts=False, language="de"))
    visitor.go(mailed_link(site, YOU))
    visitor.page.get_by_role("button", name="Anmelden").click()
    page = visitor.page
    expect(page.get_by_role("heading", name="Quarantäne", level=1)).to_be_visible()
    waiting = page.get_by_role("article").count()
    page.get_by_role("button", name="Mir zustellen").first.click()
    expect(page.get_by_role("status")).to_have_text("Die Nachricht wurde Ihnen zugestellt.")
    expect(page.get_by_role("article")).to_have_count(waiting - 1)
    page.get_by_role("link", name="Zuletzt geprüft").click()
    page.get_by_role("button", name="Das ist Spam").first.click()
    expect(page.get_by_role("status")).to_have_text("Danke: Der Filter hat es gelernt.")
    page.get_by_role("link", name="Absender", exact=True).click()
    page.get_by_label("Adresse oder Domain").fill("shop.example")
    page.get_by_role("button", name="Nie erwünscht").click()
    expect(page.get_by_role("button", name="Entfernen: shop.example")).to_be_visible()
    page.get_by_role("button", name="Abmelden").click()
    expect(page.get_by_label("Mailadresse")).to_be_visible()


def test_another_user_sees_none_of_it(site: Site, visit: OpenVisitor) -> None:
    visitor = visit(site.origin)
    log_user_in(site, visitor, "other@example.net")
    visitor.go("/my/")
    expect(visitor.page.get_by_text("No message is in quarantine.")).to_be_visible()
    visitor.go("/my/messages")
    expect(visitor.page.get_by_text("No message to you is remembered.")).to_be_visible()
    visitor.go(f"/my/messages/{site.message_ids()[0]}")
    expect(visitor.page.get_by_role("alert")).to_contain_text("There is no such page")
    assert [problem for problem in visitor.take_problems() if "404" not in problem] == []


def test_who_cannot_log_in_is_told_so(site: Site, visit: OpenVisitor) -> None:
    visitor = visit(site.origin)
    visitor.go("/my/messages")
    page = visitor.page
    page.get_by_label("Mail address").fill(YOU)
    page.get_by_label("Password of your mailbox").fill("secret")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("Nobody can log in now. Try again later.")
    assert visitor.take_problems()
