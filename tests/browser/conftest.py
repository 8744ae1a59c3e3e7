"""One Chromium for all tests of this folder in a process; each test has profiles of its own.

Playwright's loop counts as running as long as the browser is there. So no test here is a coroutine, and the
browser is closed before the tests of other folders go on.
"""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.remembered_messages import made_up_messages, remember
from tests.browser.site import Site, check, open_site, run_aside, teach
from tests.browser.visitor import DEADLINE_MS, Look, Visitor, launch_chromium

OpenVisitor: TypeAlias = Callable[..., Visitor]

_FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="package")
def browser(program: Callable[[str], str]) -> Iterator[Browser]:
    """Debian's Chromium."""
    expect.set_options(timeout=DEADLINE_MS)
    with sync_playwright() as playwright:
        chromium = launch_chromium(playwright, program("chromium"))
        yield chromium
        chromium.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture
def visit(browser: Browser, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenVisitor]:
    """Opens visitors: ``visit(origin, look)``. A test fails where one of them has a problem left at its end.

    What each of them saw last when a test failed is kept as a picture in the folder of the test.
    """
    visitors: list[Visitor] = []

    def open_visitor(origin: str, look: Look | None = None) -> Visitor:
        visitors.append(Visitor(browser, origin, look))
        return visitors[-1]

    yield open_visitor
    problems = [problem for visitor in visitors for problem in visitor.problems]
    for number, visitor in enumerate(visitors):
        if problems or request.node.stash.get(_FAILED, False):
            picture = tmp_path / f"failure-{number}.png"
            visitor.screenshot(picture)
            request.node.add_report_section("teardown", "screenshot", f"{visitor.page.url} {picture}")
        visitor.close()
    assert not problems


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: object) -> None:
        """Keep silent."""


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    """Another site on this host, which serves the folder of the test."""
    handler = functools.partial(QuietHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="package")
def empty_site(tmp_path_factory: pytest.TempPathFactory, redis_binary: Path) -> Iterator[Site]:
    """A daemon that has seen nothing. Tests that look at nothing else must leave it so."""
    with open_site(tmp_path_factory.mktemp("empty")) as site:
        yield site


@pytest.fixture(scope="package")
def small_site(tmp_path_factory: pytest.TempPathFactory, redis_binary: Path) -> Iterator[Site]:
    """A daemon that was taught, has checked ten messages and has quarantined the spam among them."""
    with open_site(tmp_path_factory.mktemp("small"), {"actions": {"spam": "quarantine"}}) as site:
        teach(site)
        check(site)
        yield site


@pytest.fixture(scope="package")
def large_site(tmp_path_factory: pytest.TempPathFactory, redis_binary: Path) -> Iterator[Site]:
    """A daemon that remembers 10,000 messages: five times as many as one search looks at."""
    with open_site(tmp_path_factory.mktemp("large")) as site:
        run_aside(remember(site.config, list(made_up_messages(10_000))))
        yield site
