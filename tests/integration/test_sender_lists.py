"""Sender lists of a running daemon of two workers: commands and a reload change them, and mail goes by them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, command, wait_until
from tests.integration.workers import MANY, Site

MAIL = (
    b"Authentication-Results: mx.example.org; dkim=pass header.d=partner.example\n"
    b"Received: from x by mx.example.org\nFrom: Boss <boss@partner.example>\nSubject: hello\n\nHow are you?\n"
)
SETTINGS = "trusted_authserv_ids: [mx.example.org]\n"


@pytest.fixture
def site(tmp_path: Path, redis_binary: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def daemon(site: Site) -> Iterator[DaemonProcess]:
    site.write(SETTINGS)
    with site.running() as daemon:
        yield daemon


def reasons(daemon: DaemonProcess, query: str = "") -> set[str]:
    """Why a message is called what it is called, by every worker."""
    found = set()
    for _ in range(MANY):
        request = urllib.request.Request(f"http://{daemon.address('http')}/v1/check{query}", MAIL)
        with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
            found.add(json.load(answer)["reason"])
    return found


def change(site: Site, *words: str) -> str:
    result = command("list", words[0], "-c", site.file, *words[1:])
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_worker_follows_what_a_command_changes(site: Site, daemon: DaemonProcess) -> None:
    assert reasons(daemon) == {"learning 0/100"}

    change(site, "add", "block", "partner.example")
    wait_until(lambda: reasons(daemon) == {"list=block, owner=site"})

    change(site, "remove", "partner.example")
    wait_until(lambda: reasons(daemon) == {"learning 0/100"})
