"""The view now, live: what is new is read, rendered and encoded once for all browsers, and pushed to them.

Rules: nothing is read while nobody listens. One task a process listens to Redis for all browsers of that process;
it begins with the first of them, and ends itself soon after the last. On news it reads and renders once for each
span that somebody looks at: the last hour at most once a second, the day and the week less often, since they take
longer and change less. Without any news it does so every 15 seconds, so that the time on the page goes on and a
problem with Redis shows. Only the parts of the view that have changed are pushed; all of them where a browser has
begun to listen.

Mail goes first: after each push it rests for 200 times as long as reading and rendering held the event loop, and
for a second at least. So these take half a percent of the process at most, however slow the machine is.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

from nbstream.errors import StoreForbids, StoreUnavailable
from nbstream.page.requests import Event, PageRefused
from nbstream.store.activity import ActivitySpan, ActivityWatch
from nbstream.store.backoff import Backoff
from nbstream.store.cancellation import cancel_and_wait
from nbstream.wire.api_json import encode_json

# For how long a coroutine holds the event loop.
#
# Rule: its own work is what counts, in processor time. By the clock on the wall, a machine on which others have
# much to do would make 3 ms of work 50.

_Result = TypeVar("_Result")


class LoopTime:
    """Adds up for how long coroutines hold the event loop: their own steps, without what they wait for."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self.seconds = 0.0

    @types.coroutine
    def measure(self, coroutine: Coroutine[Any, Any, _Result]) -> Generator[Any, None, _Result]:
        """Return the result of a coroutine, and add its time."""
        step: Callable[[], Any] = partial(coroutine.send, None)
        while True:
            begun = self._clock()
            try:
                waits_for = step()
            except StopIteration as end:
                result: _Result = end.value
                return result
            finally:
                self.seconds += self._clock() - begun
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - a cancellation too is for the coroutine
                step = partial(coroutine.throw, error)
            else:
                step = partial(coroutine.send, None)


# Events for the browsers that have a page open: each listens to one topic, and gets what is published on it.
#
# Rules: a browser that reads slowly keeps nobody waiting. Its queue is bounded: it loses the oldest events, and
# is told to begin anew. The number of browsers is bounded too.

MAX_LISTENERS = 20
MAX_WAITING_EVENTS = 4

RELOAD = Event("reload", b"null")
"""Tells a browser that it has missed events: it is to begin anew."""


class Broadcaster:
    """Passes events on to those who listen, ``max_listeners`` at most."""

    def __init__(self, max_listeners: int = MAX_LISTENERS) -> None:
        self._max_listeners = max_listeners
        self._listeners: list[tuple[str, asyncio.Queue[Event]]] = []

    @property
    def topics(self) -> frozenset[str]:
        """The topics that somebody listens to."""
        return frozenset(topic for topic, _ in self._listeners)

    @contextmanager
    def subscribe(self, topic: str) -> Iterator[asyncio.Queue[Event]]:
        """Collect the events of a topic from now on; at the end of the block nobody listens any more.

        Raises ``PageRefused`` where too many listen already.
        """
        if len(self._listeners) >= self._max_listeners:
            raise PageRefused(503, f"{self._max_listeners} browsers are kept up to date by this process already.")
        events: asyncio.Queue[Event] = asyncio.Queue(MAX_WAITING_EVENTS)
        listener = topic, events
        self._listeners.append(listener)
        try:
            yield events
        finally:
            self._listeners = [each for each in self._listeners if each is not listener]

    def publish(self, topic: str, event: Event) -> None:
        """Give an event to all who listen to the topic; whoever has too many waiting is told to begin anew."""
        for wanted, events in self._listeners:
            if wanted != topic:
                continue
            is_late = events.full()
            while is_late and not events.empty():
                events.get_nowait()
            events.put_nowait(RELOAD if is_late else event)


_log = logging.getLogger(__name__)

_SLICE_SECONDS = 1.0
_RESTS = 200.0
_RENEW_SECONDS = 15.0
_PUSH_SECONDS = {ActivitySpan.HOUR: 1.0, ActivitySpan.DAY: 5.0, ActivitySpan.WEEK: 10.0}
_SILENT_SECONDS = 30.0  # this process itself says every ten seconds how it is: the subscription must be broken


