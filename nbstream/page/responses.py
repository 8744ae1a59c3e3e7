"""The responses of the page, with the header fields that keep a browser from doing anything else with them.

Rules: no answer may be framed, or run or load anything from elsewhere; nothing is stored but static files. No
script sees a cookie, and no other site sends one. A browser sends a cookie to all ports of a host, where there may
be several daemons, also behind forwarded ports: the name of each cookie has the port that the browser uses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from aiohttp import web

from nbstream.listeners.http.connections import SERVER_NAME
from nbstream.listeners.http.responses import RETRY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.listeners.http.connections import HttpConnection
    from nbstream.page.requests import Event


SECURITY_FIELDS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with it, browsers hide the origin of our own forms too (Origin: null).
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": SERVER_NAME,
}
_MAX_PORT_DIGITS = 5
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


# Server-sent events over HTTP: one answer that goes on until its reader goes.
#
# Rules: a reader that takes nothing for ten seconds is dropped; until then at most some buffers of 64 kB and one
# event wait for it. A comment is sent when there is no event for some seconds, so that proxies keep the
# connection, and a reader that is gone is noticed. The session is looked up as often. A drain closes the
# connection without waiting; the browser connects again by itself.

_log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 15.0
_SEND_SECONDS = 10.0
_KEEP_ALIVE = b":\n\n"


async def send_events(
    request: web.BaseRequest,
    connection: HttpConnection,
    events: asyncio.Queue[Event],
    fields: Mapping[str, str],
    is_allowed: Callable[[], Awaitable[bool]],
) -> web.StreamResponse:
    """Send the events until the client goes, or ``is_allowed`` returns False.

    ``is_allowed`` is asked every ``KEEP_ALIVE_SECONDS``.
    """
    response = web.StreamResponse(headers={**fields, "Content-Type": "text/event-stream"})
    response.force_close()
    try:
        await response.prepare(request)
        connection.stream_began()
        async with aclosing(_pieces(events, connection.lost, is_allowed)) as pieces:
            async for piece in pieces:
                async with asyncio.timeout(_SEND_SECONDS):
                    await response.write(piece)  # waits where 64 kB were not read
    except ConnectionError:
        _log.debug("http: the reader of events went away")
    except TimeoutError:
        _log.info("http: a reader of events was too slow")
        connection.force_close()
    except Exception:  # noqa: BLE001 - the answer has begun: only the log can say what a fault is
        _log.exception("http: events failed")
        connection.force_close()
    return response


async def _pieces(
    events: asyncio.Queue[Event], lost: asyncio.Event, is_allowed: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes to send: events, and comments where there is none for a while."""
    losing = asyncio.create_task(lost.wait(), name="page events: lost")
    coming: asyncio.Task[Event] | None = None
    now = asyncio.get_running_loop().time
    check_at = now() + KEEP_ALIVE_SECONDS
    try:
        while not lost.is_set():
            coming = coming or asyncio.create_task(events.get(), name="page events: next")
            await asyncio.wait({losing, coming}, timeout=check_at - now(), return_when=asyncio.FIRST_COMPLETED)
            if now() >= check_at:
                if not await is_allowed():
                    return
                check_at = now() + KEEP_ALIVE_SECONDS
                yield _KEEP_ALIVE
            if coming.done():
                event, coming = coming.result(), None
                yield encode_event(event)
    finally:
        running = [task for task in (losing, coming) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def encode_event(event: Event) -> bytes:
    """Return an event as bytes; JSON has no line ends of its own."""
    return b"event: %b\ndata: %b\n\n" % (event.name.encode(), event.data)
