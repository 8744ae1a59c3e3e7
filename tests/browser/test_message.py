"""One message and the quarantine in a real browser: teaching to the next verdict, also without scripts."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from nbstream.web.rendering import format_probability
from tests.browser.conftest import OpenVisitor
from tests.browser.site import Site, check, open_site, teach
from tests.browser.visitor import NARROW, Look, Visitor
from tests.harness.daemon import wait_until
from tests.harness.samples import samples

pytestmark = pytest.mark.timeout(300)  # a daemon is started and taught first

LOOKS = {str(look): look for look in (Look(scripts=False), Look(NARROW, "dark"))}
SPAM = dict(zip(LOOKS, (raw for label, raw in samples(60, seed=9) if label == "spam"), strict=False))
"""For each look a message that no other one has."""


def check_result(site: Site, raw: bytes) -> dict[str, Any]:
    """Check a message as a program does, and return the result."""
    request = urllib.request.Request(f"{site.origin}/v1/check", raw)
    with urllib.request.urlopen(request, timeout=30) as answer:
        result: dict[str, Any] = json.load(answer)
        return result


def status(visitor: Visitor) -> str:
    """Return what the page says was done."""
    return visitor.page.locator("main > .notice[role=status]").inner_text()


def quarantined_ids(visitor: Visitor) -> list[str]:
    links = visitor.page.locator("td > a").all()
    return [str(link.get_attribute("href")).rpartition("/")[2] for link in links]


@pytest.mark.parametrize("name", LOOKS)
def test_a_lesson_by_a_button_changes_the_verdict_of_the_next_mail_and_is_taken_back(
    visit: OpenVisitor, small_site: Site, name: str
) -> None:
    raw, look = SPAM[name], LOOKS[name]
    before = check_result(small_site, raw)
    wait_until(lambda: before["id"] in small_site.message_ids())
    visitor = visit(small_site.origin, look)
    small_site.log_in(visitor)
    visitor.go(f"/ui/messages/{before['id']}")

    visitor.page.get_by_role("button", name="This is ham").click()
    visitor.page.get_by_role("button", name="Take the lesson back").wait_for()
    learned, after = status(visitor), check_result(small_site, raw)
    assert learned.startswith("The message was learned as ham. P(spam) was ")
    assert f"is {format_probability(after['probability'])} now" in learned
    assert after["probability"] < before["probability"]
    if look.scripts:  # axe needs them
        assert visitor.grave_violations() == []
    assert visitor.overflowing() == []

    visitor.page.get_by_role("button", name="Take the lesson back").click()
    visitor.page.get_by_role("button", name="This is ham").wait_for()
    assert status(visitor).startswith("The lesson was taken back")
    assert check_result(small_site, raw)["probability"] == before["probability"]
    expect(visitor.page.locator("#history ~ .scroll tbody tr")).to_have_count(2)


@pytest.fixture
def quarantine_site(tmp_path: Path, redis_binary: Path) -> Iterator[Site]:
    """A daemon that was taught, and has spam in its quarantine, which others count in ``small_site``."""
    with open_site(tmp_path, {"actions": {"spam": "quarantine"}}) as site:
        teach(site)
        check(site)
        yield site


def test_messages_of_the_quarantine_are_released_and_deleted(visit: OpenVisitor, quarantine_site: Site) -> None:
    visitor, plain = (
        visit(quarantine_site.origin, look) for look in (Look(), Look(NARROW, "dark", scripts=False))
    )
    for each in (visitor, plain):
        quarantine_site.log_in(each)
    visitor.go("/ui/quarantine")
    page = visitor.page
    ids = quarantined_ids(visitor)
    assert len(ids) > 2

    page.get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Release").click()
    expect(page.locator("main")).to_contain_text("The message was delivered. The message was learned as ham.")
    plain.go("/ui/quarantine")
    page = plain.page
    assert quarantined_ids(plain) == ids[1:]

    page.get_by_role("link", name="Select all").click()
    page.get_by_role("checkbox").last.uncheck()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name=f"Delete {len(ids) - 2} message").click()
    expect(page.locator("tr.done")).to_have_count(len(ids) - 2)
    plain.go("/ui/quarantine")
    assert quarantined_ids(plain) == ids[-1:]

    page.locator("td > a").click()
    page.locator("pre.message-text").wait_for()
    assert plain.overflowing() == []
