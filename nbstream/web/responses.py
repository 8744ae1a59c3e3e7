"""The responses of the page, with the header fields that keep a browser from doing anything else with them.

Rules: no answer may be framed, or run or load anything from elsewhere; nothing is stored but static files. No
script sees a cookie, and no other site sends one. A browser sends a cookie to all ports of a host, where there may
be several daemons, also behind forwarded ports: the name of each cookie has the port that the browser uses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from aiohttp import web

from nbstream.server.http.listener import SERVER_NAME
from nbstream.server.http.responses import RETRY_SECONDS

SECURITY_FIELDS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it, browsers hide the origin of our own forms too (Origin: null).
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": SERVER_NAME,
}
_MAX_PORT_DIGITS = 5
_MAX_LANGUAGE_FIELD = 500
_QUALITY = re.compile(r"q=([01](?:\.[0-9]{0,3})?)")
PAGE_FIELDS = {**SECURITY_FIELDS, "Cache-Control": "no-store"}


def html_response(html: str, status: int = 200) -> web.Response:
    """Return a page."""
    fields = {**PAGE_FIELDS, "Content-Type": "text/html; charset=utf-8"}
    if status in RETRY_SECONDS:
        fields["Retry-After"] = str(RETRY_SECONDS[status])
    return web.Response(body=html.encode("utf-8", "replace"), status=status, headers=fields)


def redirect(path: str) -> web.Response:
    """Send the browser to another page, which it gets with GET."""
    return web.Response(status=303, headers={**PAGE_FIELDS, "Location": path})


def cookie_name(name: str, host: str) -> str:
    """Return the name of a cookie in the browser, for the value of the field ``Host`` of its requests."""
    port = host.rpartition(":")[2]
    return f"{name}_{port}" if port.isascii() and port.isdigit() and len(port) <= _MAX_PORT_DIGITS else name


def read_cookie(request: web.BaseRequest, name: str) -> str:
    """Return the value of a cookie, empty where there is none."""
    return request.cookies.get(cookie_name(name, request.headers.get("Host", "")), "")


def set_cookie(
    response: web.Response, request: web.BaseRequest, name: str, value: str, seconds: int, *, path: str
) -> None:
    """Set a cookie for the paths below ``path``; where ``seconds`` is 0, remove it."""
    # A proxy that ended TLS may say so; a browser that sends a form does.
    headers = request.headers
    is_https = "https" in {
        headers.get("X-Forwarded-Proto", "").lower(),
        headers.get("Origin", "").partition(":")[0],
    }
    response.set_cookie(
        cookie_name(name, headers.get("Host", "")),
        value,
        max_age=seconds,
        path=path,
        httponly=True,
        samesite="Strict",
        secure=is_https or None,
    )


def choose_language(headers: Mapping[str, str], languages: Sequence[str]) -> str:
    """Return which of these languages a browser wants most (RFC 9110 12.5.4), the first where it wants none."""
    wanted: list[tuple[float, str]] = []
    for item in headers.get("Accept-Language", "")[:_MAX_LANGUAGE_FIELD].split(","):
        tag, _, parameter = item.partition(";")
        quality = _QUALITY.fullmatch(parameter.strip())
        wanted.append((float(quality[1]) if quality else 1.0, tag.strip().partition("-")[0].lower()))
    best = sorted((each for each in wanted if each[0] > 0), key=lambda each: -each[0])
    return next((tag for _, tag in best if tag in languages), languages[0])
