"""Server-sent events of the page: what is sent, and how a stream ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import cast

import pytest
from redis.asyncio import Redis

from nbstream.listeners.http.access import Role
from nbstream.metrics.registry import MetricsRegistry
from nbstream.page import responses
from nbstream.page.requests import Answer, Event, EventStream, PageRefused, PageRequest, PageRoute, View
from nbstream.server.limits import ListenerLimits
from tests.listeners.http.http_listener import rest
from tests.page.page_listener import Browser, PageListener, open_page
from tests.waiting import DEADLINE_SECONDS, until


class Events(asyncio.Queue[Event]):
    """Events that are put in, or those of ``size`` bytes without end."""

    size = 0
    taken = 0

    async def get(self) -> Event:
        if not self.size:
            return await super().get()
        self.taken += 1
        return Event("large", b"x" * self.size)


class EventView(View):
    """Sends the events of ``queue``; ``places`` may read them at a time."""

    def __init__(self, places: int = 1) -> None:
        self.queue = Events()
        self.places = places
        self.readers = 0

    def routes(self) -> Iterable[PageRoute]:
        return (PageRoute("GET", "/ui/events", self._answer),)

    async def _answer(self, _: PageRequest) -> Answer:
        return EventStream(self._subscribe)

    @contextmanager
    def _subscribe(self) -> Iterator[asyncio.Queue[Event]]:
        if self.readers >= self.places:
            raise PageRefused(503, "too many read this already")
        self.readers += 1
        try:
            yield self.queue
        finally:
            self.readers -= 1


@pytest.fixture
def view() -> EventView:
    return EventView()


@pytest.fixture
async def page(client: Redis, view: EventView) -> AsyncIterator[PageListener]:
    async with open_page(client, view) as running:
        yield running


@asynccontextmanager
async def open_events(
    page: PageListener, browser: Browser
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Ask for the events on a connection of its own."""
    reader, writer = await asyncio.open_connection(*page.address.split(":"))
    cookie = f"{page.cookie('nbstream_session')}={browser.session_token}"
    writer.write(f"GET /ui/events HTTP/1.1\r\nHost: {page.address}\r\nCookie: {cookie}\r\n\r\n".encode())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def read_until(reader: asyncio.StreamReader, end: bytes) -> bytes:
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await reader.readuntil(end)


async def test_events_are_sent_as_they_come(page: PageListener, view: EventView) -> None:
    async with page.browser(Role.READ) as browser, open_events(page, browser) as (reader, _):
        head = await read_until(reader, b"\r\n\r\n")
        view.queue.put_nowait(Event("first", b'{"text":1}'))
        first = await read_until(reader, b"\n\n")
        view.queue.put_nowait(Event("second", b"2"))
        second = await read_until(reader, b"\n\n")
    await until(lambda: view.readers == 0)

    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    for field in (b"Content-Type: text/event-stream\r\n", b"Cache-Control: no-store\r\n", b"Server: nbstream\r\n"):
        assert field in head
    assert first.endswith(b'event: first\ndata: {"text":1}\n\n')
    assert second.endswith(b"event: second\ndata: 2\n\n")


async def test_open_streams_are_measured(client: Redis, view: EventView) -> None:
    registry = MetricsRegistry()

    def open_streams() -> float | None:
        return registry.counts.get_sample_value("nbstream_page_streams_open")

    async with open_page(client, view, registry=registry) as page, page.browser(Role.READ) as browser:
        async with open_events(page, browser) as (reader, _):
            await read_until(reader, b"\r\n\r\n")
            assert open_streams() == 1
        await until(lambda: open_streams() == 0)


async def test_a_silent_stream_is_kept_alive(
    page: PageListener, view: EventView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "KEEP_ALIVE_SECONDS", 0.01)
    async with page.browser(Role.READ) as browser, open_events(page, browser) as (reader, _):
        await read_until(reader, b"\r\n\r\n")
        for _ in range(3):
            assert (await read_until(reader, b"\n\n")).endswith(b":\n\n")
        view.queue.put_nowait(Event("now", b"1"))
        await read_until(reader, b"event: now\ndata: 1\n\n")


async def test_a_stream_outlives_the_time_for_a_request(
    client: Redis, view: EventView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "KEEP_ALIVE_SECONDS", 0.05)
    limits = ListenerLimits(idle_timeout_seconds=0.4, message_timeout_seconds=0.4)
    async with (
        open_page(client, view, limits=limits) as page,
        page.browser(Role.READ) as browser,
        open_events(page, browser) as (reader, _),
    ):
        for _ in range(10):  # comments, over half a second
            await read_until(reader, b":\n\n")


