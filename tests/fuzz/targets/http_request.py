"""The HTTP listener: whatever comes on a connection, each answer is well-formed and none says that we failed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator

from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.filter import Filter
from nbstream.filter.filter import MessageRecord
from nbstream.listeners.http.api_v1 import ApiLookups, ApiV1
from nbstream.listeners.rspamd.api import RspamdApi
from nbstream.policy.verdict import ModelState, Thresholds
from nbstream.server.api_json import ModelStatus
from nbstream.server.http.listener import HealthStatus, HttpListener, health_routes
from nbstream.server.http.responses import BodyReader
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.server.message_service import MessageService
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.recent.checked_messages import CheckedMessage
from tests.fuzz.http_exchange import HttpExchange, framed
from tests.fuzz.target import FuzzTarget
from tests.harness.memory_filter import memory_filter
from tests.harness.runtimes import make_runtime

_MAX_BYTES = 1500
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3}) [ -~]+\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_DOCUMENTED = frozenset({200, 208, 400, 401, 403, 404, 405, 408, 411, 413, 415, 417, 431, 501, 503})


async def _health() -> HealthStatus:
    return HealthStatus(ready=True, degraded={})


async def _message_record(spam_filter: Filter, message_key: str) -> MessageRecord | None:
    return None


async def _no_messages() -> AsyncIterator[CheckedMessage]:
    nothing: tuple[CheckedMessage, ...] = ()
    for message in nothing:
        yield message


def _model_status() -> ModelStatus:
    return ModelStatus("test", ModelState({"ham": 1, "spam": 1}), 3, Thresholds(), 0.5)


def _start() -> HttpExchange:
    model = MemoryModel()
    limits = ListenerLimits(_MAX_BYTES, 10, idle_timeout_seconds=5.0, message_timeout_seconds=5.0)
    runtime = make_runtime(memory_filter(model), allow_from=())
    service = MessageService("http", runtime, DaemonMetrics.create(PYTHON).delivery, limits, _bytes_in_flight)
    bodies = BodyReader(limits, _bytes_in_flight)
    lookups = ApiLookups("test", _model_status, lambda key: _message_record(runtime.spam_filter, key))
    rspamd = RspamdApi(
        service,
        bodies,
        lookups,
        version="1",
        health=_health,
        verdicts=dict,
        recent=lambda *_: _no_messages(),
    )
    routes = [*health_routes(_health), *ApiV1(service, bodies, lookups, "1").routes(), *rspamd.routes()]
    return HttpExchange(asyncio.Runner(), HttpListener(routes, message_service=service))


_bytes_in_flight = BytesInFlight(4 * _MAX_BYTES)
_exchange = _start()


def _check(data: bytes) -> None:
    request = framed(data)
    answer = _exchange.answer(request)
    if answer:
        status = _STATUS_LINE.match(answer)
        assert status is not None
        assert int(status[1]) in _DOCUMENTED
        head, _, body = answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        assert length is not None
        if not request.startswith(b"HEAD "):
            assert len(body) == int(length[1])
        if b"json" in head.lower() and body:
            json.loads(body, parse_constant=_refuse)
    assert _bytes_in_flight.reserve(4 * _MAX_BYTES)
    _bytes_in_flight.release(4 * _MAX_BYTES)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


_MESSAGE = b"From: win@example.com\nSubject: prize\nMessage-ID: <1@x>\n\nClaim your free prize\n"

TARGET = FuzzTarget(
    _check,
    (
        b"POST /v1/check\nHost: x\n\n" + _MESSAGE,
        b"POST /v1/learn?label=spam\nHost: x\nUser: ann\n\n" + _MESSAGE,
        b"POST /v1/check\nHost: x\nContent-Type: text/plain; charset=windows-1253\n\n" + b"\xd2" * 50,
        b"POST /v1/unlearn\nHost: x\nContent-Type: message/rfc822\n\n" + _MESSAGE,
        b"POST /checkv2\nHost: x\nRcpt: <a@b>\nRcpt: c@d\n\n" + _MESSAGE,
        b"POST /learnclass\nHost: x\nClass: ham\n\n" + _MESSAGE,
        b"POST /learnham\nHost: x\nCompression: zstd\n\n" + _MESSAGE,
        b"POST /v1/check\nHost: x\n\n" + b"x" * 1600,
        b"POST /v1/check\nHost: x\n\n",
        b"GET /v1/messages/aaaaaaaaaaaaaaaaaaaaaaaa\nHost: x\n\n",
        b"GET /history\nHost: x\nOrigin: http://x\n\n",
        b"HEAD /symbols\nHost: x\n\n",
        b"GET /v1/model\nHost: x\n\n",
        b"GET /stat\nHost: x\n\n",
        b"PUT /v1/%00/../check?label=a&label=b\nHost: x\nContent-Encoding: gzip\n\nx",
    ),
    words=(
        *(
            b"POST /v1/check",
            b"GET /readyz",
            b"\n\n",
            b"Content-Type: text/plain; charset=",
            b"?label=ham",
            b"%00",
        ),
        *(b"%ff", b"\nUser: ", b"\nRcpt: ", b"\nClass: spam", b"\nContent-Encoding: identity", b"http://x:99999/"),
    ),
    mutations=150,
)
