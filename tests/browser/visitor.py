"""Somebody who looks at the page in a real Chromium, and notes everything that goes wrong there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe

from nbstream.web.areas import ADMIN_AREA, Area
from nbstream.web.responses import cookie_name

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Playwright, Request, Response

DEADLINE_MS = 15_000.0
"""How long anything that is waited for may take, in milliseconds."""

NARROW = 360
WIDE = 1280
_HEIGHT = 900
_GRAVE = {"serious", "critical"}
_WENT_ELSEWHERE = "net::ERR_ABORTED"  # the visitor left before the end, as of a stream of events
_THIS_HOST_ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
_AXE_OPTIONS = {"resultTypes": ["violations"]}
_ALIKE = {"exclude": [["tbody tr:nth-child(n+6)"]]}  # what axe-core need not look at: rows like those before them


def launch_chromium(playwright: Playwright, executable: str) -> Browser:
    """Start Debian's Chromium, which asks no other host for anything; nothing is downloaded."""
    # As root there is no sandbox; the pages are our own.
    return playwright.chromium.launch(executable_path=executable, chromium_sandbox=False, args=[_THIS_HOST_ALONE])


@dataclass(frozen=True)
class Look:
    """How somebody looks at a page."""

    width: int = WIDE
    colors: Literal["light", "dark"] = "light"
    scripts: bool = True
    language: str = "en"

    def __str__(self) -> str:
        return f"{self.colors}-{self.width}{'' if self.scripts else '-no-scripts'}"


class Visitor:
    """One profile of its own, with one page open.

    ``origin`` and those that a test adds to ``origins`` may be asked for anything, no others. A request to any
    other one, and what the console, the network or the server says of an error, is in ``problems``; a test that
    wants one takes it from there.
    """

    def __init__(self, browser: Browser, origin: str, look: Look | None = None) -> None:
        look = look or Look()
        self.origin = origin
        self.origins = [origin]
        self.problems: list[str] = []
        self._context = browser.new_context(
            base_url=origin,
            color_scheme=look.colors,
            java_script_enabled=look.scripts,
            viewport={"width": look.width, "height": _HEIGHT},
            reduced_motion="reduce",
            locale=look.language,
        )
        self._context.set_default_timeout(DEADLINE_MS)
        self.page: Page = self._context.new_page()
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        self.page.on("dialog", self._note_dialog)
        self.page.on("request", self._note_request)
        self.page.on("requestfailed", self._note_failure)
        self.page.on("response", self._note_response)

    def use_session(self, origin: str, token: str, area: Area = ADMIN_AREA) -> None:
        """Take the cookie of a session of the page at ``origin``, as the login would set it."""
        address = urlsplit(origin)
        self._context.add_cookies(
            [
                {
                    "name": cookie_name(area.session_cookie, address.netloc),
                    "value": token,
                    "domain": address.hostname or "",
                    "path": area.prefix,
                    "httpOnly": True,
                    "sameSite": "Strict",
                }
            ]
        )

    def close(self) -> None:
        """Close the page and drop the profile."""
        self._context.close()

    def take_problems(self) -> list[str]:
        """Return the problems so far, and forget them."""
        taken, self.problems = self.problems, []
        return taken

    def go(self, path: str) -> Response:
        """Open a path of the origin; returns when the page and what it needs is loaded."""
        response = self.page.goto(path, wait_until="load")
        assert response is not None
        return response

    def overflowing(self) -> list[str]:
        """Return what makes the page wider than its window; empty where it need not be scrolled sideways."""
        found: list[str] = self.page.evaluate(_OVERFLOWING)
        return found

    def grave_violations(self) -> list[str]:
        """Return what axe-core finds serious or critical, each with the first elements that it is about."""
        violations = Axe().run(self.page, _ALIKE, _AXE_OPTIONS).response["violations"]
        return [
            f"{violation['id']} ({violation['impact']}): {[node['html'][:200] for node in violation['nodes'][:3]]}"
            for violation in violations
            if violation["impact"] in _GRAVE
        ]

    def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page."""
        self.page.screenshot(path=path, full_page=True)

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((*(f"{origin}/" for origin in self.origins), "data:", "about:", "blob:")):
            self.problems.append(f"foreign request: {request.url}")

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            self.problems.append(f"console: {message.text}")

    def _note_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note_failure(self, request: Request) -> None:
        if request.failure != _WENT_ELSEWHERE:
            self.problems.append(f"failed: {request.url}: {request.failure}")

    def _note_response(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"answer: {response.status} {response.url}")


# A box that scrolls by itself may have more in it than it shows.
_OVERFLOWING = """() => {
  const root = document.documentElement
  if (root.scrollWidth <= root.clientWidth) return []
  const scrolls = (element) => {
    for (let box = element.parentElement; box && box !== document.body; box = box.parentElement)
      if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(box).overflowX)) return true
    return false
  }
  const wide = [...document.querySelectorAll('body *')].filter(
    (element) => element.getBoundingClientRect().right > root.clientWidth + 0.5 && !scrolls(element))
  return [`${root.scrollWidth} of ${root.clientWidth}`, ...wide.slice(0, 5).map((e) => e.outerHTML.slice(0, 200))]
}"""