async def test_a_stream_ends_with_its_session(
    page: PageListener, view: EventView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "KEEP_ALIVE_SECONDS", 0.01)
    async with page.browser(Role.READ) as browser, open_events(page, browser) as (reader, _):
        await read_until(reader, b":\n\n")
        await page.store.end_session(browser.session_token)
        await rest(reader)
    assert view.readers == 0


async def test_a_reader_that_leaves_is_noticed_at_once(page: PageListener, view: EventView) -> None:
    async with page.browser(Role.READ) as browser:
        async with open_events(page, browser):
            await until(lambda: view.readers == 1)
        await until(lambda: view.readers == 0)


async def test_a_drain_ends_streams_and_does_not_wait_for_them(page: PageListener, view: EventView) -> None:
    async with page.browser(Role.READ) as browser, open_events(page, browser) as (reader, _):
        await until(lambda: view.readers == 1)
        assert not page.listener.busy
        async with asyncio.timeout(DEADLINE_SECONDS):
            await page.listener.drain(1000)
        assert view.readers == 0
        assert b"200 OK" in await rest(reader)


async def test_a_slow_reader_holds_little_and_is_dropped(
    page: PageListener, view: EventView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "_SEND_SECONDS", 0.2)
    view.queue.size = 100_000
    async with page.browser(Role.READ) as browser, open_events(page, browser) as (_, writer):
        cast("asyncio.Transport", writer.transport).pause_reading()
        await until(lambda: view.queue.taken > 0)
        await until(lambda: view.readers == 0)
        # What is sent is in the buffers of the two sockets, some MB on loopback.
        assert view.queue.taken * view.queue.size < 50_000_000


async def test_a_drain_drops_what_a_slow_reader_has_not_read(page: PageListener, view: EventView) -> None:
    view.queue.size = 100_000
    async with page.browser(Role.READ) as browser, open_events(page, browser) as (_, writer):
        cast("asyncio.Transport", writer.transport).pause_reading()
        await until(lambda: view.queue.taken > 0)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await page.listener.drain(1000)
        assert view.readers == 0


async def test_a_reader_too_many_is_refused(page: PageListener, view: EventView) -> None:
    async with page.browser(Role.READ) as browser, open_events(page, browser):
        await until(lambda: view.readers == 1)
        answer = await browser.get("/ui/events", Accept="text/event-stream")
    assert (answer.status, "Too many read this" in answer.text) == (503, True)


async def test_a_session_has_five_places_and_the_others_have_theirs(client: Redis) -> None:
    view = EventView(places=20)
    async with (
        open_page(client, view) as page,
        page.browser(Role.READ) as greedy,
        page.browser(Role.READ) as other,
        AsyncExitStack() as stack,
    ):
        for _ in range(4):
            await stack.enter_async_context(open_events(page, greedy))
        async with open_events(page, greedy):
            await until(lambda: view.readers == 5)
            refused = await greedy.get("/ui/events", Accept="text/event-stream")
            await stack.enter_async_context(open_events(page, other))
            await until(lambda: view.readers == 6)
        await until(lambda: view.readers == 5)
        await stack.enter_async_context(open_events(page, greedy))
        await until(lambda: view.readers == 6)
    assert (refused.status, "5 pages of your session" in refused.text) == (503, True)


async def test_events_are_for_who_has_logged_in(page: PageListener, view: EventView) -> None:
    async with page.browser() as browser:
        assert (await browser.get("/ui/events", Accept="text/event-stream")).status == 403
    async with page.browser(Role.READ) as browser:
        assert (await browser.ask("HEAD", "/ui/events")).status == 200
        origin = {"Origin": "http://evil.example"}
        assert (await browser.get("/ui/events", **origin)).status == 403
    assert view.readers == 0


async def test_a_fault_ends_the_stream_and_is_logged(
    page: PageListener, view: EventView, caplog: pytest.LogCaptureFixture
) -> None:
    async with page.browser(Role.READ) as browser, open_events(page, browser) as (reader, _):
        view.queue.put_nowait(Event("bad", cast("bytes", object())))
        await rest(reader)
    assert "events failed" in caplog.text
    assert view.readers == 0


async def test_streams_count_as_connections(client: Redis, view: EventView) -> None:
    async with (
        open_page(client, view, limits=ListenerLimits(max_connections=1)) as page,
        page.browser(Role.READ) as browser,
        open_events(page, browser),
    ):
        await until(lambda: view.readers == 1)
        assert (await browser.get("/ui/static/page.css")).status == 503