OpenNews: TypeAlias = Callable[[], AbstractAsyncContextManager[ActivityWatch]]
"""Begins to listen to Redis. Raises ``StoreForbids`` where that is not allowed, else ``StoreUnavailable``."""

RenderView: TypeAlias = Callable[[ActivitySpan], Awaitable[Mapping[str, str]]]
"""Reads what the view shows of a span, and returns its parts as HTML, by the ids of their elements.

What cannot be read is said there.
"""


class LiveNow:
    """Pushes the view to the browsers of this process."""

    def __init__(self, open_news: OpenNews, render: RenderView, broadcaster: Broadcaster | None = None) -> None:
        self._open_news = open_news
        self._render = render
        self._broadcaster = broadcaster or Broadcaster()
        self._task: asyncio.Task[None] | None = None
        self._joined = asyncio.Event()
        self._pushed_at: dict[ActivitySpan, float] = {}
        self._pushed: dict[ActivitySpan, Mapping[str, str]] = {}

    @contextmanager
    def subscribe(self, span: ActivitySpan) -> Iterator[asyncio.Queue[Event]]:
        """Collect the events of a browser: the whole view as it is now, and then what has changed.

        Raises ``PageRefused`` where too many listen already.
        """
        with self._broadcaster.subscribe(span) as events:
            self._joined.set()
            self._pushed_at.pop(span, None)
            self._pushed.pop(span, None)
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run(), name="page: now")
            yield events

    async def close(self) -> None:
        """Push no more; what browsers listen to has to be closed before."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _run(self) -> None:
        backoff = Backoff(draw=random.random)
        while self._broadcaster.topics:
            try:
                wait = await self._listen(backoff)
            except Exception:  # noqa: BLE001 - a fault here would leave the browsers without a word
                self._joined.clear()  # or the wait would end at once, again and again
                _log.exception("page: what is new cannot be shown")
                wait = _RENEW_SECONDS
            await self._wait(wait)

    async def _listen(self, backoff: Backoff) -> float:
        """Push what is new; return after how many seconds to listen again."""
        try:
            async with self._open_news() as news:
                backoff.reset()
                await self._push_news(news)
                return 0.0
        except StoreForbids:
            wait = _RENEW_SECONDS
        except StoreUnavailable as error:
            _log.debug("page: Redis does not say what is new: %s", error)
            wait = max(backoff.next_wait(), _SLICE_SECONDS)
        await self._push()
        return wait

    async def _push_news(self, news: ActivityWatch) -> None:
        """Push what is new until nobody listens, or the news are silent for longer than they can be."""
        now = asyncio.get_running_loop().time
        pushed_at, heard_at = 0.0, now()
        while self._broadcaster.topics:
            if await news.wait(0.0 if self._joined.is_set() else _SLICE_SECONDS):
                heard_at = now()
            elif now() - heard_at >= _SILENT_SECONDS:
                return
            if self._joined.is_set() or heard_at > pushed_at or now() - pushed_at >= _RENEW_SECONDS:
                pushed_at = now()
                await self._push()

    async def _push(self) -> None:
        """Push the spans that are due: those that were pushed long ago, or that somebody has begun to look at.

        Then rest.
        """
        self._joined.clear()
        now = asyncio.get_running_loop().time
        held = LoopTime()
        for span in map(ActivitySpan, self._broadcaster.topics):
            if now() - self._pushed_at.get(span, -math.inf) < _PUSH_SECONDS[span]:
                continue
            self._pushed_at[span] = now()
            self._broadcaster.publish(span, await held.measure(self._event(span)))
        await asyncio.sleep(rest_seconds(held.seconds))

    async def _event(self, span: ActivitySpan) -> Event:
        """Return the parts of the view that are not as they were pushed last."""
        parts = await self._render(span)
        pushed = self._pushed.get(span, {})
        self._pushed[span] = parts
        return Event("now", encode_json({name: html for name, html in parts.items() if html != pushed.get(name)}))

    async def _wait(self, seconds: float) -> None:
        """Wait, but not when somebody has joined."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._joined.wait()


def rest_seconds(held_seconds: float) -> float:
    """Return for how long to rest after a push for which the event loop was held for so long."""
    return max(_SLICE_SECONDS, _RESTS * held_seconds)
