"""rspamd's API: thin handlers between ``wire.rspamd`` and the desk, for clients that were written for rspamd."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from aiohttp import web

from nbstream.bayes.counts import CLASSES
from nbstream.listeners.http.api_v1 import Facts, actor
from nbstream.listeners.http.listener import Health, Level, Route
from nbstream.listeners.http.responses import Refused, json
from nbstream.wire import rspamd

if TYPE_CHECKING:
    from nbstream.listeners.http.bodies import Bodies
    from nbstream.listeners.message_service import Desk
    from nbstream.policy.recipient_rules import Rules, Treatment
    from nbstream.store.recent.checked_messages import Checked

_HISTORY = 200


class RspamdApi:
    """The handlers.

    ``verdicts`` counts the messages checked since the start, ``recent`` has those remembered, ``rules`` say by
    which policy the mail of a recipient is decided, now.
    """

    def __init__(  # noqa: PLR0913 - what the answers tell of
        self,
        desk: Desk,
        bodies: Bodies,
        facts: Facts,
        *,
        version: str,
        health: Callable[[], Awaitable[Health]],
        verdicts: Callable[[], Mapping[str, int]],
        recent: Callable[[int], AsyncIterator[Checked]],
        rules: Callable[[], Rules],
    ) -> None:
        self._desk = desk
        self._bodies = bodies
        self._facts = facts
        self._version = version
        self._health = health
        self._verdicts = verdicts
        self._recent = recent
        self._rules = rules
        self._started = time.monotonic()

    def routes(self) -> Iterable[Route]:
        """Where each handler answers."""
        return (
            Route("POST", "/checkv2", self._check),
            Route("POST", "/learnspam", self._learn_spam, Level.TEACH),
            Route("POST", "/learnham", self._learn_ham, Level.TEACH),
            Route("POST", "/learnclass", self._learn_class, Level.TEACH),
            Route("GET", "/stat", self._stat),
            Route("GET", "/history", self._history),
            Route("GET", "/symbols", self._symbols),
            Route("GET", "/ping", self._ping, Level.OPEN),
            Route("GET", "/healthy", self._healthy, Level.OPEN),
            Route("GET", "/ready", self._ready, Level.OPEN),
        )

    async def _check(self, request: web.Request) -> web.Response:
        async with self._bodies.of(request) as content:
            message = await self._desk.message(content)
            check, seconds = await self._desk.check(message, self._treatments(request))
            return json(rspamd.check(check, rspamd.message_id(message), seconds, self._facts.name))

    def _treatments(self, request: web.Request) -> Collection[Treatment]:
        """Those of the recipients that the client names."""
        named = request.headers.getall(rspamd.RECIPIENT_FIELD, ())
        if not named:
            return ()
        rules = self._rules()
        return {rules.of(each.strip().strip("<>")) for each in named}

    async def _learn_spam(self, request: web.Request) -> web.Response:
        return await self._learn(request, "spam")

    async def _learn_ham(self, request: web.Request) -> web.Response:
        return await self._learn(request, "ham")

    async def _learn_class(self, request: web.Request) -> web.Response:
        label = request.headers.get(rspamd.CLASS_FIELD, "")
        if label not in CLASSES:
            raise Refused(400, f"{rspamd.CLASS_FIELD} must be one of {', '.join(CLASSES)}")
        return await self._learn(request, label)

    async def _learn(self, request: web.Request, label: str) -> web.Response:
        async with self._bodies.of(request) as content:
            lesson = await self._desk.teach(await self._desk.message(content), label, actor(request))
        status, body = rspamd.learned(lesson)
        return json(body, status)

    async def _stat(self, _: web.Request) -> web.Response:
        uptime = time.monotonic() - self._started
        return json(rspamd.stat(self._facts.of_model(), self._version, uptime, self._verdicts()))

    async def _history(self, _: web.Request) -> web.Response:
        facts = self._facts.of_model()
        recent = [each async for each in self._recent(_HISTORY)]
        return json(rspamd.history(recent, facts.thresholds))

    async def _symbols(self, _: web.Request) -> web.Response:
        return json(rspamd.symbols())

    async def _ping(self, _: web.Request) -> web.Response:
        return web.Response(text="pong\r\n")

    async def _healthy(self, _: web.Request) -> web.Response:
        return json({"success": True})

    async def _ready(self, _: web.Request) -> web.Response:
        if not (await self._health()).ready:
            raise Refused(503, "mail cannot be scored and relayed now")
        return json({"success": True})
