"""Somebody who uses the page of a daemon without a browser."""

from __future__ import annotations

import urllib.parse
import urllib.request

from tests.harness.daemon import DaemonProcess, command


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
