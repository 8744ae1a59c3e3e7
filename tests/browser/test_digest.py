"""The digest in a real browser, as a mail program shows it, and the pages behind its links."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenVisitor
from tests.browser.site import Site, open_site, teach
from tests.browser.visitor import NARROW, Look
from tests.harness.admin_site import HOSTILE
from tests.harness.daemon import command, free_port, send
from tests.harness.digest_site import ANN, BOB, body_of
from tests.integration.test_digest import settle

LOOKS = [Look(NARROW, "dark"), Look(scripts=False)]
SPAM = "claim free prize winner cash offer casino bonus"


@pytest.fixture
def site(tmp_path: Path, redis_binary: Path) -> Iterator[Site]:
    """A daemon that holds spam back, and has a message of it for Ann and Bob."""
    port = free_port()
    changes = {
        "actions": {"spam": "quarantine"},
        "verdict": {"spam": 0.6},
        "listeners": {"smtp": {"listen": "127.0.0.1:0"}, "http": {"listen": f"127.0.0.1:{port}"}},
        "digest": {
            "recipients": ["*@example.org"],
            "sender": "filter@example.org",
            "base_url": f"http://127.0.0.1:{port}",
        },
    }
    with open_site(tmp_path, changes) as opened:
        teach(opened)
        raw = f"From: {HOSTILE}\nTo: you@example.org\nSubject: free prize {HOSTILE}\n\n{SPAM}\n".encode()
        send(opened.daemon, [(ANN, raw), (BOB, raw)])
        settle(opened.daemon)
        yield opened


def delivered(site: Site, recipient: str) -> list[bytes]:
    files = (site.config.parent / "Maildir/new").iterdir()
    return [
        raw for raw in (file.read_bytes() for file in files) if f"X-Envelope-To: {recipient}\n".encode() in raw
    ]


def digest_of(site: Site, recipient: str) -> str:
    """Send the digests, and return the HTML of one."""
    assert command("digest", "--send", "-c", site.config).returncode == 0
    (raw,) = delivered(site, recipient)
    return body_of(email.message_from_bytes(raw, policy=email.policy.default), "html")


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_a_user_gets_his_message_by_a_link_and_a_button(visit: OpenVisitor, site: Site, look: Look) -> None:
    visitor = visit(site.origin, look)
    visitor.page.set_content(digest_of(site, ANN))
    if look.scripts:  # which look for these
        assert visitor.overflowing() == []
        assert visitor.grave_violations() == []
    shown = visitor.page.inner_text("body")
    assert "<script>alert(1)</script>" in shown
    assert re.search(r"perhaps spam|probably spam|almost certainly spam", shown)
    link = visitor.page.get_by_role("link", name="Deliver it to me")
    target = link.get_attribute("href")
    assert target

    visitor.go(target.removeprefix(site.origin))
    visitor.go(target.removeprefix(site.origin))  # a scanner of mail was here too
    expect(visitor.page.get_by_role("heading")).to_have_text("Deliver a quarantined message")
    assert len(delivered(site, ANN)) == 1  # the digest alone
    if look.scripts:
        assert visitor.overflowing() == []
        assert visitor.grave_violations() == []
    visitor.page.get_by_role("button", name="Deliver it to me").click()

    expect(visitor.page.get_by_role("status")).to_have_text("The message was delivered to you.")
    assert len([raw for raw in delivered(site, ANN) if SPAM.encode() in raw]) == 1
    assert not [raw for raw in delivered(site, BOB) if SPAM.encode() in raw]
