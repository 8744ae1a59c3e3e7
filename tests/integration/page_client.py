"""Somebody who uses the page of a daemon without a browser."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from typing import Any

from tests.integration.daemon import DEADLINE_SECONDS, DaemonProcess, command


class PageClient:
    """Has logged in with a link of ``nbstream ui``."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self._origin = f"http://{daemon.address('http')}"
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        link = login_link(daemon)
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)
        form = urllib.parse.urlencode({"link": query["link"][0]}).encode()
        request = urllib.request.Request(f"{self._origin}/ui/login", form, {"Origin": self._origin})
        with self._opener.open(request, timeout=DEADLINE_SECONDS) as response:
            assert response.status == 200

    def get(self, path: str, **query: str) -> str:
        """The text of a page."""
        url = f"{self._origin}{path}?{urllib.parse.urlencode(query)}"
        with self._opener.open(url, timeout=DEADLINE_SECONDS) as response:
            text: str = response.read().decode()
            return text

    def get_json(self, path: str, **query: str) -> Any:
        """The data that a script of the page would get."""
        return json.loads(self.get(path, **query))


def login_link(daemon: DaemonProcess) -> str:
    """A one-time link to the page, with the address of this daemon."""
    done = command("ui", "-c", daemon.config)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
