"""``page.live_now``: what is new in Redis is rendered once, and pushed to all who look."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.page import live_now
from nbstream.page.live_now import (
    MAX_LISTENERS,
    MAX_WAITING_EVENTS,
    RELOAD,
    Broadcaster,
    LiveNow,
    LoopTime,
)
from nbstream.page.requests import Event, PageRefused
from nbstream.store.activity import ActivitySpan, ActivityWatch, watch_activity
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.keys import ModelKeys
from tests.conftest import RedisServer
from tests.waiting import DEADLINE_SECONDS, until

KEYS = ModelKeys("m")


class Site:
    """A view of two parts: one says how often it was rendered, and one is always the same."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        self.rendered: list[ActivitySpan] = []
        self.live = LiveNow(self.open_news, self.render)

    def open_news(self) -> AbstractAsyncContextManager[ActivityWatch]:
        return watch_activity(self.client, KEYS)

    async def render(self, span: ActivitySpan) -> Mapping[str, str]:
        self.rendered.append(span)
        return {"count": f"{span} {self.rendered.count(span)}", "name": span}

    async def is_listening(self) -> bool:
        """Whether a client of Redis listens on the channel."""
        reply: Any = await self.client.execute_command("PUBSUB", "NUMSUB", KEYS.activity_channel)  # type: ignore[no-untyped-call]  # redis-py has no type here
        return bool(reply[1])


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a hundred times a second instead of once."""
    monkeypatch.setattr(live_now, "_SLICE_SECONDS", 0.01)
    monkeypatch.setattr(live_now, "_PUSH_SECONDS", dict.fromkeys(ActivitySpan, 0.005))


@pytest.fixture
def site(client: Redis) -> Site:
    return Site(client)


async def pushed(events: asyncio.Queue[Event]) -> object:
    async with asyncio.timeout(DEADLINE_SECONDS):
        event = await events.get()
    assert event.name == "now"
    return json.loads(event.data)


async def test_a_fault_leaves_the_loop_to_others(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_now, "_RENEW_SECONDS", 3600.0)
    tried: list[None] = []

    def fail() -> AbstractAsyncContextManager[ActivityWatch]:
        tried.append(None)
        raise ValueError("a fault in nbstream")

    live = LiveNow(fail, Site(client).render)
    with live.subscribe(ActivitySpan.HOUR):
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(tried) == 1
    await live.close()


async def test_who_begins_to_look_gets_the_view_and_then_the_parts_that_have_changed(site: Site) -> None:
    with site.live.subscribe(ActivitySpan.DAY) as subscription:
        assert await pushed(subscription) == {"count": "day 1", "name": "day"}
        await until(site.is_listening)
        await site.client.publish(KEYS.activity_channel, "1")
        assert await pushed(subscription) == {"count": "day 2"}


async def test_the_view_is_rendered_once_for_all_who_look_at_a_span(site: Site) -> None:
    spans = ActivitySpan.DAY, ActivitySpan.DAY, ActivitySpan.HOUR
    with ExitStack() as stack:
        several = [stack.enter_context(site.live.subscribe(span)) for span in spans]

        day, hour = ({"count": f"{span} 1", "name": span} for span in ("day", "hour"))
        assert [await pushed(each) for each in several] == [day, day, hour]


async def test_who_comes_later_gets_the_whole_view_at_once(site: Site) -> None:
    with site.live.subscribe(ActivitySpan.DAY) as first:
        await pushed(first)
        with site.live.subscribe(ActivitySpan.DAY) as second:
            assert await pushed(second) == {"count": "day 2", "name": "day"}


async def test_a_long_span_is_pushed_less_often_but_at_once_to_who_comes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(live_now._PUSH_SECONDS, ActivitySpan.WEEK, 1000.0)
    with site.live.subscribe(ActivitySpan.WEEK) as week, site.live.subscribe(ActivitySpan.HOUR) as hour:
        for each in (week, hour):
            await pushed(each)
        await until(site.is_listening)
        await site.client.publish(KEYS.activity_channel, "1")
        await pushed(hour)
        assert site.rendered.count(ActivitySpan.WEEK) == 1

        with site.live.subscribe(ActivitySpan.WEEK) as later:
            assert await pushed(later) == {"count": "week 2", "name": "week"}


async def test_nothing_is_read_while_nobody_looks(site: Site) -> None:
    with site.live.subscribe(ActivitySpan.DAY) as subscription:
        await pushed(subscription)
        await until(site.is_listening)

    async def is_heard_by_nobody() -> bool:
        return await site.client.publish(KEYS.activity_channel, "1") == 0

    await until(is_heard_by_nobody)


async def test_the_view_goes_on_when_redis_goes_and_comes(own_redis: RedisServer) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    await client.ping()
    site = Site(client)
    with site.live.subscribe(ActivitySpan.DAY) as subscription:
        await pushed(subscription)
        own_redis.stop()
        for _ in range(3):  # it says what it can without Redis
            await pushed(subscription)
        own_redis.start()
        await until(site.is_listening)
    await client.aclose()


async def test_a_fault_while_the_view_is_rendered_does_not_end_it_for_good(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_now, "_RENEW_SECONDS", 0.01)
    faults = iter([KeyError("fault")])

    async def render(span: ActivitySpan) -> Mapping[str, str]:
        for fault in faults:
            raise fault
        return {"name": span}

    live = LiveNow(site.open_news, render)
    with live.subscribe(ActivitySpan.DAY) as subscription:
        assert await pushed(subscription) == {"name": "day"}


async def test_it_rests_for_200_times_as_long_as_it_held_the_loop(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count().__next__  # a second between two looks at it
    monkeypatch.setattr(live_now, "LoopTime", lambda: LoopTime(clock))
    held: asyncio.Queue[float] = asyncio.Queue()

    def rest_seconds(seconds: float) -> float:
        held.put_nowait(seconds)
        return 0.0

    monkeypatch.setattr(live_now, "rest_seconds", rest_seconds)
    with site.live.subscribe(ActivitySpan.DAY):
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await held.get() == 1.0


@pytest.mark.parametrize(("held", "rests"), [(0.0, 1.0), (0.005, 1.0), (0.01, 2.0), (1.0, 200.0)])
def test_it_rests_for_a_second_at_least(monkeypatch: pytest.MonkeyPatch, held: float, rests: float) -> None:
    monkeypatch.setattr(live_now, "_SLICE_SECONDS", 1.0)
    assert live_now.rest_seconds(held) == rests


# The time of a coroutine's own steps.


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def work(self, seconds: float, times: int = 1) -> str:
        """Hold the loop that often for so many seconds; others run in between."""
        for _ in range(times):
            self.now += seconds
            await asyncio.sleep(0)
        return "done"


async def test_only_the_steps_of_the_coroutine_count() -> None:
    clock = Clock()
    held = LoopTime(clock)

    done, _ = await asyncio.gather(held.measure(clock.work(1.0, 3)), clock.work(100.0, 3))

    assert done == "done"
    assert held.seconds == 3.0


async def test_a_fault_and_a_cancellation_pass_through_it() -> None:
    clock = Clock()
    held, handled = LoopTime(clock), list[str]()

    async def fail() -> None:
        clock.now += 1.0
        raise KeyError("fault")

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            clock.now += 1.0
            handled.append("cancelled")

    with pytest.raises(KeyError):
        await held.measure(fail())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await held.measure(wait_for_ever())
    assert handled == ["cancelled"]
    assert held.seconds == 2.0


# Who listens gets what is published, and nobody keeps others waiting.


def event(number: int) -> Event:
    return Event("now", b"%d" % number)


async def test_a_slow_listener_loses_the_oldest_events_and_is_told_to_reload() -> None:
    broadcaster = Broadcaster()
    with broadcaster.subscribe("day") as slow:
        for number in range(MAX_WAITING_EVENTS + 2):
            broadcaster.publish("day", event(number))

        assert await slow.get() == RELOAD
        assert await slow.get() == event(MAX_WAITING_EVENTS + 1)


async def test_one_too_many_is_refused_until_another_one_goes() -> None:
    broadcaster = Broadcaster()
    with ExitStack() as stack:
        for _ in range(MAX_LISTENERS - 1):
            stack.enter_context(broadcaster.subscribe("day"))
        with broadcaster.subscribe("day"), pytest.raises(PageRefused) as refused:
            stack.enter_context(broadcaster.subscribe("day"))
        assert refused.value.status == 503

        stack.enter_context(broadcaster.subscribe("day"))
