"""Who gets in, and what a reader may do, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenVisitor
from tests.browser.site import Site
from tests.browser.visitor import NARROW, Look

NO_SCRIPTS = Look(scripts=False)


@pytest.mark.parametrize("look", [Look(), NO_SCRIPTS], ids=str)
def test_a_one_time_link_logs_in_once_and_logout_ends_it(visit: OpenVisitor, empty_site: Site, look: Look) -> None:
    link = empty_site.login_link()
    visitor, another = visit(empty_site.origin, look), visit(empty_site.origin, look)

    visitor.go(f"{link}&to=/ui/teaching")
    visitor.page.get_by_role("button").click()
    visitor.page.wait_for_url("**/ui/teaching")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("Teaching")

    another.go(link)
    another.page.get_by_role("button").click()
    expect(another.page.get_by_role("alert")).to_be_visible()
    another.take_problems()

    visitor.page.get_by_role("button", name="Log out").click()
    visitor.page.wait_for_url("**/ui/login*")
    visitor.go("/ui/teaching")
    assert "/ui/login" in visitor.page.url


def test_whoever_has_not_logged_in_sees_the_login_alone(visit: OpenVisitor, empty_site: Site) -> None:
    visitor = visit(empty_site.origin, Look(NARROW))

    visitor.go("/ui/teaching?actor=ann")

    assert "/ui/login" in visitor.page.url
    expect(visitor.page.get_by_role("navigation")).to_have_count(0)
    assert visitor.grave_violations() == []
    assert visitor.overflowing() == []


def test_the_login_leads_to_what_was_asked_for(visit: OpenVisitor, empty_site: Site) -> None:
    visitor = visit(empty_site.origin)
    empty_site.log_in(visitor)

    visitor.go("/ui/tokens?part=prize")

    expect(visitor.page.get_by_label("Part of a token")).to_have_value("prize")


def test_a_reader_sees_that_he_only_reads(visit: OpenVisitor, empty_site: Site) -> None:
    visitor = visit(empty_site.origin)
    empty_site.log_in(visitor, read_only=True)

    visitor.go("/ui/teaching")

    expect(visitor.page.get_by_text("read only")).to_be_visible()
