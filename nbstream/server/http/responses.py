"""What HTTP rooms read and answer: bodies of requests, JSON, and refusals in the form of the API of the path.

One table leads from the class of an error to status and detail: a detail names no host, path, key or exception.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Mapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any

import zstandard
from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError

from nbstream import errors
from nbstream.errors import NbstreamError, table_row
from nbstream.json_text import encode_json
from nbstream.mail.lines import ContentBuffer, is_blank
from nbstream.server import api_json
from nbstream.server.api_json import HttpProblem
from nbstream.server.limits import BytesInFlight, ListenerLimits, Reservation
from nbstream.server.message_service import REQUEST_ERRORS

RETRY_SECONDS = {429: 60, 503: 5}
"""When a client should try again, by the status of the answer."""


class RequestRefused(Exception):
    """A request is refused with this problem; if ``close`` is set, its connection is closed as well.

    ``allow`` is the value of the field Allow, where there is one.
    """

    def __init__(self, status: int, detail: str, *, close: bool = False, allow: str | None = None) -> None:
        super().__init__(detail)
        self.problem = HttpProblem(status, detail)
        self.close = close
        self.allow = allow


TEXT_TYPE = "text/plain; charset=utf-8"


class ApiResponse(web.StreamResponse):
    """An answer of an API. Its head is made as one text, and is written together with the whole body.

    aiohttp's own response looks at each field several times, which takes 6 % of a check.
    """

    _request: web.BaseRequest

    def __init__(self, body: bytes, content_type: str, status: int = 200) -> None:
        super().__init__(status=status, headers={"Content-Type": content_type})
        self.body = body

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open behind the answer."""
        return super().keep_alive is not False

    async def prepare(self, request: web.BaseRequest) -> None:
        """Keep the request that is answered; ``write_eof`` writes the answer."""
        self._request = request
        if not request.keep_alive:
            self.force_close()

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the answer."""
        request, content = self._request, self.body
        version, connection = request.version, ""
        if self.keep_alive != (version >= HttpVersion11):  # else the version says it (RFC 9112 9.3)
            connection = f"Connection: {'keep-alive' if self.keep_alive else 'close'}\r\n"
        fields = "".join([f"{name}: {value}\r\n" for name, value in self.headers.items()])
        head = (
            f"HTTP/{version.major}.{version.minor} {self.status} {self.reason}\r\n{fields}"
            f"Content-Length: {len(content)}\r\nDate: {_http_date(int(time.time()))}\r\n{connection}\r\n"
        ).encode("ascii")
        await request.writer.write(head if request.method == "HEAD" else head + content)
        await request.writer.drain()


@lru_cache(maxsize=1)
def _http_date(second: int) -> str:
    return formatdate(second, usegmt=True)


def json_response(body: Any, status: int = 200, content_type: str = "application/json") -> ApiResponse:
    """Return an answer; characters outside ASCII are escaped, because a terminal may show it."""
    return ApiResponse(encode_json(body), f"{content_type}; charset=utf-8", status)


def refusal_response(
    path: str, problem: HttpProblem, *, close: bool = False, allow: str | None = None
) -> ApiResponse:
    """Return the refusal: as RFC 9457 for nbstream's own API, otherwise in the form of rspamd.

    ``allow`` is the value of the field Allow, where there is one.
    """
    if path.startswith(api_json.PATH_PREFIX):
        answer = json_response(problem.body(), problem.status, api_json.PROBLEM_TYPE)
    else:
        answer = json_response({"error": problem.detail}, problem.status)
    if problem.status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    if problem.status in RETRY_SECONDS:
        answer.headers["Retry-After"] = str(RETRY_SECONDS[problem.status])
    if allow is not None:
        answer.headers["Allow"] = allow
    if close:
        answer.force_close()
    return answer


FAULT = HttpProblem(500, "this failed, the log says why")
"""The answer to a request that ended by a fault in nbstream."""

_TEMPORARY_FAILURE = HttpProblem(503, "Temporary failure, please try again later")

ERROR_PROBLEMS: Mapping[type[NbstreamError], HttpProblem] = {
    errors.StoreUnavailable: HttpProblem(503, "Learning is not possible now, please try again later"),
    errors.CountsFull: HttpProblem(
        503, "Learning is not possible until this has been seen to, please try again later"
    ),
    errors.CheckFailed: _TEMPORARY_FAILURE,
    errors.StoreIncompatible: _TEMPORARY_FAILURE,
}
"""A row for each of ``REQUEST_ERRORS``. A class without a row has that of its parent."""


def error_problem(error: NbstreamError) -> HttpProblem:
    """Return the problem that answers a request which ended with ``error``.

    An error that no request should end with has no row: it is a 503 if it is temporary, else a 500.
    """
    if isinstance(error, REQUEST_ERRORS):
        return table_row(ERROR_PROBLEMS, type(error))
    return _TEMPORARY_FAILURE if error.temporary else FAULT


# Request bodies: they are read in pieces within a deadline, and are bounded one by one and together.

_COMPRESSION_FIELD = "Compression"
_ENCODED_FIELDS = (_COMPRESSION_FIELD, "Key")
"""The fields by which a client of rspamd says that the body is compressed, or encrypted."""

_PIECE_BYTES = 1 << 16
_MAX_WINDOW_BYTES = 8 << 20  # what a decoder of RFC 8878 has to support at least


class BodyReader:
    """Reads the bodies of all requests of a listener; ``content_name`` is what a body must be, in refusals."""

    def __init__(
        self, limits: ListenerLimits, bytes_in_flight: BytesInFlight, content_name: str = "a message"
    ) -> None:
        self._limits = limits
        self._bytes_in_flight = bytes_in_flight
        self._content_name = content_name

    def reservation(self) -> Reservation:
        """Return a reservation, which counts the bytes of one body as in flight."""
        return Reservation(self._bytes_in_flight)

    async def read(
        self, request: web.BaseRequest, reservation: Reservation, *, may_be_zstd: bool = False
    ) -> bytes:
        """Return the body; its bytes count as in flight until the reservation is released.

        ``may_be_zstd``: a client may compress it as rspamd's do, and it is decompressed within the same limits.
        Raises ``RequestRefused``.
        """
        is_zstd = may_be_zstd and request.headers.get(_COMPRESSION_FIELD, "").strip().lower() == "zstd"
        _refuse_encoded(request, {_COMPRESSION_FIELD} if is_zstd else set())
        if (request.content_length or 0) > self._limits.max_message_bytes:
            raise self._too_large_error()
        content = ContentBuffer()
        try:
            if request.content.is_eof():  # a small body has arrived with its header: there is no wait
                self._add_piece(content, request.content.read_nowait(), reservation)
            else:
                async with asyncio.timeout(self._limits.message_timeout_seconds):
                    async for piece in request.content.iter_any():
                        self._add_piece(content, piece, reservation)
        except TimeoutError as error:
            raise RequestRefused(408, "the request did not arrive in time", close=True) from error
        except (web.RequestPayloadError, HttpProcessingError) as error:
            raise RequestRefused(400, "the body is not encoded as its header says", close=True) from error
        if is_zstd:
            await self._decompress(content, reservation)
        body = content.take()
        if not body[:1].strip() and await asyncio.to_thread(is_blank, body):
            raise RequestRefused(400, f"the body is empty: it must be {self._content_name}")
        return body

    async def _decompress(self, content: ContentBuffer, reservation: Reservation) -> None:
        """Put the decompressed content in the place of the compressed one, piece by piece within the limits."""
        packed = content.take()
        reservation.release()
        reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).stream_reader(packed)
        try:
            while piece := reader.read(_PIECE_BYTES):
                self._add_piece(content, piece, reservation)
                await asyncio.sleep(0)  # other tasks run between two pieces
        except zstandard.ZstdError as error:
            raise RequestRefused(400, "the body is not compressed as its header says", close=True) from error

    def _add_piece(self, content: ContentBuffer, piece: bytes, reservation: Reservation) -> None:
        if reservation.size + len(piece) > self._limits.max_message_bytes:
            raise self._too_large_error()
        if not reservation.add(len(piece)):
            raise RequestRefused(503, "too much is being read now, please try again later", close=True)
        content.append(piece)

    def _too_large_error(self) -> RequestRefused:
        return RequestRefused(
            413, f"{self._content_name} may have {self._limits.max_message_bytes} bytes at most", close=True
        )


def _refuse_encoded(request: web.BaseRequest, allowed: Container[str]) -> None:
    """Refuse a compressed or encrypted body: its tokens would be those of the encoded bytes."""
    headers = request.headers
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity" or any(name in headers for name in _ENCODED_FIELDS if name not in allowed):
        raise RequestRefused(415, "the body must be neither compressed nor encrypted", close=True)
