"""The page over HTTP: routes, roles, forms, answers, and what browsers are told not to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest
from redis.asyncio import Redis

from nbstream.listeners.http.page.requests import (
    Answer,
    Json,
    Page,
    PageRefused,
    PageRequest,
    Redirect,
    Role,
)
from nbstream.listeners.http.page.routes import PageRoute
from tests.listeners.http.page.page_listener import PageListener, open_page, title_of


class EchoView:
    """Answers with what it was asked; ``requests`` has all that reached it."""

    def __init__(self) -> None:
        self.requests: list[PageRequest] = []

    def routes(self) -> Iterable[PageRoute]:
        return (
            PageRoute("GET", "/ui/", self._echo),
            PageRoute("GET", "/ui/echo/{id}", self._echo),
            PageRoute("POST", "/ui/echo", self._change),
            PageRoute("GET", "/ui/data", self._data),
            PageRoute("GET", "/ui/secret", self._echo, Role.TEACH),
            PageRoute("GET", "/ui/refused", self._refuse),
        )

    async def _echo(self, request: PageRequest) -> Answer:
        self.requests.append(request)
        return Page("error.html", {"heading": "Echo", "detail": request.path_id})

    async def _change(self, request: PageRequest) -> Answer:
        self.requests.append(request)
        return Redirect("/ui/", flash="<b>Done</b>")

    async def _data(self, request: PageRequest) -> Answer:
        self.requests.append(request)
        return Json({"query": dict(request.query)})

    async def _refuse(self, _: PageRequest) -> Answer:
        raise PageRefused(404, "there is <nothing>")


@pytest.fixture
def view() -> EchoView:
    return EchoView()


@pytest.fixture
async def page(client: Redis, view: EchoView) -> AsyncIterator[PageListener]:
    async with open_page(client, view) as running:
        yield running


async def test_a_view_answers_whoever_has_logged_in(page: PageListener, view: EchoView) -> None:
    async with page.browser(Role.READ) as browser:
        answer = await browser.get("/ui/echo/%3Cid%3E?a=1&a=2&b=%FF&c")

    assert (answer.status, title_of(answer.text)) == (200, "Echo · nbstream")
    assert "&lt;id&gt;" in answer.text
    assert view.requests[0].path_id == "<id>"
    assert view.requests[0].query == {"a": "1", "b": "\N{REPLACEMENT CHARACTER}", "c": ""}
    assert view.requests[0].session.name == "page tester"


async def test_who_has_not_logged_in_is_sent_to_the_login_and_then_to_the_page(
    page: PageListener, view: EchoView
) -> None:
    async with page.browser() as browser:
        answer = await browser.get("/ui/echo/a?x=1")
        assert (answer.status, answer.target) == (303, "/ui/login?to=/ui/echo/a%3Fx%3D1")
        assert (await browser.get("/ui/echo/a", Accept="*/*")).status == 403
        assert (await browser.post("/ui/echo", {})).status == 403
    assert view.requests == []
