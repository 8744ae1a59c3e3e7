"""``page.broadcaster``: who listens gets what is published, and nobody keeps others waiting."""

from __future__ import annotations

import asyncio

import pytest

from nbstream.listeners.http.page.live_now import MAX_LISTENERS, MAX_WAITING_EVENTS, RELOAD, Broadcaster
from nbstream.listeners.http.page.requests import Event, PageRefused


def event(number: int) -> Event:
    return Event("now", b"%d" % number)


async def test_each_listener_gets_the_events_of_its_topic_from_then_on() -> None:
    broadcaster = Broadcaster()
    broadcaster.publish("day", event(0))
    first, other = broadcaster.subscribe("day"), broadcaster.subscribe("hour")
    second = broadcaster.subscribe("day")
    broadcaster.publish("day", event(1))
    broadcaster.publish("hour", event(2))

    assert [await anext(each) for each in (first, second, other)] == [event(1), event(1), event(2)]
    assert broadcaster.topics == {"day", "hour"}


async def test_a_listener_waits_for_the_next_event() -> None:
    broadcaster = Broadcaster()
    waiting = asyncio.create_task(anext(broadcaster.subscribe("day")))
    await asyncio.sleep(0)
    broadcaster.publish("day", event(1))

    assert await waiting == event(1)


async def test_a_slow_listener_loses_the_oldest_events_and_is_told_to_reload() -> None:
    broadcaster = Broadcaster()
    slow = broadcaster.subscribe("day")
    for number in range(MAX_WAITING_EVENTS + 2):
        broadcaster.publish("day", event(number))

    assert await anext(slow) == RELOAD
    assert await anext(slow) == event(MAX_WAITING_EVENTS + 1)


async def test_one_too_many_is_refused_until_another_one_goes() -> None:
    broadcaster = Broadcaster()
    listeners = [broadcaster.subscribe("day") for _ in range(MAX_LISTENERS)]
    with pytest.raises(PageRefused) as refused:
        broadcaster.subscribe("day")
    assert refused.value.status == 503

    await listeners[0].aclose()  # before its first event was asked for
    await listeners[0].aclose()

    broadcaster.subscribe("day")


async def test_one_that_is_closed_while_it_waits_ends() -> None:
    broadcaster = Broadcaster()
    listener = broadcaster.subscribe("day")
    waiting = asyncio.create_task(anext(listener, None))
    await asyncio.sleep(0)
    await listener.aclose()

    assert await waiting is None
    assert await anext(listener, None) is None
    assert broadcaster.topics == frozenset()


async def test_what_is_thrown_into_it_ends_it() -> None:
    broadcaster = Broadcaster()
    with pytest.raises(ConnectionError):
        await broadcaster.subscribe("day").athrow(ConnectionError("gone"))
    assert broadcaster.topics == frozenset()
