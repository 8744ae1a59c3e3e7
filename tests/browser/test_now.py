"""The view now in a real browser: live, narrow, dark, and without scripts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse

import pytest
from playwright.sync_api import Route, expect

from nbstream.findings import note, problem
from nbstream.listeners.http.access import Role
from nbstream.page.live_now import RELOAD
from nbstream.page.now_view import EVENTS_PATH, NowView
from nbstream.page.rendering import PageRenderer
from nbstream.page.requests import ADMIN_AREA
from nbstream.page.responses import cookie_name, encode_event
from nbstream.page.server import MAX_STREAMS
from nbstream.page.static_files import load_static_files
from nbstream.policy.verdict import Verdict
from nbstream.store.connection import ConnectionOptions, open_client
from tests.browser.conftest import OpenVisitor
from tests.browser.visitor import NARROW, Look, Visitor
from tests.conftest import RedisServer
from tests.integration.daemon import DEADLINE_SECONDS, wait_until
from tests.page.now_sources import HOSTILE, MadeUpReader, make_now
from tests.page.page_listener import open_page

SOME = {ago: {Verdict.HAM: 9, Verdict.UNSURE: ago % 3, Verdict.SPAM: ago % 5} for ago in range(60)}
FINDINGS = [
    note("x", "The processes run different versions.", "Finish the upgrade.")(),
    problem("x", "Redis is degraded: writes are refused; feedback is deferred.", "Make room for Redis.")(),
]


@dataclass
class Served:
    """A page in a thread of its own, since the browser needs this one."""

    source: MadeUpReader
    origin: str = ""
    session: str = ""
    ready: threading.Event = field(default_factory=threading.Event)
    ended: Callable[[], object] = lambda: None

    async def serve(self, redis_url: str) -> None:
        end, loop = asyncio.Event(), asyncio.get_running_loop()
        self.ended = lambda: loop.call_soon_threadsafe(end.set)
        renderer = PageRenderer(load_static_files().version)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(open_client(ConnectionOptions(redis_url)))
            page = await stack.enter_async_context(open_page(client, NowView(self.source, renderer.render_parts)))
            self.origin = f"http://{page.address}"
            self.session = await page.store.create_session(Role.READ, "page tester")
            self.ready.set()
            await end.wait()


@pytest.fixture
def served(shared_redis: RedisServer) -> Iterator[Served]:
    page = Served(MadeUpReader(make_now(checks=SOME, findings=FINDINGS, hosts=["mx1", "mx2", HOSTILE])))
    thread = threading.Thread(target=lambda: asyncio.run(page.serve(shared_redis.url)))
    thread.start()
    assert page.ready.wait(DEADLINE_SECONDS)
    yield page
    with suppress(RuntimeError):  # a test may have ended it
        page.ended()
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()


def log_in(visit: OpenVisitor, served: Served, look: Look | None = None) -> Visitor:
    visitor = visit(served.origin, look)
    visitor.use_session(served.origin, served.session)
    return visitor


def open_events(served: Served) -> HTTPResponse:
    """Read events as a browser does; returns when they have begun. They end when the answer is closed."""
    address = served.origin.removeprefix("http://")
    connection = HTTPConnection(address, timeout=DEADLINE_SECONDS)
    cookie = f"{cookie_name(ADMIN_AREA.session_cookie, address)}={served.session}"
    connection.request("GET", EVENTS_PATH, headers={"Cookie": cookie})
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.readline() == b"event: now\n"
    return answer


@pytest.mark.parametrize(
    "look", [Look(), Look(NARROW), Look(colors="dark"), Look(NARROW, "dark", scripts=False)], ids=str
)
def test_it_can_be_read_in_every_look(visit: OpenVisitor, served: Served, look: Look) -> None:
    visitor = log_in(visit, served, look)

    assert visitor.go("/ui/").status == 200

    expect(visitor.page.get_by_role("heading", name="What happens now")).to_be_visible()
    expect(visitor.page.get_by_text("Make room for Redis.")).to_be_visible()
    expect(visitor.page.get_by_role("img")).to_be_visible()
    assert visitor.overflowing() == []
    if look.scripts:
        assert visitor.grave_violations() == []


def test_what_is_new_shows_without_a_reload_and_what_is_open_stays_open(
    visit: OpenVisitor, served: Served
) -> None:
    visitor = log_in(visit, served)
    visitor.go("/ui/")
    expect(visitor.page.get_by_text("This page is kept up to date.")).to_be_visible()
    visitor.page.get_by_text("The same as a table").click()

    served.source.shown = make_now(checks={0: {Verdict.HAM: 4321}})

    expect(visitor.page.locator("#now-activity .figure").first).to_contain_text("4,321")
    expect(visitor.page.locator("#now-rows")).to_contain_text("4,321")
    expect(visitor.page.locator("#now-rows")).to_be_visible()
    expect(visitor.page.get_by_text("Nothing is wrong.")).to_be_visible()


@pytest.mark.soak
def test_a_part_with_the_focus_waits_until_the_focus_has_gone(visit: OpenVisitor, served: Served) -> None:
    page = log_in(visit, served).page
    page.goto(f"{served.origin}/ui/")
    expect(page.get_by_text("This page is kept up to date.")).to_be_visible()
    page.locator("#now-redis a").focus()

    served.source.shown = make_now(checks={0: {Verdict.HAM: 4321}}, quarantined=7)

    expect(page.locator("#now-activity .figure").first).to_contain_text("4,321")
    assert "7 messages" not in page.locator("#now-redis").inner_text()
    page.locator("#now-redis a").blur()
    expect(page.locator("#now-redis")).to_contain_text("7 messages")


@pytest.mark.soak
def test_one_browser_too_many_reads_the_page_and_is_kept_up_to_date_once_another_goes(
    visit: OpenVisitor, served: Served
) -> None:
    with ExitStack() as stack:
        others = [stack.enter_context(open_events(served)) for _ in range(MAX_STREAMS)]
        visitor = log_in(visit, served)
        visitor.page.clock.install()

        visitor.go("/ui/")
        expect(visitor.page.get_by_text("This page is not kept up to date")).to_be_visible()
        expect(visitor.page.get_by_text("Make room for Redis.")).to_be_visible()
        assert [problem for problem in visitor.take_problems() if problem.startswith("answer: 503")]

        others.pop().close()

        def is_kept_up_to_date() -> bool:
            visitor.page.clock.fast_forward(30_000)  # it tries again as often; the place may not be free at once
            return visitor.page.get_by_text("This page is kept up to date.").is_visible()

        wait_until(is_kept_up_to_date)
        visitor.take_problems()


def test_a_browser_that_has_missed_events_gets_all_parts_anew(visit: OpenVisitor, served: Served) -> None:
    visitor = log_in(visit, served)

    answers = iter([b"retry: 1000000\n" + encode_event(RELOAD)])  # it does not connect again by itself

    def send_reload(route: Route) -> None:
        served.source.shown = make_now(checks={0: {Verdict.HAM: 4321}})
        for answer in answers:
            return route.fulfill(content_type="text/event-stream", body=answer)
        return route.continue_()

    visitor.page.route(f"**{EVENTS_PATH}*", send_reload)
    visitor.go("/ui/")

    expect(visitor.page.locator("#now-activity .figure").first).to_contain_text("4,321")


def test_a_page_that_is_not_kept_up_to_date_says_so(visit: OpenVisitor, served: Served) -> None:
    visitor = log_in(visit, served)
    visitor.go("/ui/")
    expect(visitor.page.get_by_text("This page is kept up to date.")).to_be_visible()
    expect(visitor.page.locator("#now-severities")).to_be_visible()

    served.ended()

    expect(visitor.page.get_by_text("This page is not kept up to date")).to_be_visible()
    expect(visitor.page.locator("#now-unknown")).to_contain_text("unknown The daemon does not answer")
    expect(visitor.page.locator("#now-severities")).to_be_hidden()
    visitor.take_problems()  # that the server is gone


def test_a_daemon_that_is_silent_is_unknown_until_it_speaks_again(visit: OpenVisitor, served: Served) -> None:
    visitor = log_in(visit, served)
    visitor.page.clock.install()
    visitor.go("/ui/")
    expect(visitor.page.get_by_text("This page is kept up to date.")).to_be_visible()

    visitor.page.clock.fast_forward(46_000)  # its events are real ones, and none comes in this moment

    expect(visitor.page.locator("#now-unknown")).to_contain_text("unknown The daemon does not answer")
    expect(visitor.page.locator("#now-severities")).to_be_hidden()
    served.source.shown = make_now(checks={0: {Verdict.HAM: 4321}})
    expect(visitor.page.locator("#now-severities")).to_be_visible()
    expect(visitor.page.locator("#now-unknown")).to_be_hidden()
