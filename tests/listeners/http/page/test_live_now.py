"""``page.live_now``: what is new in Redis is rendered once, and pushed to all who look."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.listeners.http.page import live_now
from nbstream.listeners.http.page.broadcaster import Subscription
from nbstream.listeners.http.page.live_now import ActivityNews, LiveNow
from nbstream.store.activity import ActivitySpan, watch_activity
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.keys import ModelKeys
from tests.conftest import RedisServer
from tests.waiting import DEADLINE_SECONDS, until

KEYS = ModelKeys("m")


class Site:
    """A view that says how often it was rendered."""

    def __init__(self, client: Redis) -> None:
        self.client = client
        self.rendered: list[ActivitySpan] = []
        self.live = LiveNow(self.open_news, self.render)

    def open_news(self) -> AbstractAsyncContextManager[ActivityNews]:
        return watch_activity(self.client, KEYS)

    async def render(self, span: ActivitySpan) -> str:
        self.rendered.append(span)
        return f"{span} {self.rendered.count(span)}"

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


async def html(subscription: Subscription) -> object:
    async with asyncio.timeout(DEADLINE_SECONDS):
        event = await anext(subscription)
    assert event.name == "now"
    return event.data


async def test_who_begins_to_look_gets_the_view_and_then_what_is_new(site: Site) -> None:
    async with aclosing(site.live.subscribe(ActivitySpan.DAY)) as subscription:
        assert await html(subscription) == {"html": "day 1"}
        await until(site.is_listening)
        await site.client.publish(KEYS.activity_channel, "1")
        assert await html(subscription) == {"html": "day 2"}


async def test_the_view_is_rendered_once_for_all_who_look_at_a_span(site: Site) -> None:
    several = [site.live.subscribe(span) for span in (ActivitySpan.DAY, ActivitySpan.DAY, ActivitySpan.HOUR)]

    assert [await html(each) for each in several] == [{"html": "day 1"}, {"html": "day 1"}, {"html": "hour 1"}]
    for each in several:
        await each.aclose()


async def test_who_comes_later_gets_the_view_at_once(site: Site) -> None:
    first = site.live.subscribe(ActivitySpan.DAY)
    await html(first)
    second = site.live.subscribe(ActivitySpan.WEEK)

    assert await html(second) == {"html": "week 1"}
    await first.aclose()
    await second.aclose()


async def test_a_long_span_is_pushed_less_often_but_at_once_to_who_comes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(live_now._PUSH_SECONDS, ActivitySpan.WEEK, 1000.0)
    week, hour = site.live.subscribe(ActivitySpan.WEEK), site.live.subscribe(ActivitySpan.HOUR)
    assert [await html(each) for each in (week, hour)] == [{"html": "week 1"}, {"html": "hour 1"}]
    await until(site.is_listening)
    await site.client.publish(KEYS.activity_channel, "1")
    await html(hour)
    assert site.rendered.count(ActivitySpan.WEEK) == 1

    later = site.live.subscribe(ActivitySpan.WEEK)

    assert await html(later) == {"html": "week 2"}
    for each in (week, hour, later):
        await each.aclose()


async def test_nothing_is_read_while_nobody_looks(site: Site) -> None:
    subscription = site.live.subscribe(ActivitySpan.DAY)
    await html(subscription)
    await until(site.is_listening)
    await subscription.aclose()

    async def is_silent() -> bool:
        return not await site.is_listening()

    await until(is_silent)
    rendered = len(site.rendered)
    await site.client.publish(KEYS.activity_channel, "1")
    await asyncio.sleep(0.05)
    assert len(site.rendered) == rendered


async def test_the_view_goes_on_when_redis_goes_and_comes(own_redis: RedisServer) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    await client.ping()
    site = Site(client)
    subscription = site.live.subscribe(ActivitySpan.DAY)
    await html(subscription)
    own_redis.stop()
    for _ in range(3):  # it says what it can without Redis
        await html(subscription)
    own_redis.start()
    await until(site.is_listening)
    await subscription.aclose()
    await client.aclose()


async def test_a_fault_while_the_view_is_rendered_does_not_end_it_for_good(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_now, "_RENEW_SECONDS", 0.01)
    faults = iter([KeyError("fault")])

    async def render(span: ActivitySpan) -> str:
        for fault in faults:
            raise fault
        return str(span)

    live = LiveNow(site.open_news, render)
    async with aclosing(live.subscribe(ActivitySpan.DAY)) as subscription:
        assert await html(subscription) == {"html": "day"}
