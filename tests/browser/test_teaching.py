"""Teaching and undo in a real browser, through to the verdicts of the next mail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenVisitor
from tests.browser.site import Site, open_site
from tests.harness.daemon import send, wait_until
from tests.harness.letters import letters

pytestmark = pytest.mark.timeout(300)  # a daemon is started and taught first

MALLORY = "127.0.0.2"
"""Another peer, on Linux's loopback network."""


@pytest.fixture
def site(tmp_path: Path, redis_binary: Path) -> Iterator[Site]:
    """A daemon with two workers: what one is taught and takes back holds for both."""
    with open_site(tmp_path, {"workers": 2}) as opened:
        yield opened


def opposite(label: str) -> str:
    return "ham" if label == "spam" else "spam"


def test_what_a_poisoner_taught_is_seen_and_taken_back(visit: OpenVisitor, site: Site) -> None:
    send(site.daemon, [(f"{label}@nbstream.invalid", raw) for label, raw in letters(300)])
    probes = [("to@example.org", raw) for _, raw in letters(10, seed=8)]
    # A lesson is acknowledged by one worker; the other one may know it a moment later.
    wait_until(lambda: len({tuple(send(site.daemon, probes, with_verdict=True)) for _ in range(6)}) == 1)
    before = send(site.daemon, probes, with_verdict=True)
    bad = [(f"{opposite(label)}@nbstream.invalid", raw) for label, raw in letters(40, seed=9)]
    send(site.daemon, bad, MALLORY)
    wait_until(lambda: send(site.daemon, probes, with_verdict=True) != before)
    visitor = visit(site.origin)
    site.log_in(visitor)
    page = visitor.page

    visitor.go("/ui/teaching")
    page.get_by_role("row").filter(has_text=MALLORY).get_by_role("link", name="show these changes").click()
    page.get_by_role("link", name="Take these back").click()
    expect(page.get_by_text("40 changes would be taken back.")).to_be_visible()
    page.get_by_role("button", name="Take back 40 changes").click()

    expect(page.get_by_role("status").filter(has_text="40 changes were taken back.")).to_be_visible()
    wait_until(lambda: send(site.daemon, probes, with_verdict=True) == before)
