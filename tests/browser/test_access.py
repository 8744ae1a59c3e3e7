"""Who gets in, and what a reader may do, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenVisitor
from tests.browser.site import Site
from tests.browser.visitor import Look
from tests.harness.page_client import login_link


def test_a_one_time_link_leads_to_what_was_asked_for_once_and_logout_ends_it(
    visit: OpenVisitor, empty_site: Site
) -> None:
    link = login_link(empty_site.daemon).removeprefix(empty_site.origin)
    visitor, another = visit(empty_site.origin, Look(scripts=False)), visit(empty_site.origin)

    visitor.go(f"{link}&to=%2Fui%2Fquarantine%3Fsender%3Dann%2540x.example")
    visitor.page.get_by_role("button").click()
    visitor.page.wait_for_url("**/ui/quarantine?sender=ann%40x.example")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Quarantine")

    another.go(link)
    another.page.get_by_role("button").click()
    expect(another.page.get_by_role("alert")).to_be_visible()
    another.take_problems()

    visitor.page.get_by_role("button", name="Log out").click()
    visitor.page.wait_for_url("**/ui/login*")
    visitor.go("/ui/teaching")
    assert "/ui/login" in visitor.page.url


@pytest.fixture(params=["127.0.0.1", "localhost"], ids=["same site", "foreign site"])
def elsewhere(request: pytest.FixtureRequest, origin: str) -> str:
    """Another origin: of the same site, to which the browser sends the cookie, and of a foreign one."""
    return origin.replace("127.0.0.1", request.param)


def test_a_form_of_another_origin_is_refused_even_if_it_knows_the_token(
    visit: OpenVisitor, empty_site: Site, elsewhere: str, tmp_path: Path
) -> None:
    visitor = visit(elsewhere)
    visitor.origins.append(empty_site.origin)
    empty_site.log_in(visitor)
    visitor.page.goto(f"{empty_site.origin}/ui/teaching")
    token = visitor.page.locator("form.logout [name=csrf]").input_value()
    fields = f'<input name=csrf value="{token}"><button>Win</button>'
    form = f'<form method=post action="{empty_site.origin}/ui/logout">{fields}</form>'
    (tmp_path / "page.html").write_text(f"<link rel=icon href=data:,>{form}")

    visitor.go("/page.html")
    visitor.page.get_by_role("button").click()

    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("This is not allowed")
    assert [problem for problem in visitor.take_problems() if problem.startswith("answer: 403")]
    visitor.page.goto(f"{empty_site.origin}/ui/teaching")
    expect(visitor.page.get_by_role("button", name="Log out")).to_be_visible()
