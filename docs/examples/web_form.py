"""A contact form that keeps spam out, with a button that says what the filter got wrong. No mail is involved.

python web_form.py 8080
"""

import asyncio
import sys
from collections.abc import AsyncIterator

from aiohttp import web

from nbstream import Label, SpamFilter

SPAM_FILTER = web.AppKey("spam_filter", SpamFilter)
FORM = '<form method="post"><textarea name="text"></textarea><button>Send</button></form>'
LABELS: dict[str, Label] = {"spam": "spam", "ham": "ham"}


async def field(request: web.Request, name: str) -> str:
    """Return a field of the form; a request without it, or with a file in its place, is answered with 400."""
    try:
        value = (await request.post())[name]
    except (LookupError, ValueError):  # of a form that is none, too
        value = None
    if not isinstance(value, str):
        raise web.HTTPBadRequest(text=f"the form has no text in its field {name!r}\n")
    return value


async def show(_: web.Request) -> web.Response:
    """Show the form."""
    return web.Response(text=FORM, content_type="text/html")


async def receive(request: web.Request) -> web.Response:
    """Take a text, unless it is spam."""
    result = await asyncio.to_thread(request.app[SPAM_FILTER].check, await field(request, "text"))
    if result.verdict == "spam":
        return web.json_response({"taken": False, "probability": result.probability}, status=422)
    return web.json_response({"taken": True, "probability": result.probability, "id": result.id})


async def correct(request: web.Request) -> web.Response:
    """Learn what somebody who reads the texts says; put a login before this in a real site."""
    label = LABELS.get(await field(request, "label"))
    if label is None:
        raise web.HTTPBadRequest(text="the label must be ham or spam\n")
    text = await field(request, "text")
    lesson = await asyncio.to_thread(request.app[SPAM_FILTER].learn, text, label, actor="editor")
    return web.json_response({"outcome": lesson.outcome, "probability": lesson.after.probability})


async def with_filter(app: web.Application) -> AsyncIterator[None]:
    """Open the filter with the application, and close it at its end."""
    settings = {"model": {"min_learned": 10}, "verdict": {"spam": 0.75}}
    with SpamFilter.open("form.nbs", settings) as spam_filter:
        app[SPAM_FILTER] = spam_filter
        yield


def make_app() -> web.Application:
    """Return the application."""
    app = web.Application()
    app.cleanup_ctx.append(with_filter)
    app.add_routes([web.get("/", show), web.post("/", receive), web.post("/correct", correct)])
    return app


if __name__ == "__main__":
    web.run_app(make_app(), host="127.0.0.1", port=int(sys.argv[1]))
