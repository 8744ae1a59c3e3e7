"""The view now of a daemon with two workers: each of them shows what both have counted."""

from __future__ import annotations

import http.client
import re
import urllib.parse
from pathlib import Path

import pytest

from tests.harness.daemon import DEADLINE_SECONDS, DaemonProcess, wait_until
from tests.harness.page_client import link_token, login_link
from tests.integration.workers import LISTENERS, Site, send

MANY = 12


@pytest.fixture
def site(tmp_path: Path, redis_binary: Path) -> Site:  # the daemon starts the server itself
    return Site(tmp_path)


class Reader:
    """Somebody who has logged in with a link; each request has a connection of its own."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.address = daemon.address("http")
        link = link_token(login_link(daemon, read_only=True))
        form = urllib.parse.urlencode({"link": link, "to": "/ui/"})
        with self.ask("POST", "/ui/login", form, Origin=f"http://{self.address}") as answer:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]

    cookie = ""

    def ask(self, method: str, path: str, body: str | None = None, **fields: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.address, timeout=DEADLINE_SECONDS)
        headers = {"Cookie": self.cookie, "Content-Type": "application/x-www-form-urlencoded"}
        connection.request(method, path, body, {**headers, "Connection": "close", **fields})
        return connection.getresponse()

    def show(self) -> str:
        with self.ask("GET", "/ui/") as answer:
            return answer.read().decode()


def checks(html: str) -> int:
    """The number of messages of the last hour."""
    found = re.search(r'class="figure">([\d,]+)<', html)
    assert found, html
    return int(found[1].replace(",", ""))


def test_two_workers_are_one_view(site: Site) -> None:
    site.write(listeners=LISTENERS)
    with site.running() as daemon:
        for number in range(MANY):
            assert send(daemon, f"mail {number}").startswith("250 ")
        reader = Reader(daemon)

        wait_until(lambda: checks(reader.show()) == MANY)
        assert {checks(reader.show()) for _ in range(10)} == {MANY}  # whichever of the two answers
