"""nbstream's own API: thin handlers between ``server.api_json`` and the message service.

``openapi.json`` describes it, as OpenAPI 3.1. A test compares the running listener with that document, and
generates requests from it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import web

from nbstream.bayes.columns import CLASSES
from nbstream.server import api_json
from nbstream.server.http.access import Role
from nbstream.server.http.listener import Route, last_segment
from nbstream.server.http.responses import RequestRefused, json_response

if TYPE_CHECKING:
    from nbstream.filter.filter import MessageRecord
    from nbstream.mail.message import Message
    from nbstream.server.api_json import ModelStatus
    from nbstream.server.http.responses import BodyReader
    from nbstream.server.message_service import MessageHandler, MessageService

USER_FIELD = "User"
"""The field with the user who teaches, as clients of rspamd send it."""

_MAX_ACTOR_LENGTH = 100
_NOT_LOADED = "no counts are loaded yet, please try again later"


def openapi_document(version: str, class_names: Sequence[str] = CLASSES) -> dict[str, Any]:
    """Return the description of the API for this version of the program, and a model with these classes."""
    document: dict[str, Any] = json.loads(Path(__file__).with_name("openapi.json").read_text(encoding="utf-8"))
    document["info"]["version"] = version
    document["paths"]["/v1/learn"]["post"]["parameters"][0]["schema"]["enum"] = list(class_names)
    return document


class ApiLookups(NamedTuple):
    """What the API answers besides checks and lessons.

    ``model_status`` returns None before the counts are loaded, ``message_record`` what is known of a message by
    its id.
    """

    model_name: str
    model_status: Callable[[], ModelStatus | None]
    message_record: Callable[[str], Awaitable[MessageRecord | None]]

    def loaded_model_status(self) -> ModelStatus:
        """Return the state of the model. Raises ``RequestRefused`` before it is loaded."""
        status = self.model_status()
        if status is None:
            raise RequestRefused(503, _NOT_LOADED)
        return status


class ApiV1:
    """The handlers below ``/v1/``."""

    def __init__(
        self, message_service: MessageService, bodies: BodyReader, lookups: ApiLookups, version: str
    ) -> None:
        self._message_service = message_service
        self._body_reader = bodies
        self._lookups = lookups
        self._document = openapi_document(version, message_service.runtime.spam_filter.policy.class_names)

    def routes(self) -> Iterable[Route]:
        """Return the route of each handler."""
        return (
            Route("POST", "/v1/check", self._check),
            Route("POST", "/v1/learn", self._learn, Role.TEACH),
            Route("POST", "/v1/unlearn", partial(self._teach, label=None), Role.TEACH),
            Route("GET", "/v1/messages/{id}", self._message),
            Route("GET", "/v1/model", self._model),
            Route("GET", "/v1/openapi.json", self._describe, None),
        )

    async def _check(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._body_reader.reservation() as held:
            content = await self._body_reader.read(request, held)
            handler = self._message_service.message_handler()
            message = await _parse_message(handler, request, content, handler.parse_mail)
            check, _ = await handler.check(message, request.query.getall("recipient", ()))
        return json_response(api_json.check_to_json(check, self._lookups.model_name))

    async def _learn(self, request: web.BaseRequest) -> web.StreamResponse:
        labels = request.query.getall("label", [])
        class_names = self._message_service.runtime.spam_filter.policy.class_names
        if len(labels) != 1 or labels[0] not in class_names:
            raise RequestRefused(400, f"label must be one of {', '.join(class_names)}")
        return await self._teach(request, labels[0])

    async def _teach(self, request: web.BaseRequest, label: str | None) -> web.StreamResponse:
        with self._body_reader.reservation() as held:
            content = await self._body_reader.read(request, held)
            handler = self._message_service.message_handler()
            message = await _parse_message(handler, request, content, handler.parse_taught_mail)
            user = request.headers.get(USER_FIELD, "").strip()
            lesson = await handler.learn(message, label, actor_of_request(request), user=user)
        return json_response(api_json.lesson_to_json(lesson))

    async def _message(self, request: web.BaseRequest) -> web.StreamResponse:
        message_id = last_segment(request)
        is_valid = api_json.is_message_id(message_id)
        record = await self._lookups.message_record(message_id) if is_valid else None
        if record is None:
            raise RequestRefused(404, "there is no message of this id, or it is not remembered any more")
        return json_response(api_json.message_record_to_json(record))

    async def _model(self, _: web.BaseRequest) -> web.StreamResponse:
        return json_response(api_json.model_to_json(self._lookups.loaded_model_status()))

    async def _describe(self, _: web.BaseRequest) -> web.StreamResponse:
        return json_response(self._document)


async def _parse_message(
    handler: MessageHandler,
    request: web.BaseRequest,
    content: bytes,
    parse_mail: Callable[[bytes], Awaitable[Message]],
) -> Message:
    if request.content_type == api_json.TEXT_TYPE:
        return await handler.parse_text(content, request.charset)
    return await parse_mail(content)


def actor_of_request(request: web.BaseRequest) -> str:
    """Return who teaches: the user that the client names, else its address; ``local`` on a unix socket."""
    user = "".join(c for c in request.headers.get(USER_FIELD, "") if c.isprintable())
    return user.strip()[:_MAX_ACTOR_LENGTH] or request.remote or "local"
