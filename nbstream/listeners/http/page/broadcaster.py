"""Events for the browsers that have a page open: each listens to one topic, and gets what is published on it.

Rules: a browser that reads slowly keeps nobody waiting. Its queue is bounded: it loses the oldest events, and is
told to begin anew. The number of browsers is bounded too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from types import TracebackType

from nbstream.listeners.http.page.requests import Event, PageRefused

MAX_LISTENERS = 20
MAX_WAITING_EVENTS = 4

RELOAD = Event("reload", b"null")
"""Tells a browser that it has missed events: it is to begin anew."""


class Broadcaster:
    """Passes events on to those who listen, ``max_listeners`` at most."""

    def __init__(self, max_listeners: int = MAX_LISTENERS) -> None:
        self._max_listeners = max_listeners
        self._subscriptions: list[Subscription] = []

    @property
    def topics(self) -> frozenset[str]:
        """The topics that somebody listens to."""
        return frozenset(subscription.topic for subscription in self._subscriptions)

    def subscribe(self, topic: str) -> Subscription:
        """Return the events of a topic from now on; it is closed by ``aclose``.

        Raises ``PageRefused`` where too many listen already.
        """
        if len(self._subscriptions) >= self._max_listeners:
            raise PageRefused(503, f"{self._max_listeners} browsers are kept up to date by this process already.")
        subscription = Subscription(topic, self._subscriptions.remove)
        self._subscriptions.append(subscription)
        return subscription

    def publish(self, topic: str, event: Event) -> None:
        """Give an event to all who listen to the topic."""
        for subscription in self._subscriptions:
            if subscription.topic == topic:
                subscription.put(event)


class Subscription(AsyncGenerator[Event, None]):
    """The events for one browser. It is no generator function, since it is to end even before it has begun."""

    def __init__(self, topic: str, remove: Callable[[Subscription], object]) -> None:
        self.topic = topic
        self._remove = remove
        self._waiting: deque[Event] = deque()
        self._has_news = asyncio.Event()
        self._is_closed = False

    def put(self, event: Event) -> None:
        """Add an event; where too many wait, they are dropped, and the browser is told to begin anew."""
        if len(self._waiting) >= MAX_WAITING_EVENTS:
            self._waiting.clear()
            event = RELOAD
        self._waiting.append(event)
        self._has_news.set()

    async def asend(self, value: None) -> Event:
        """Return the next event, as soon as there is one."""
        del value
        while not self._waiting and not self._is_closed:
            self._has_news.clear()
            await self._has_news.wait()
        if self._is_closed:
            raise StopAsyncIteration
        return self._waiting.popleft()

    async def athrow(
        self,
        typ: type[BaseException] | BaseException,
        val: object = None,
        tb: TracebackType | None = None,
    ) -> Event:
        """End the subscription, and raise what is thrown."""
        del val, tb
        self._close()
        raise typ

    async def aclose(self) -> None:
        """End the subscription."""
        self._close()

    def _close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._waiting.clear()
            self._has_news.set()
            self._remove(self)
