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
        form = urllib.parse.urlencode({"link": link_token(login_link(daemon))}).encode()
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


def login_link(daemon: DaemonProcess, *, read_only: bool = False) -> str:
    """The one-time link that ``nbstream ui`` prints."""
    done = command("ui", "-c", daemon.config, *(["--read-only"] if read_only else []))
    assert done.returncode == 0, done.stderr
    link = done.stdout.strip()
    assert link.startswith(f"http://{daemon.address('http')}/ui/login?link=")
    return link


def link_token(link: str) -> str:
    """The token in a one-time link, which the form of the login sends."""
    return urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)["link"][0]
