"""rspamd's API: thin handlers between the codec and the message service, for clients of rspamd."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from nbstream.listeners.http.api_v1 import ApiLookups, actor_of_request
from nbstream.listeners.rspamd import codec as rspamd
from nbstream.policy.sender_lists import Sender
from nbstream.server.connections import Peer
from nbstream.server.http.access import Role, requesters
from nbstream.server.http.listener import HealthStatus, Route
from nbstream.server.http.responses import TEXT_TYPE, ApiResponse, RequestRefused, json_response

if TYPE_CHECKING:
    from nbstream.server.http.responses import BodyReader
    from nbstream.server.message_service import MessageService
    from nbstream.store.recent.checked_messages import CheckedMessage

_HISTORY_LENGTH = 200


class RspamdApi:
    """The handlers of the paths that clients of rspamd use.

    ``verdicts`` returns the number of messages checked since the start, by verdict; ``recent`` yields the last
    messages that are remembered.
    """

    def __init__(  # noqa: PLR0913 - the answers contain all of these
        self,
        message_service: MessageService,
        bodies: BodyReader,
        lookups: ApiLookups,
        *,
        version: str,
        health: Callable[[], Awaitable[HealthStatus]],
        verdicts: Callable[[], Mapping[str, int]],
        recent: Callable[[int], AsyncIterator[CheckedMessage]],
    ) -> None:
        self._message_service = message_service
        self._body_reader = bodies
        self._lookups = lookups
        self._version = version
        self._health = health
        self._verdicts = verdicts
        self._newest_messages = recent
        self._started = time.monotonic()

    def routes(self) -> Iterable[Route]:
        """Return the route of each handler."""
        return (
            Route("POST", "/checkv2", self._check),
            Route("POST", "/learnspam", partial(self._learn, label="spam"), Role.TEACH),
            Route("POST", "/learnham", partial(self._learn, label="ham"), Role.TEACH),
            Route("POST", "/learnclass", self._learn_class, Role.TEACH),
            Route("GET", "/stat", self._stat),
            Route("GET", "/history", self._history),
            Route("GET", "/symbols", self._symbols),
            Route("GET", "/counters", self._counters),
            Route("GET", "/auth", self._auth),
            Route("GET", "/ping", self._ping, None),
            Route("GET", "/healthy", self._healthy, None),
            Route("GET", "/ready", self._ready, None),
        )

    async def _check(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._body_reader.reservation() as held:
            content = await self._body_reader.read(request, held, may_be_zstd=True)
            handler = self._message_service.message_handler()
            message = await handler.parse_mail(content)
            recipients, peer = _recipients(request), Peer(request.remote or None)
            may_teach = self._message_service.teachers.may_teach
            is_vouched_for = all(map(may_teach, requesters(peer, request.headers.items())))
            check, seconds = await handler.check(message, recipients, _sender(request, is_vouched_for))
            header_policy = handler.runtime.header_policy
            edits, acts = header_policy.edits(check), not header_policy.observes
            return json_response(rspamd.check_to_json(check, edits, message, seconds, acts=acts))

    async def _learn_class(self, request: web.BaseRequest) -> web.StreamResponse:
        label = request.headers.get(rspamd.CLASS_FIELD, "")
        class_names = self._message_service.runtime.spam_filter.policy.class_names
        if label not in class_names:
            raise RequestRefused(400, f"{rspamd.CLASS_FIELD} must be one of {', '.join(class_names)}")
        return await self._learn(request, label)

    async def _learn(self, request: web.BaseRequest, label: str) -> web.StreamResponse:
        with self._body_reader.reservation() as held:
            content = await self._body_reader.read(request, held, may_be_zstd=True)
            handler = self._message_service.message_handler()
            message = await handler.parse_taught_mail(content)
            lesson = await handler.learn(message, label, actor_of_request(request), user=_teacher(request))
        status, body = rspamd.lesson_response(lesson)
        return json_response(body, status)

    @property
    def _uptime(self) -> float:
        return time.monotonic() - self._started

    async def _stat(self, _: web.BaseRequest) -> web.StreamResponse:
        status = self._lookups.loaded_model_status()
        return json_response(rspamd.status_to_json(status, self._version, self._uptime, self._verdicts()))

    async def _auth(self, _: web.BaseRequest) -> web.StreamResponse:
        return json_response({"auth": "ok", "version": self._version, "uptime": int(self._uptime)})

    async def _counters(self, _: web.BaseRequest) -> web.StreamResponse:
        return json_response(rspamd.counters_to_json(self._verdicts()))

    async def _history(self, _: web.BaseRequest) -> web.StreamResponse:
        thresholds = self._lookups.loaded_model_status().thresholds
        recent = [message async for message in self._newest_messages(_HISTORY_LENGTH)]
        return json_response(rspamd.history_to_json(recent, thresholds))

    async def _symbols(self, _: web.BaseRequest) -> web.StreamResponse:
        return json_response(rspamd.symbols_to_json())

    async def _ping(self, _: web.BaseRequest) -> web.StreamResponse:
        return ApiResponse(b"pong\r\n", TEXT_TYPE)

    async def _healthy(self, _: web.BaseRequest) -> web.StreamResponse:
        return json_response({"success": True})

    async def _ready(self, _: web.BaseRequest) -> web.StreamResponse:
        if not (await self._health()).ready:
            raise RequestRefused(503, "mail cannot be scored and relayed now")
        return json_response({"success": True})


def _sender(request: web.BaseRequest, is_vouched_for: bool) -> Sender:
    """Return who sent the message, as far as the client names it."""
    address, fields = request.headers.get(rspamd.SENDER_FIELD), request.headers
    return Sender(
        None if address is None else address.strip().strip("<>"),
        fields.get(rspamd.CLIENT_FIELD, "").strip(),
        fields.get(rspamd.USER_FIELD, "").strip(),
        is_vouched_for,
    )


def _recipients(request: web.BaseRequest) -> Sequence[str]:
    """Return the addresses of the recipients that the client names: the mailbox alone, where it names that."""
    fields = request.headers.getall(rspamd.MAILBOX_FIELD, ()) or request.headers.getall(rspamd.RECIPIENT_FIELD, ())
    return [recipient.strip().strip("<>") for recipient in fields]


def _teacher(request: web.BaseRequest) -> str:
    """Return the address of who teaches, as far as the client names it."""
    names = (request.headers.get(name, "") for name in (rspamd.USER_FIELD, rspamd.MAILBOX_FIELD))
    return next((name.strip().strip("<>") for name in names if name.strip()), "")
