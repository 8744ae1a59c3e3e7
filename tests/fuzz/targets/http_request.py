"""The HTTP listener: whatever comes on a connection, each answer is well-formed and none says that we failed."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from nbstream.engine.choice import PYTHON
from nbstream.filter import Filter
from nbstream.filter.message_record import MessageRecord
from nbstream.listeners.bytes_in_flight import BytesInFlight
from nbstream.listeners.http.api_v1 import ApiLookups, ApiV1
from nbstream.listeners.http.bodies import BodyReader, HttpLimits
from nbstream.listeners.http.listener import HealthStatus, HttpListener, health_routes
from nbstream.listeners.http.rspamd import RspamdApi
from nbstream.listeners.message_service import MessageService
from nbstream.listeners.sockets import UnixListenAddress, open_listening_socket
from nbstream.metrics.daemon import DaemonMetrics
from nbstream.policy.verdict import ModelState, Thresholds
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.wire.api_v1 import ModelStatus
from tests.fuzz.memory_filter import memory_filter
from tests.fuzz.target import FuzzTarget
from tests.listeners.runtimes import make_runtime

_FOLDER = tempfile.TemporaryDirectory(prefix="nbstream-fuzz-")
_SOCKET = Path(_FOLDER.name) / "h.sock"
_MAX_BYTES = 1500
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3}) [ -~]+\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"OPTIONS"})
_FIELD = re.compile(rb"[A-Za-z-]+:")
_FRAMING = re.compile(rb"(?i)(?:content-length|transfer-encoding|connection|expect|upgrade)[ \t]*:")
_DOCUMENTED = frozenset({200, 208, 400, 401, 403, 404, 405, 408, 411, 413, 415, 417, 431, 501, 503})


class _Server:
    """The listener over a model in memory; it runs as long as the process does."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.bytes_in_flight = BytesInFlight(4 * _MAX_BYTES)
        self.runner.run(self._start())

    async def _start(self) -> None:
        model = MemoryModel()
        limits = HttpLimits(_MAX_BYTES, max_connections=10, request_timeout_seconds=5.0)
        runtime = make_runtime(memory_filter(model), allow_from=())
        service = MessageService("http", runtime, DaemonMetrics.create(PYTHON).delivery)
        bodies = BodyReader(limits, self.bytes_in_flight)
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
        await HttpListener(routes, None, limits, service).start(open_listening_socket(UnixListenAddress(_SOCKET)))

    async def ask(self, request: bytes) -> bytes:
        """Send a request, and return all that comes back until the listener closes the connection."""
        reader, writer = await asyncio.open_unix_connection(_SOCKET)
        try:
            writer.write(request)
            async with asyncio.timeout(20):
                return await reader.read()
        except ConnectionError:  # it closes a connection with the rest of what it refused unread
            return b""
        finally:
            writer.transport.abort()


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


_server = _Server()


def _check(data: bytes) -> None:
    request = _framed(data)
    answer = _server.runner.run(_server.ask(request))
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
    _server.runner.run(_settle())
    assert _server.bytes_in_flight.reserve(4 * _MAX_BYTES)
    _server.bytes_in_flight.release(4 * _MAX_BYTES)


def _framed(data: bytes) -> bytes:
    """Return a request with a length that is right: aiohttp reads what frames it, and that is tested there."""
    head, _, body = data.partition(b"\n\n")
    request, *fields = re.sub(rb"[\x00\r]", b"", head).split(b"\n")
    words = request.split(b" ")
    method, path = (*words, b"/v1/check")[:2]
    lines = [
        b"%s %s HTTP/1.1" % (method if method in _METHODS else b"POST", path or b"/"),
        *(field for field in fields if _FIELD.match(field) and not _FRAMING.match(field)),
        *(b"Content-Length: %d" % len(body), b"Connection: close"),
    ]
    return b"\r\n".join([*lines, b"", body])


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


async def _settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


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
