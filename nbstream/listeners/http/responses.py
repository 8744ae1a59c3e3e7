"""Answers of the HTTP listener: JSON, and refusals in the form of the API that the path belongs to."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from nbstream.wire import api_v1, rspamd
from nbstream.wire.api_v1 import HttpProblem
from nbstream.wire.json_text import encode_json

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
    if path.startswith(api_v1.PATH_PREFIX):
        answer = json_response(problem.body(), problem.status, api_v1.PROBLEM_TYPE)
    else:
        answer = json_response(rspamd.error_to_json(problem.detail), problem.status)
    if problem.status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    if problem.status in RETRY_SECONDS:
        answer.headers["Retry-After"] = str(RETRY_SECONDS[problem.status])
    if allow is not None:
        answer.headers["Allow"] = allow
    if close:
        answer.force_close()
    return answer
