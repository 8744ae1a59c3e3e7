"""Our own API: thin handlers between ``wire.api_v1`` and the desk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from nbstream.bayes.counts import CLASSES
from nbstream.listeners.http import openapi
from nbstream.listeners.http.listener import Level, Route
from nbstream.listeners.http.responses import Refused, json
from nbstream.mail import charsets
from nbstream.wire import api_v1, explanation_json, rspamd

if TYPE_CHECKING:
    from nbstream.filter.message_record import Known
    from nbstream.listeners.http.bodies import Bodies
    from nbstream.listeners.message_service import Desk
    from nbstream.mail.message import Message
    from nbstream.wire.api_v1 import ModelFacts

_ACTOR_LENGTH = 100
_NOT_LOADED = "no counts are loaded yet, please try again later"


@dataclass(frozen=True, slots=True)
class Facts:
    """What else is told: the model by its name, its state (None before it is loaded), messages by their id."""

    name: str
    model: Callable[[], ModelFacts | None]
    known: Callable[[str], Awaitable[Known | None]]

    def of_model(self) -> ModelFacts:
        """The state of the model. Raises ``Refused`` before it is loaded."""
        found = self.model()
        if found is None:
            raise Refused(503, _NOT_LOADED)
        return found


class OwnApi:
    """The handlers below ``/v1/``."""

    def __init__(self, desk: Desk, bodies: Bodies, facts: Facts, version: str) -> None:
        self._desk = desk
        self._bodies = bodies
        self._facts = facts
        self._document = openapi.document(version)

    def routes(self) -> Iterable[Route]:
        """Where each handler answers."""
        return (
            Route("POST", "/v1/check", self._check),
            Route("POST", "/v1/learn", self._learn, Level.TEACH),
            Route("POST", "/v1/unlearn", self._unlearn, Level.TEACH),
            Route("GET", "/v1/messages/{id}", self._message),
            Route("GET", "/v1/model", self._model),
            Route("GET", "/v1/openapi.json", self._describe, Level.OPEN),
        )

    async def _check(self, request: web.Request) -> web.Response:
        async with self._bodies.of(request) as content:
            check, _ = await self._desk.check(await self._read(request, content))
        return json(api_v1.check(check, self._facts.name))

    async def _learn(self, request: web.Request) -> web.Response:
        labels = request.query.getall("label", [])
        if len(labels) != 1 or labels[0] not in CLASSES:
            raise Refused(400, f"label must be one of {', '.join(CLASSES)}")
        return await self._teach(request, labels[0])

    async def _unlearn(self, request: web.Request) -> web.Response:
        return await self._teach(request, None)

    async def _teach(self, request: web.Request, label: str | None) -> web.Response:
        async with self._bodies.of(request) as content:
            lesson = await self._desk.teach(await self._read(request, content), label, actor(request))
        return json(api_v1.lesson(lesson))

    async def _read(self, request: web.Request, content: bytes) -> Message:
        if request.content_type == api_v1.TEXT_TYPE:
            return self._desk.text(charsets.decode(content, request.charset))
        return await self._desk.message(content)

    async def _message(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        found = await self._facts.known(name) if api_v1.is_id(name) else None
        if found is None:
            raise Refused(404, "there is no message of this id, or it is not remembered any more")
        return json(explanation_json.known(found))

    async def _model(self, _: web.Request) -> web.Response:
        return json(api_v1.model(self._facts.of_model()))

    async def _describe(self, _: web.Request) -> web.Response:
        return json(self._document)


def actor(request: web.Request) -> str:
    """Who teaches: the user that the client names, else its address; ``local`` on a unix socket."""
    named = "".join(c for c in request.headers.get(rspamd.USER_FIELD, "") if c.isprintable())
    return named.strip()[:_ACTOR_LENGTH] or request.remote or "local"
