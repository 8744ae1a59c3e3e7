"""Answers of the HTTP listener: JSON, and refusals in the form of the API that the path belongs to.

One table leads from the class of an error to status and detail: a detail names no host, path, key or exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from nbstream import errors
from nbstream.errors import NbstreamError, table_row
from nbstream.server import api_json
from nbstream.server.api_json import HttpProblem, encode_json
from nbstream.server.message_service import is_request_error

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


def json_response(body: Any, status: int = 200, content_type: str = "application/json") -> web.Response:
    """Return an answer; characters outside ASCII are escaped, because a terminal may show it."""
    headers = {"Content-Type": f"{content_type}; charset=utf-8"}
    return web.Response(body=encode_json(body), status=status, headers=headers)


def refusal_response(
    path: str, problem: HttpProblem, *, close: bool = False, allow: str | None = None
) -> web.Response:
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
    if is_request_error(error):
        return table_row(ERROR_PROBLEMS, type(error))
    return _TEMPORARY_FAILURE if error.temporary else FAULT
